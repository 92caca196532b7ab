"""Average precision by COCO's rules from objects and detections in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.data.labels.objects import Objects
from permafrost.metrics.detection.axes import make_axes
from permafrost.metrics.detection.evaluate import solve
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.tables import Categories, Detections, Images, Truths
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.detected import Detected, join

#: caps of ``AR1`` and ``AR10``; at most the largest cap
CAPS = (1, 10)


def evaluate_objects(
    objects: Sequence[Objects],
    detections: Sequence[Detected],
    sizes,
    classes: Sequence[str],
    cap: int,
    *,
    masks: tuple[Masks, Masks] | None = None,
) -> Evaluation:
    """The result of `metrics.detection.evaluate` on the same data as COCO JSON, without the JSON.

    Images, classes and objects are numbered in input order.

    Parameters
    ----------
    objects, detections : of every image.
    sizes : (N, 2) height and width of the images.
    cap : largest number of detections of a class on an image.
    masks : those of all objects and of all detections, in order, to compare them in place of boxes.
        A detection then has the area of its mask.
    """
    sizes = np.asarray(sizes, np.int64).reshape(-1, 2)
    truth, found = Objects.joined(objects), join(list(detections))
    boxes = _with_sides(found.boxes)
    truths = Truths(
        source="objects",
        images=Images(np.arange(1, len(sizes) + 1), sizes[:, 1], sizes[:, 0]),
        categories=Categories(np.arange(1, len(classes) + 1), tuple(classes)),
        **_numbered(objects, truth.classes),
        boxes=_with_sides(truth.boxes),
        areas=truth.areas,
        crowd=truth.crowd,
        ignored=truth.crowd.copy(),
    )
    detected = Detections(
        source="detections",
        **_numbered(detections, found.classes),
        scores=found.scores,
        boxes=boxes,
        areas=boxes[:, 2] * boxes[:, 3] if masks is None else masks[1].areas().astype(np.float64),
    )
    kind = "bbox" if masks is None else "segm"
    settings = Settings(kind)
    problem = Problem(
        truths=truths,
        detections=detected,
        truth_masks=None if masks is None else masks[0],
        detection_masks=None if masks is None else masks[1],
        boundary_ratio=settings.boundary_ratio,
        sigmas=None,
    )
    caps = sorted({*(min(each, cap) for each in CAPS), cap})
    return solve(problem, settings, make_axes(kind, max_dets=caps), ())


def _numbered(images: Sequence, classes: np.ndarray) -> dict:
    """Places, numbers, images and classes of the rows of all images."""
    image = np.repeat(np.arange(len(images)), list(map(len, images)))
    rows = np.arange(len(image))
    return {
        "entries": rows,
        "ids": rows + 1,
        "image": image,
        "category": classes.astype(np.int64),
    }


def _with_sides(corners: np.ndarray) -> np.ndarray:
    """(N, 4) x, y, width, height."""
    return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
