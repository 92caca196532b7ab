"""Pairs of a detection and a truth of one cell that are similar enough to match at some threshold.

One flat pass visits all pairs of all cells, in blocks that bound memory. A pair below the lowest
threshold can never match, so only the few others are kept.

In huge cells, only pairs whose boxes may overlap are visited: a stitched raster is one image with thousands
of objects of one category, of which each overlaps a few detections. Truths of similar size (within a factor of
two) are put into a grid of squares as wide as the largest of them, each in the square of its upper left corner. A
truth that overlaps a detection then has its corner in the squares under the detection, or in those just left of
and above them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.ragged import in_blocks, spans

# largest number of squares along a side of a grid: their indices stay exact
_SQUARES = 1 << 20


def candidate_pairs(
    detected: np.ndarray, true: np.ndarray, block: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield indices of all pairs of boxes that overlap, and of some others, about `block` at a time.

    Parameters
    ----------
    detected, true : (D, 4) and (G, 4) finite x, y, width, height; sizes are not negative.
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
    """Points in a grid of squares.

    Attributes
    ----------
    side : side of a square.
    corner : (2,) index of the first square along x and y.
    width : number of squares along x.
    rows : ascending indices along y of the rows of squares that contain a point.
    keys : squares of the points, ascending: position in `rows` times `width`, plus the index along x.
    order : the points in the order of `keys`.
    """

    side: float
    corner: np.ndarray
    width: int
    rows: np.ndarray
    keys: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, side: float) -> _Grid:
        """Put points into squares of at least this side."""
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
        """Pairs of a box and a point in the squares under the box or just left of or above it."""
        # indices of squares beyond the range of floats may become infinite
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


# pairs visited at once
_BLOCK = 1 << 16
# a cell with this many pairs is huge: only pairs whose boxes may overlap are visited
_HUGE = 1 << 16
# rounding error of an upper bound
_SLACK = 1e-9


class Similarity(Protocol):
    """Interface of a kernel: similarity of detections and truths, row by row."""

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray | None:
        """(P,) cheap upper bounds of `exact`, or None if there are none."""

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) similarities of detections and truths given by their positions in the tables."""

    def extents(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Boxes (x, y, width, height) of all detections and truths, such that the similarity is 0
        if boxes do not overlap; None if there are no such boxes."""


@dataclass(frozen=True)
class Pairs:
    """P pairs, ascending by row of `Cells`, and within a row by similarity, then by column.

    So the best of any set of candidates of a detection is the last one; ties go to the later truth.

    Attributes
    ----------
    rows, columns : (P,) positions in `Cells`.
    similarity : (P,) float64.
    """

    rows: np.ndarray
    columns: np.ndarray
    similarity: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def find_pairs(cells: Cells, kernel: Similarity, lowest: float) -> Pairs:
    """All pairs with a similarity of at least `lowest`."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    extents = kernel.extents() if lowest > 0 else None
    for rows, columns in iterate_pairs(cells, extents):
        detections, truths = cells.detections[rows], cells.truths[columns]
        bound = kernel.bound(detections, truths)
        if bound is not None:
            likely = np.flatnonzero(bound >= lowest - _SLACK)
            rows, columns = rows[likely], columns[likely]
            detections, truths = detections[likely], truths[likely]
        similarity = kernel.exact(detections, truths)
        alike = np.flatnonzero(similarity >= lowest)
        parts.append((rows[alike], columns[alike], similarity[alike]))
    rows, columns, similarity = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((columns, similarity, rows))
    return Pairs(rows[order], columns[order], similarity[order])


def iterate_pairs(cells: Cells, extents: tuple[np.ndarray, np.ndarray] | None = None):
    """Blocks of (rows, columns) of all pairs, ascending by row, then by column.

    With `extents`, see `Similarity`, pairs of huge cells come last, in any order, and only if
    their boxes may overlap.
    """
    busy = np.flatnonzero(cells.count)
    if extents is not None:
        # rows of a cell have the same first column
        first, rows = np.unique(cells.first[busy], return_inverse=True)
        huge = (np.bincount(rows, minlength=len(first))[rows] * cells.count[busy]) > _HUGE
        busy, crowded = busy[~huge], busy[huge]
    count, first = cells.count[busy], cells.first[busy]
    for block in in_blocks(count, _BLOCK):
        yield np.repeat(busy[block], count[block]), spans(first[block], count[block])
    if extents is not None:
        yield from _crowded_pairs(cells, crowded, extents)


def _crowded_pairs(cells: Cells, busy: np.ndarray, extents: tuple[np.ndarray, np.ndarray]):
    """Pairs of the rows `busy` whose boxes may overlap, cell by cell."""
    begin = np.flatnonzero(np.diff(cells.first[busy], prepend=-1))
    for rows in np.split(busy, begin[1:]) if len(busy) else ():
        columns = np.arange(cells.first[rows[0]], cells.first[rows[0]] + cells.count[rows[0]])
        detected, true = extents[0][cells.detections[rows]], extents[1][cells.truths[columns]]
        for i, j in candidate_pairs(detected, true, _BLOCK):
            yield rows[i], columns[j]
