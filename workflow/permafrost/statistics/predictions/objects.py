"""Predictions of objects: truth and detections of every whole image, matched once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.labels.objects import Objects, objects_of
from permafrost.metrics.objects.detected import OUTLINES, Detected, detected_of
from permafrost.metrics.objects.shapes import object_shape
from permafrost.metrics.tasks import class_metrics, overall_metrics
from permafrost.statistics.predictions.charts import detection_charts
from permafrost.statistics.predictions.columns import array_of, groups_of, need_columns, sorted_rows
from permafrost.statistics.replicates.boxes import BoxScores
from permafrost.statistics.replicates.pixels import sum_by_unit, weighted_sums
from permafrost.statistics.replicates.points import PointScores
from permafrost.statistics.resampling.resamples import Resamples

_REMEDY = "run its evaluation again"


@dataclass(frozen=True)
class ObjectScoring:
    """Scoring rules for the detections of a dataset.

    Attributes
    ----------
    task : ``detection``, ``point_detection`` or another task of objects.
    score_threshold : detections with lower scores are excluded from recall, precision, F1 and
        counts.
    max_detections : detections per image and class used for average precision of boxes.
    match_distance : pixels within which a detection matches a point; None for boxes.

    Raises
    ------
    PermafrostError : points without a distance.
    """

    task: str
    classes: list[str]
    score_threshold: float
    max_detections: int = 100
    match_distance: float | None = None

    def __post_init__(self) -> None:
        of_points = targets_of(self.task).points
        if of_points and not (self.match_distance and self.match_distance > 0):
            raise PermafrostError(
                f"points cannot be matched within a distance of {self.match_distance} pixels",
                remedy=_REMEDY,
            )


@dataclass(frozen=True)
class DetectedObjects:
    """Predictions of the tasks of objects; see `Predictions`.

    Attributes
    ----------
    objects : of every whole image, including crowds.
    detections : of every whole image.
    sizes : (N, 2) height and width of the images.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    objects: list[Objects]
    detections: list[Detected]
    sizes: np.ndarray
    scoring: ObjectScoring

    dead_classes = ()
    boundary = False

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def task(self) -> str:
        return self.scoring.task

    @property
    def classes(self) -> list[str]:
        return self.scoring.classes

    @property
    def rules(self) -> tuple:
        """Caps and distances of the dataset, the same for all its evaluations."""
        return self.scoring.max_detections, self.scoring.match_distance

    @cached_property
    def truth(self) -> np.ndarray:
        """(N, K) objects of each class, without crowds."""
        return self._per_class([each.classes[~each.crowd] for each in self.objects])

    @cached_property
    def truth_keys(self) -> np.ndarray:
        """(N,) digests of all objects and of the image size."""
        keys = []
        for one, size in zip(self.objects, self.sizes, strict=True):
            columns = (size, one.classes, one.boxes, one.areas, one.crowd)
            content = b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
            keys.append(hashlib.blake2b(content, digest_size=16).hexdigest())
        return np.array(keys)

    @cached_property
    def answers(self) -> np.ndarray:
        """(N, K) detections of each class, with any score."""
        return self._per_class([each.classes for each in self.detections])

    @classmethod
    def from_arrays(
        cls,
        sample_ids,
        objects: list[Objects],
        detections: list[Detected],
        sizes,
        scoring: ObjectScoring,
        groups=None,
    ) -> DetectedObjects:
        """From rows in any order.

        Raises
        ------
        PermafrostError : class ids that are not in `scoring`; corners that are not finite or in the
            wrong order; scores that are not finite.
        """
        order, ids, groups = sorted_rows(sample_ids, groups)
        for what, rows in (("objects", objects), ("detections", detections)):
            for place in order.tolist():
                _check(rows[place], what, sample_ids[place], classes=len(scoring.classes))
        return cls(
            ids,
            groups,
            [objects[place] for place in order.tolist()],
            [detections[place] for place in order.tolist()],
            np.asarray(sizes, np.int64).reshape(-1, 2)[order],
            scoring,
        )

    @classmethod
    def from_table(cls, table, metadata: dict) -> DetectedObjects:
        """From a prediction table; see `predictions_from_table`.

        Raises
        ------
        PermafrostError : a missing column, a null, or no score threshold.
        """
        need_columns(table, ("sample_id", "height", "width", "objects", "detections"))
        threshold = metadata["settings"].get("score_threshold")
        if threshold is None:
            raise PermafrostError("the prediction table has no score threshold", remedy=_REMEDY)
        for name in ("objects", "detections"):
            if table.column(name).null_count:
                raise PermafrostError(
                    f"the column {name!r} of the prediction table has empty entries",
                    remedy=_REMEDY,
                )
        return cls.from_arrays(
            table.column("sample_id").to_pylist(),
            objects_of(table.column("objects")),
            detected_of(table.column("detections"), *_further(table)),
            np.stack([array_of(table, name) for name in ("height", "width")], axis=1),
            ObjectScoring(
                metadata["task"],
                list(metadata["classes"]),
                float(threshold),
                metadata["detection"]["max_detections"],
                metadata["detection"]["match_distance"],
            ),
            groups_of(table),
        )

    @cached_property
    def scores(self) -> BoxScores | PointScores:
        """The detections matched with the truth."""
        common: dict[str, Any] = {
            "classes": self.classes,
            "score_threshold": self.scoring.score_threshold,
        }
        if targets_of(self.task).points:
            return PointScores(
                self.objects, self.detections, match_distance=self.scoring.match_distance, **common
            )
        return BoxScores(
            self.objects,
            self.detections,
            self.sizes,
            max_detections=self.scoring.max_detections,
            shape=object_shape(self.task),
            **common,
        )

    def evaluate(self) -> dict:
        """Every metric on the whole test set."""
        sums = self.scores.counts.sum(axis=1, keepdims=True)
        values = {name: float(ratio[0]) for name, ratio in self.scores.ratios(sums).items()}
        return self._ordered({**self.scores.curve_values(), **values})

    def family(self, units: np.ndarray) -> ObjectFamily:
        """Every metric on resamples of the units."""
        return ObjectFamily(self, units)

    def charts(self) -> dict:
        """Details for charts (`charts.detection_charts`)."""
        return detection_charts(self)

    def _ordered(self, values: dict) -> dict:
        names = overall_metrics(self.task, len(self.classes)) + class_metrics(self.task)
        return {name: values[name] for name in names if name in values}

    def _per_class(self, ids: list[np.ndarray]) -> np.ndarray:
        width = len(self.classes)
        counts = [np.bincount(each, minlength=width) for each in ids]
        return np.stack(counts) if counts else np.zeros((0, width), np.int64)


class ObjectFamily:
    """Every metric on many resamples at once, without matching again.

    Values from curves count every detection as often as its image was drawn; the others are
    ratios of sums over images.

    Parameters
    ----------
    units : (N,) unit of each image.
    """

    def __init__(self, predictions: DetectedObjects, units) -> None:
        self.predictions, self.units = predictions, np.asarray(units)
        self.sums = sum_by_unit(predictions.scores.counts, self.units)

    def holders(self, metric: str) -> np.ndarray | None:
        """As in `families.SingleLabel`: for a class, the units with an object that counts."""
        return self.predictions.scores.holders(metric, self.units)

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (K, B) per class, on each resample; NaN if undefined."""
        scores, task = self.predictions.scores, self.predictions.task
        names = overall_metrics(task, len(self.predictions.classes)) + class_metrics(task)
        wanted = set(names if metrics is None else metrics)
        values = scores.curve_replicates(resamples.counts[self.units], wanted)
        if wanted - set(values):
            values.update(scores.ratios(weighted_sums(self.sums, resamples)))
        return {name: values[name] for name in names if name in wanted}


def _further(table) -> list:
    """The column of outlines, if there is one."""
    return [table.column(name) for name in (OUTLINES,) if name in table.column_names]


def _check(rows, what: str, image, *, classes: int) -> None:
    """Refuse objects or detections of one image that cannot be scored."""
    problem = None
    if not np.isfinite(rows.boxes).all() or (rows.boxes[:, 2:] < rows.boxes[:, :2]).any():
        problem = "corners that are not finite or lie the wrong way round"
    elif ((rows.classes < 0) | (rows.classes >= classes)).any():
        problem = f"class ids that are not those of its {classes} classes"
    elif isinstance(rows, Detected) and not np.isfinite(rows.scores).all():
        problem = "scores that are not finite"
    elif (
        isinstance(rows, Detected)
        and not np.isfinite(0 if rows.outlines is None else rows.outlines).all()
    ):
        problem = "outlines that are not eight finite numbers each"
    if problem:
        raise PermafrostError(
            f"the {what} of the image {image} in the prediction table have {problem}",
            remedy=_REMEDY,
        )
