"""Rasterise polygons pixel for pixel like pycocotools, many at a time.

pycocotools magnifies a polygon five times, walks every edge step by step, and keeps the steps that
cross the middle of a pixel column; the parity of these crossings down the columns is the mask. This
module computes the crossings directly, one per edge and column. Columns with two crossings, as most
have, need no sorting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.masks.runs import Masks, in_fewest
from permafrost.metrics.detection.ragged import (
    in_blocks,
    max_each,
    min_each,
    offsets_of,
    spans,
    sum_each,
)

_SCALE = 5
# crossings drawn at once: few enough for the CPU cache
_BLOCK = 1 << 16
# beyond this, pycocotools' 32-bit arithmetic on magnified coordinates is undefined
COORDINATE_LIMIT = float(1 << 25)


def rasterise(points, sizes, owners, heights, widths) -> Masks:
    """Rasterise polygons; a mask is the union of its polygons.

    Parameters
    ----------
    points : flat (sum of sizes, 2) float64 x, y of the corners in pixels, finite and within
        ``COORDINATE_LIMIT``.
    sizes : (P,) number of corners of every polygon.
    owners : (P,) mask of each polygon, ascending.
    heights, widths : (N,) sizes of the masks in pixels.
    """
    points = np.asarray(points, np.float64).reshape(-1, 2)
    sizes, owners = np.asarray(sizes, np.int64), np.asarray(owners, np.int64)
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    if not len(heights):
        return Masks.empty(heights, widths)
    offsets = offsets_of(sizes)
    following = _following(offsets)
    # number of columns that an edge may cross
    across = np.abs(points[:, 0] - points[following, 0])
    across = np.minimum(across, np.repeat(widths[owners], sizes)).astype(np.int64) + 2
    mask_first = offsets_of(np.bincount(owners, minlength=len(heights)))
    crossings = sum_each(sum_each(across, offsets), mask_first)

    def parts():
        for block in in_blocks(crossings + 1, _BLOCK):
            polygons = slice(mask_first[block.start], mask_first[block.stop])
            corners = slice(offsets[polygons.start], offsets[polygons.stop])
            yield _draw(
                points[corners],
                following[corners] - corners.start,
                offsets[polygons.start : polygons.stop + 1] - corners.start,
                owners[polygons] - block.start,
                heights[block],
                widths[block],
            )

    return Masks.gathered(parts(), heights, widths, int(crossings.sum()) // 2 + 1)


def _following(offsets: np.ndarray) -> np.ndarray:
    """The next corner of each corner of closed polygons."""
    following = np.arange(1, offsets[-1] + 1)
    filled = offsets[1:] > offsets[:-1]
    following[offsets[1:][filled] - 1] = offsets[:-1][filled]
    return following


def _draw(points, following, offsets, owners, heights, widths) -> Masks:
    sizes = np.diff(offsets)
    # a cast to int truncates towards zero, as in C
    corners = (_SCALE * points + 0.5).astype(np.int64)
    edges = _Edges.of(corners, corners[following], np.repeat(widths[owners], sizes))
    columns = _Columns.of(edges, offsets)
    polygon = np.repeat(np.arange(len(sizes)), sizes)
    cell, row = edges.crossings(columns.offsets[polygon] - columns.left[polygon])
    # the height of a crossing brought back to pixels: (row + 0.5) / 5 - 0.5, rounded up
    y = (row + _SCALE // 2) // _SCALE
    low, high, cell = _stretches(cell, y, int(columns.offsets[-1]))
    polygon = np.repeat(np.arange(len(sizes)), np.diff(columns.offsets))[cell]
    height = heights[owners[polygon]]
    before = (cell - columns.offsets[polygon] + columns.left[polygon]) * height
    return _united(
        before + np.clip(low, 0, height),
        before + np.clip(high, 0, height),
        polygon,
        owners,
        heights,
        widths,
    )


@dataclass(frozen=True)
class _Edges:
    """Edges between magnified corners, from left to right or, if steeper than 45°, from the top down.

    The middle of pixel column n is between the magnified columns 5 n + 2 and 5 n + 3; `first` and
    `counts` are the first column and the number of columns whose middle an edge crosses in the image.
    """

    x: np.ndarray
    y: np.ndarray
    slope: np.ndarray
    flat: np.ndarray
    first: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, begin: np.ndarray, end: np.ndarray, widths: np.ndarray) -> _Edges:
        """From (E, 2) corners."""
        (xs, ys), (xe, ye) = begin.T, end.T
        dx, dy = np.abs(xe - xs), np.abs(ys - ye)
        flat = dx >= dy
        flip = np.where(flat, xs > xe, ys > ye)
        xs, xe = np.where(flip, xe, xs), np.where(flip, xs, xe)
        ys, ye = np.where(flip, ye, ys), np.where(flip, ys, ye)
        low, high = np.minimum(xs, xe), np.maximum(xs, xe)
        first = np.maximum(-((2 - low) // _SCALE), 0)  # smallest n with 5 n + 2 >= low
        last = np.minimum((high - 3) // _SCALE, widths - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(flat, (ye - ys) / dx, (xe - xs) / dy)
        return cls(xs, ys, slope, flat, first, np.maximum(last - first + 1, 0))

    def crossings(self, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixel column plus (E,) `shift`, and magnified row, of every crossing, in any order."""
        columns, rows = [], []
        for which, crossing in ((self.flat, _rows_of_flat), (~self.flat, _rows_of_steep)):
            at = np.flatnonzero(which & (self.counts > 0))
            counts, first = self.counts[at], self.first[at]
            x, y, slope, base = (
                np.repeat(values[at], counts) for values in (self.x, self.y, self.slope, shift)
            )
            column = spans(first, counts)
            columns.append(column + base)
            rows.append(crossing(x, y, slope, _SCALE * column + 2))
        return np.concatenate(columns), np.concatenate(rows)


@dataclass(frozen=True)
class _Columns:
    """The pixel columns from the first to the last that each polygon crosses; `offsets` index all columns."""

    left: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, edges: _Edges, offsets: np.ndarray) -> _Columns:
        """From the edges of polygons that start at `offsets`."""
        crossed = edges.counts > 0
        far = np.iinfo(np.int64).max
        left = min_each(np.where(crossed, edges.first, far), offsets, far)
        right = max_each(np.where(crossed, edges.first + edges.counts, 0), offsets, 0)
        some = right > 0
        return cls(np.where(some, left, 0), offsets_of(np.where(some, right - left, 0)))


def _stretches(cell, y, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and cell of the stretches between the crossings of each cell, ascending.

    A cell is a column of a polygon. As polygons are closed, a column has an even number of
    crossings, nearly always two. A stretch may be empty.
    """
    count = np.bincount(cell, minlength=cells)
    one, other = np.empty(cells, np.int64), np.empty(cells, np.int64)
    # the last assignment wins: these are the last and the first crossing of each cell
    one[cell], other[cell[::-1]] = y, y[::-1]
    usual = np.flatnonzero(count == 2)
    low, high = np.minimum(one[usual], other[usual]), np.maximum(one[usual], other[usual])
    rest = np.flatnonzero(count[cell] > 2)
    if not rest.size:
        return low, high, usual
    rest = rest[np.lexsort((y[rest], cell[rest]))]
    low, high = np.concatenate([low, y[rest[::2]]]), np.concatenate([high, y[rest[1::2]]])
    every = np.concatenate([usual, cell[rest[::2]]])
    order = np.argsort(every, kind="stable")
    return low[order], high[order], every[order]


def _rows_of_flat(xs, ys, slope, target) -> np.ndarray:
    """The smaller of the rows at the steps to `target` and to the next column."""
    step = target - xs
    here = (ys + slope * step + 0.5).astype(np.int64)
    there = (ys + slope * (step + 1) + 0.5).astype(np.int64)
    return np.minimum(here, there)


def _rows_of_steep(xs, ys, slope, target) -> np.ndarray:
    """Row of the last step before the walk down the rows passes `target`."""
    rising = slope > 0

    def passed(step):
        column = (xs + slope * step + 0.5).astype(np.int64)
        return np.where(rising, column > target, column <= target)

    # rounding may shift the estimate by a step; the exact formula decides
    step = np.floor((target + 0.5 - xs) / slope).astype(np.int64) - 1
    for _ in range(3):
        step += ~passed(step)
    return ys + step - 1


def _united(starts, stops, polygon, owners, heights, widths) -> Masks:
    """Masks as unions of the stretches of their polygons, which ascend within each polygon."""
    owner = owners[polygon]
    shared = (np.bincount(owners, minlength=len(heights)) > 1)[owner]
    if shared.any():
        merged = merge_stretches(starts[shared], stops[shared], owner[shared])
        starts = np.concatenate([starts[~shared], merged[0]])
        stops = np.concatenate([stops[~shared], merged[1]])
        owner = np.concatenate([owner[~shared], merged[2]])
        order = np.argsort(owner, kind="stable")
        starts, stops, owner = starts[order], stops[order], owner[order]
    lengths = np.bincount(owner, minlength=len(heights))
    return in_fewest(offsets_of(lengths), starts, stops, heights, widths)


def merge_stretches(starts, stops, owner) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Union of stretches per owner: from where the number of open stretches leaves 0 to where it returns."""
    keys = np.concatenate([owner << 33 | starts, owner << 33 | stops])
    change = np.repeat(np.array([1, -1]), len(starts))
    # adjacent stretches merge, so starts sort before ends
    order = np.lexsort((-change, keys))
    keys, change = keys[order], change[order]
    covered = np.cumsum(change)
    begin = keys[(covered == 1) & (change == 1)]
    end = keys[covered == 0]
    place = (1 << 33) - 1
    return begin & place, end & place, begin >> 33
