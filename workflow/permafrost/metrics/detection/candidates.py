"""Pairs of boxes that may share an area, without visiting all pairs.

A stitched raster is one image with thousands of objects of one category; each overlaps a handful of
the detections. Truths of about one size (a factor of two) lie in a grid of squares as wide as the
largest of them, each in the square of its upper left corner. What a detection can overlap then has
its corner in the squares under the detection, or in those just left of and above them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.ragged import in_blocks, spans

# squares of a grid along each side, at the most: their numbers stay exact
_SQUARES = 1 << 20


def candidate_pairs(
    detected: np.ndarray, true: np.ndarray, block: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Indices of all pairs of boxes with a common area, and of some others, about `block` at a time.

    Parameters
    ----------
    detected, true : (D, 4) and (G, 4) finite x, y, width, height, the sizes not negative.
    """
    if not len(detected) or not len(true):
        return
    # every size is at most 2 ** its exponent
    exponents = np.frexp(true[:, 2:].max(axis=1))[1]
    for exponent in np.unique(exponents):
        mine = np.flatnonzero(exponents == exponent)
        grid = _Grid.of(true[mine, :2], float(np.ldexp(1.0, int(exponent))))
        for rows, columns in grid.under(detected, block):
            yield rows, mine[columns]


@dataclass(frozen=True)
class _Grid:
    """Points in squares.

    Attributes
    ----------
    side : of the squares.
    corner : (2,) number of the first square along x and y.
    width : squares along x.
    rows : ascending numbers along y of the rows of squares that hold a point.
    keys : ascending squares of the points: place in `rows` times `width`, plus the number along x.
    order : which points they are.
    """

    side: float
    corner: np.ndarray
    width: int
    rows: np.ndarray
    keys: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, side: float) -> _Grid:
        """Squares of at least this side."""
        side = max(side, float(np.abs(points).max()) / _SQUARES)
        squares = np.floor(points / side)
        corner = squares.min(axis=0)
        x, y = (squares - corner).astype(np.int64).T
        width = int(x.max()) + 1
        rows, row = np.unique(y, return_inverse=True)
        keys = row * width + x
        order = np.argsort(keys, kind="stable")
        return cls(side, corner, width, rows, keys[order], order)

    def under(self, boxes: np.ndarray, block: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of a box and a point of the squares that it may reach."""
        # a box further away than floats reach, in squares, is as far away as infinity
        with np.errstate(over="ignore"):
            low = np.floor((boxes[:, :2] - self.side) / self.side) - self.corner
            high = np.floor((boxes[:, :2] + boxes[:, 2:]) / self.side) - self.corner
        first = np.clip(low[:, 0], 0, self.width).astype(np.int64)
        last = np.clip(high[:, 0], -1, self.width - 1).astype(np.int64)
        top = np.searchsorted(self.rows, low[:, 1])
        bottom = np.searchsorted(self.rows, high[:, 1], side="right")
        height = np.where(last >= first, np.maximum(bottom - top, 0), 0)
        for part in in_blocks(height, block):
            which = np.repeat(np.arange(part.start, part.stop), height[part])
            base = spans(top[part], height[part]) * self.width
            begin = np.searchsorted(self.keys, base + first[which])
            count = np.searchsorted(self.keys, base + last[which], side="right") - begin
            for some in in_blocks(count, block):
                points = self.order[spans(begin[some], count[some])]
                yield np.repeat(which[some], count[some]), points
