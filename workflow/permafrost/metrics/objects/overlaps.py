"""Overlaps of the shapes of two sets, and non-maximum suppression.

Only overlapping pairs are visited: a tile may have 100,000 crowns, of which each overlaps a few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.spatial import cKDTree

from permafrost.data.labels.geometries import BOX, MASK, ORIENTED, POINT, POLYGON
from permafrost.data.labels.oriented import area_of, enclosing, uncrossed
from permafrost.metrics.detection.kernels.oriented import shared_area
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.masks import corners_of, shared_pixels

# pairs of boxes compared at once
_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Pairs:
    """Pairs of a shape of one set and a shape of another, sorted by first, then by second index.

    Attributes
    ----------
    first, second : (M,) indices.
    value : (M,) float64: area of the intersection in square pixels, or distance of two points in pixels.
    iou : (M,) float64: intersection over union; NaN for points.
    """

    first: np.ndarray
    second: np.ndarray
    value: np.ndarray
    iou: np.ndarray

    def take(self, rows) -> Pairs:
        """The pairs at `rows`: indices, a slice or a mask."""
        return Pairs(self.first[rows], self.second[rows], self.value[rows], self.iou[rows])


def find_pairs(kind: str, first, second, *, reach: float = np.inf, above: float = 0.0) -> Pairs:
    """Find the pairs of shapes that overlap, or of points nearer than `reach`.

    Parameters
    ----------
    kind : kind of both sets, see `Annotations`.
    first, second : shapes, as `Annotations.shape`; oriented boxes are (N, 4, 2) corners, masks `Masks` of
        one image.
    reach : points only: distance in pixels; infinite for all pairs.
    above : oriented boxes only: pairs whose IoU cannot be above it may be missing.
    """
    if not len(first) or not len(second):
        nothing = np.empty(0, np.intp)
        return Pairs(nothing, nothing, np.empty(0), np.empty(0))
    if kind == POINT:
        return _point_pairs(first, second, reach)
    i, j, common = _OVERLAPS[kind](first, second, above)
    own, other = areas(kind, first), areas(kind, second)
    pairs = Pairs(i, j, common, common / (own[i] + other[j] - common))
    return pairs.take(np.lexsort((j, i)))


def areas(kind: str, shapes) -> np.ndarray:
    """(N,) areas of boxes, oriented boxes, polygons or masks in square pixels."""
    return _AREAS[kind](shapes)


def _box_areas(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _box_pairs(
    first: np.ndarray, second: np.ndarray, _above: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of overlapping boxes. A block of `first`, sorted by left edges, is compared only with boxes that
    begin left of its right edge, and at most the width of the widest box left of its left edge."""
    order, others = np.argsort(first[:, 0]), np.argsort(second[:, 0])
    left = second[others, 0]
    widest = float((second[:, 2] - second[:, 0]).max())
    parts, start = [], 0
    while start < len(order):
        stop = min(len(order), start + max(1, _AT_ONCE // len(others)))
        # a narrow block has few boxes to compare with, so the block can grow
        while True:
            block = order[start:stop]
            low = np.searchsorted(left, first[block[0], 0] - widest)
            high = np.searchsorted(left, first[block, 2].max())
            longer = min(len(order), start + 2 * (stop - start))
            if longer == stop or 2 * (stop - start) * max(1, high - low) > _AT_ONCE:
                break
            stop = longer
        met = others[low:high]
        i, j, common = _compare(first[block], second[met])
        parts.append((block[i], met[j], common))
        start = stop
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def _compare(first: np.ndarray, second: np.ndarray):
    """Compare all boxes of two sets; indices and intersection areas of the overlapping pairs."""
    width = np.minimum(first[:, None, 2], second[None, :, 2])
    width -= np.maximum(first[:, None, 0], second[None, :, 0])
    height = np.minimum(first[:, None, 3], second[None, :, 3])
    height -= np.maximum(first[:, None, 1], second[None, :, 1])
    i, j = np.nonzero((width > 0) & (height > 0))
    return i, j, width[i, j] * height[i, j]


def _polygon_pairs(first, second, _above: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    j, i = shapely.STRtree(first).query(second, predicate="intersects")
    common = shapely.area(shapely.intersection(first[i], second[j]))
    real = common > 0
    return i[real], j[real], common[real]


def _mask_pairs(
    first: Masks, second: Masks, _above: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    i, j, _ = _box_pairs(corners_of(first), corners_of(second))
    common = shared_pixels(first, second, i, j)
    real = common > 0
    return i[real], j[real], common[real].astype(np.float64)


def _oriented_pairs(
    first: np.ndarray, second: np.ndarray, above: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of oriented boxes; of one set with itself, without those of a box and itself, and each compared once."""
    i, j, most = _box_pairs(enclosing(first), enclosing(second))
    own, other = area_of(first)[i], area_of(second)[j]
    most = np.minimum(most, np.minimum(own, other))
    possible = most > above * (own + other - most)
    if first is second:
        possible &= i < j
    i, j = i[possible], j[possible]
    common = shared_area(uncrossed(first)[0][i], uncrossed(second)[0][j])
    real = common > 0
    i, j, common = i[real], j[real], common[real]
    if first is second:
        i, j, common = np.append(i, j), np.append(j, i), np.tile(common, 2)
    return i, j, common


_OVERLAPS = {
    BOX: _box_pairs,
    POLYGON: _polygon_pairs,
    ORIENTED: _oriented_pairs,
    MASK: _mask_pairs,
}
_AREAS = {BOX: _box_areas, POLYGON: shapely.area, ORIENTED: area_of, MASK: Masks.areas}


def _point_pairs(first: np.ndarray, second: np.ndarray, reach: float) -> Pairs:
    if np.isinf(reach):
        i, j = np.indices((len(first), len(second))).reshape(2, -1)
    else:
        reached = cKDTree(first).query_ball_point(second, reach)
        counts = np.fromiter(map(len, reached), np.intp, len(reached))
        i = np.fromiter((index for each in reached for index in each), np.intp, counts.sum())
        j = np.repeat(np.arange(len(second)), counts)
    distance = np.hypot(*(first[i] - second[j]).T)
    near_enough = distance < reach if np.isfinite(reach) else np.ones(len(i), bool)
    pairs = Pairs(i, j, distance, np.full(len(i), np.nan)).take(near_enough)
    return pairs.take(np.lexsort((pairs.second, pairs.first)))


IOU_THRESHOLD = 0.15
DISTANCE = 5.0


def suppress(kind: str, shapes, scores, *, threshold: float) -> np.ndarray:
    """Non-maximum suppression: indices of the remaining shapes, by descending score.

    A shape is removed if its IoU with a remaining one of higher score is above `threshold`
    (points: if the distance is below `threshold`), regardless of labels. Ties go to the first.
    For boxes this equals ``torchvision.ops.nms``.

    Parameters
    ----------
    shapes : (N, …), see `Annotations.shape`.
    scores : (N,).
    """
    count = len(shapes)
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    pairs = find_pairs(kind, shapes, shapes, reach=threshold, above=threshold)
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
