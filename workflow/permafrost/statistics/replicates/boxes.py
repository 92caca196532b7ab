"""Scores of detections with an area: COCO's, and recall, precision and F1 at a score threshold."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from permafrost.data.labels.objects import Objects
from permafrost.metrics.detection.axes import make_axes
from permafrost.metrics.detection.evaluate import solve
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.tables import Categories, Detections, Images, Truths
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.resampled import replicates
from permafrost.metrics.detection.summarise import Statistic
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.hits import count_hits
from permafrost.metrics.objects.shapes import ObjectShape
from permafrost.metrics.ratios import ratios_of_hits
from permafrost.statistics.resampling.carriers import units_with_truth

# caps of ``AR1`` and ``AR10``; at most the largest cap
_CAPS = (1, 10)


class BoxScores:
    """Detected boxes, upright or oriented, or masks of the images of a test set, matched with the truth.

    Parameters
    ----------
    objects, detections : of every image.
    sizes : (N, 2) height and width of the images.
    classes : names of the K classes.
    score_threshold : see `DetectedObjects`.
    max_detections : the largest cap of COCO's scores.
    shape : shape whose IoU counts.
    """

    def __init__(
        self,
        objects: list[Objects],
        detections: list[Detected],
        sizes,
        *,
        classes: list[str],
        score_threshold: float,
        max_detections: int,
        shape: ObjectShape,
    ) -> None:
        self.evaluation = _evaluate(objects, detections, sizes, classes, max_detections, shape)
        self.shape = shape
        self.objects, self.detections = objects, detections
        self.score_threshold = score_threshold
        cap = max_detections
        self.per_class = [
            Statistic("class_AP", "precision", None, "all", cap),
            Statistic("class_AP50", "precision", 0.5, "all", cap),
        ]
        self.overall = [
            Statistic("AP", "precision", None, "all", cap),
            Statistic("AP50", "precision", 0.5, "all", cap),
            Statistic("AP75", "precision", 0.75, "all", cap),
            *(Statistic(f"AP{a[0]}", "precision", None, a, cap) for a in _AREAS),
            *(Statistic(f"AR{c}", "recall", None, "all", min(c, cap)) for c in _CAPS),
            Statistic("AR", "recall", None, "all", cap),
            *(Statistic(f"AR{a[0]}", "recall", None, a, cap) for a in _AREAS),
        ]

    @cached_property
    def counts(self) -> np.ndarray:
        """(3, N) int64: hits, truths and detections above the threshold, of every image."""
        shape = self.shape
        found = [
            count_hits(
                shape.kind,
                shape.of(objects),
                objects.crowd,
                shape.of(detections.above(self.score_threshold)),
                threshold=shape.threshold(None),
            )
            for objects, detections in zip(self.objects, self.detections, strict=True)
        ]
        return np.array(found, np.int64).reshape(-1, 3).T

    def holders(self, metric: str, units: np.ndarray) -> np.ndarray | None:
        """(K,) units with truth of each class in the metric's area range; see `SingleLabel`."""
        ranges = {one.name: one.area for one in (*self.overall, *self.per_class)}
        return (
            units_with_truth(self.evaluation, units)[ranges[metric]] if metric in ranges else None
        )

    def ratios(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Metric name to (B,), from (3, B) weighted sums of `counts`."""
        return ratios_of_hits("box", *sums)

    def curve_values(self) -> dict:
        """COCO's scores of the whole test set: name to a float, or (K,); NaN for COCO's -1."""
        evaluation = self.evaluation
        values: dict = {each.name: _defined(evaluation.value(each)) for each in self.overall}
        for each in self.per_class:
            of_class = evaluation.average_precision(threshold=each.threshold)
            values[each.name] = np.where(of_class == -1, np.nan, of_class)
        return values

    def curve_replicates(self, counts: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
        """The `wanted` COCO scores on resamples that draw image i counts[i] times."""
        each = [one for one in self.per_class if one.name in wanted]
        others = [one for one in self.overall if one.name in wanted]
        if not each and not others:
            return {}
        drawn = replicates(self.evaluation, [*each, *others], counts, each=len(each))
        values = {one.name: of_class for one, of_class in zip(each, drawn.categories, strict=True)}
        pooled = zip(others, drawn.values[len(each) :], strict=True)
        return {**values, **{one.name: value for one, value in pooled}}


_AREAS = ("small", "medium", "large")


def _defined(value: float) -> float:
    return math.nan if value == -1 else value


def _evaluate(
    objects, detections, sizes, classes: list[str], cap: int, shape: ObjectShape
) -> Evaluation:
    """The result of `metrics.detection.evaluate` on the same data as COCO JSON, without the JSON.

    Images, classes and objects are numbered in input order.
    """
    settings = Settings(shape.kernel)
    images, categories = len(objects), len(classes)
    truth_image = np.repeat(np.arange(images), [len(each) for each in objects])
    boxes = _joined([each.boxes for each in objects], (0, 4))
    crowd = _joined([each.crowd for each in objects], (0,)).astype(bool)
    truths = Truths(
        source="objects",
        images=Images(np.arange(1, images + 1), sizes[:, 1], sizes[:, 0]),
        categories=Categories(np.arange(1, categories + 1), tuple(classes)),
        entries=np.arange(len(truth_image)),
        ids=np.arange(1, len(truth_image) + 1),
        image=truth_image,
        category=_joined([each.classes for each in objects], (0,)).astype(np.int64),
        boxes=_with_sides(boxes),
        areas=_joined([each.areas for each in objects], (0,)),
        crowd=crowd,
        ignored=crowd.copy(),
        **shape.geometry(objects),
    )
    image = np.repeat(np.arange(images), [len(each) for each in detections])
    boxes = _with_sides(_joined([each.boxes for each in detections], (0, 4)))
    detected = Detections(
        source="detections",
        entries=np.arange(len(image)),
        ids=np.arange(1, len(image) + 1),
        image=image,
        category=_joined([each.classes for each in detections], (0,)).astype(np.int64),
        scores=_joined([each.scores for each in detections], (0,)),
        boxes=boxes,
        areas=shape.areas(detections),
        **shape.geometry(detections),
    )
    problem = Problem(
        truths=truths,
        detections=detected,
        truth_masks=None,
        detection_masks=None,
        boundary_ratio=settings.boundary_ratio,
        sigmas=None,
    )
    caps = sorted({*(min(each, cap) for each in _CAPS), cap})
    return solve(problem, settings, make_axes(settings.iou_type, max_dets=caps), ())


def _joined(arrays: list[np.ndarray], empty: tuple[int, ...]) -> np.ndarray:
    return np.concatenate([np.empty(empty), *arrays])


def _with_sides(corners: np.ndarray) -> np.ndarray:
    """(N, 4) x, y, width, height."""
    return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
