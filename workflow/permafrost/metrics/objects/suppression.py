"""Non-maximum suppression of boxes, polygons and points."""

from __future__ import annotations

import numpy as np

from permafrost.data.geometries import POINT
from permafrost.metrics.objects.overlaps import find_pairs

IOU_THRESHOLD = 0.15
DISTANCE = 5.0


def suppress(kind: str, shapes, scores, *, threshold: float) -> np.ndarray:
    """Indices of the shapes that remain, by descending score.

    A shape goes where one with a higher score that remains has an IoU with it above `threshold`
    (points: lies nearer than `threshold`), whatever the labels. Of equal scores the first wins.
    For boxes this is ``torchvision.ops.nms``.

    Parameters
    ----------
    shapes : (N, …), see `Annotations.shape`.
    scores : (N,).
    """
    count = len(shapes)
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    pairs = find_pairs(kind, shapes, shapes, reach=threshold)
    if kind != POINT:
        pairs = pairs.take(pairs.iou > threshold)
    pairs = pairs.take(pairs.first != pairs.second)
    bounds = np.searchsorted(pairs.first, np.arange(count + 1)).tolist()
    gone = np.zeros(count, bool)
    kept = []
    for index in order.tolist():
        if gone[index]:
            continue
        kept.append(index)
        gone[pairs.second[bounds[index] : bounds[index + 1]]] = True
    return np.asarray(kept, np.intp)
