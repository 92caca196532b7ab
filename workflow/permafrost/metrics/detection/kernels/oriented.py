"""Intersection over union of oriented boxes: quadrilaterals with edges of any direction.

The area that two polygons share is a sum over pairs of their edges. Let an edge e be a line above its interval I of
x, and s = 1 if it runs to the right, else -1. A vertical line enters and leaves a polygon, so at every x, the s of the
edges above it sum up to 0, and the polygon is the sum of s times what lies under its edges. So the shared area is,
but for a sign,

    sum over edges a of A and b of B:  s_a s_b  *  integral of min(a - b, 0) over I_a and I_b.

No step decides on which side of a line a point lies: the sum depends continuously on all coordinates. Nearly equal
boxes, shared edges and corners on edges therefore need no rules of their own, and dents are right as well. Each pair
is measured from a corner of its own, along the longest edge there, so that neither the place in the image nor the
thinness of a box costs digits.
"""

from __future__ import annotations

import numpy as np

from permafrost.data.labels.oriented import area_of, checked, enclosing, uncrossed

# pairs in memory at once: their 16 pairs of edges stay in the processor's cache
_BLOCK = 1 << 11
# pairs of upright boxes compared at once
_MATRIX = 1 << 20
# rounding of the sum, as a share of the product of the pair's extents: boxes that touch share nothing
_ROUNDING = 32 * np.finfo(np.float64).eps
# above this IoU, corners are compared: boxes with equal corners have IoU 1
_ALIKE = 1 - 1e-9


class OrientedOverlap:
    """IoU of oriented boxes; for a crowd, the share of the detection inside it.

    Parameters
    ----------
    detections, truths : (D, 4, 2) and (G, 4, 2) corners without crossings.
    crowd : (G,) bool.
    """

    def __init__(self, detections: np.ndarray, truths: np.ndarray, crowd: np.ndarray) -> None:
        self.detections, self.truths, self.crowd = detections, truths, crowd
        self.bounds = enclosing(detections), enclosing(truths)
        self.areas = area_of(detections), area_of(truths)

    @classmethod
    def of(cls, problem) -> OrientedOverlap:
        """From the tables of a `Problem`."""
        truths = problem.truths
        return cls(problem.detections.corners, truths.corners, truths.crowd)

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) upper bound of the IoU, from areas and enclosing boxes."""
        a, b = self.bounds[0][detections], self.bounds[1][truths]
        width = np.minimum(a[:, 2], b[:, 2]) - np.maximum(a[:, 0], b[:, 0])
        height = np.minimum(a[:, 3], b[:, 3]) - np.maximum(a[:, 1], b[:, 1])
        area, other = self.areas[0][detections], self.areas[1][truths]
        most = np.maximum(width, 0) * np.maximum(height, 0)
        most = np.minimum(most, np.minimum(area, other))
        return _ratio(most, area, other, self.crowd[truths])

    def extents(self) -> tuple[np.ndarray, np.ndarray]:
        """The enclosing boxes."""
        first, second = (
            np.concatenate([each[:, :2], each[:, 2:] - each[:, :2]], axis=1) for each in self.bounds
        )
        return first, second

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) IoU."""
        return pair_iou(
            self.detections, self.truths, self.crowd, detections, truths, areas=self.areas
        )


def oriented_iou(detections, truth, crowd=None) -> np.ndarray:
    """IoU of all oriented boxes with all others.

    Parameters
    ----------
    detections, truth : (D, 4, 2) and (G, 4, 2) corners in pixels, in either direction around. An outline that crosses
        itself counts as the hull of its corners, see `uncrossed`.
    crowd : (G,) bool; for a crowd, the share of the detection inside it.

    Returns
    -------
    (D, G) float64 in [0, 1]: 1 for equal corners, also from another first corner; 0 for a box without area.

    Raises
    ------
    PermafrostError : another shape, numbers that are not finite.
    """
    detections, truth = uncrossed(checked(detections))[0], uncrossed(checked(truth))[0]
    crowd = np.zeros(len(truth), bool) if crowd is None else np.asarray(crowd, bool)
    out = np.zeros((len(detections), len(truth)))
    if out.size:
        rows, columns = touching(enclosing(detections), enclosing(truth))
        out[rows, columns] = pair_iou(detections, truth, crowd, rows, columns)
    return out


def touching(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of upright boxes (D, 4) and (G, 4) x_min, y_min, x_max, y_max that share an area.

    Pairs of a box without area inside another one are among them.
    """
    left, top, right, bottom = np.ascontiguousarray(second.T)
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    step = max(1, _MATRIX // max(len(second), 1))
    for start in range(0, len(first), step):
        x, y, end_x, end_y = first[start : start + step].T[:, :, None]
        found = np.nonzero((x < right) & (left < end_x) & (y < bottom) & (top < end_y))
        rows.append(found[0] + start)
        columns.append(found[1])
    return np.concatenate(rows), np.concatenate(columns)


def pair_iou(detections, truths, crowd, rows, columns, *, areas=None) -> np.ndarray:
    """(P,) IoU of pairs, given by positions in (D, 4, 2) and (G, 4, 2) corners without crossings.

    `areas` (D,) and (G,) are computed if None.
    """
    sizes = areas or (area_of(detections), area_of(truths))
    out = np.zeros(len(rows))
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        row, column = rows[part], columns[part]
        mine, theirs = sizes[0][row], sizes[1][column]
        shared = shared_area(detections[row], truths[column])
        shared = np.minimum(shared, np.minimum(mine, theirs))
        out[part] = _ratio(shared, mine, theirs, crowd[column])
    alike = np.flatnonzero(out > _ALIKE)
    same = _same(detections[rows[alike]], truths[columns[alike]])
    out[alike[same]] = 1.0
    return out


def _ratio(shared, area, other, crowd) -> np.ndarray:
    """Shared area over the union, or over the detection for a crowd; 0 if nothing is shared."""
    union = np.where(crowd, area, area + other - shared)
    return np.where(shared > 0, shared / np.where(union > 0, union, 1), 0.0)


def _same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(P,) bool: equal corners, from any first corner and in either direction."""
    same = np.zeros(len(first), bool)
    for way in (second, second[:, ::-1]):
        for turn in range(4):
            same |= (first == np.roll(way, turn, axis=1)).all(axis=(1, 2))
    return same


def shared_area(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(P,) area that the quadrilaterals (P, 4, 2) share, row by row."""
    mine, theirs = _local(first, second)
    a, b = _edges(mine), _edges(theirs)
    total = np.zeros(len(first))
    for one in range(4):
        total += _terms([part[one] for part in a], b).sum(axis=0)
    extent = np.ones(len(first))
    for axis in (0, 1):
        both = np.concatenate([mine[axis], theirs[axis]])
        extent *= both.max(axis=0) - both.min(axis=0)
    total = np.abs(total)
    return np.where(total > _ROUNDING * extent, total, 0.0)


def _local(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(2, 4, P) x and y of the corners from the first corner of `first`, along its longer edge there."""
    origin = first[:, :1]
    mine, theirs = (np.ascontiguousarray((each - origin).T) for each in (first, second))
    towards = mine[:, 1], mine[:, 3]
    length = [np.hypot(*edge) for edge in towards]
    longer = length[0] >= length[1]
    size = np.where(longer, *length)
    size = np.where(size > 0, size, 1.0)
    x, y = (np.where(longer, p, q) / size for p, q in zip(*towards, strict=True))
    # without a direction, as is
    x = np.where((x == 0) & (y == 0), 1.0, x)
    return _rotated(mine, x, y), _rotated(theirs, x, y)


def _rotated(points: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([points[0] * x + points[1] * y, points[1] * x - points[0] * y])


def _edges(points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Each edge as its left and right x, the y at its left, slope and direction; all (4, P)."""
    ahead = np.roll(points, -1, axis=1)
    right = ahead[0] >= points[0]
    left_x, left_y = (np.where(right, points[k], ahead[k]) for k in (0, 1))
    right_x, right_y = (np.where(right, ahead[k], points[k]) for k in (0, 1))
    run = right_x - left_x
    # a vertical edge has no interval, so its slope is not used
    slope = (right_y - left_y) / np.where(run > 0, run, np.inf)
    return left_x, right_x, left_y, slope, np.where(right, 1.0, -1.0)


def _terms(one, others) -> np.ndarray:
    """(4, P) terms of one edge of every first and the four edges of the second quadrilaterals."""
    start = np.maximum(one[0], others[0])
    run = np.minimum(one[1], others[1]) - start
    gap = one[2] + one[3] * (start - one[0]) - (others[2] + others[3] * (start - others[0]))
    then = gap + (one[3] - others[3]) * run
    low, high = np.minimum(gap, then), np.maximum(gap, then)
    # the mean of min(gap, 0) along the interval: a trapezoid, a triangle up to the crossing, or nothing
    below, rise = np.minimum(low, 0), high - low
    crossing = high > 0
    mean = np.where(crossing, -below * below / np.where(rise > 0, rise, 1), low + high) / 2
    return np.where(run > 0, one[4] * others[4] * run * mean, 0.0)
