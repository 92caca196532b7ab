"""Polygons to masks, pixel for pixel as pycocotools draws them, many at a time.

pycocotools magnifies a polygon five times, walks every edge step by step, and keeps the steps that
cross the middle of a pixel column; the parity of these crossings down the columns is the mask. Only
the crossings matter, so here they are computed directly: per edge and column, one.
"""

from __future__ import annotations

import numpy as np

from ..ragged import in_blocks, offsets_of, spans
from .runs import Masks

_SCALE = 5
# crossings drawn together: small enough for the cache
_BLOCK = 1 << 16
# beyond this, pycocotools' 32-bit arithmetic on magnified coordinates is undefined
COORDINATE_LIMIT = float(1 << 25)


def rasterise(points, sizes, owners, heights, widths) -> Masks:
    """Draw polygons; those of one owner are united.

    Parameters
    ----------
    points : flat (sum of sizes, 2) float64 x, y of the corners in pixels, finite and within
        ``COORDINATE_LIMIT``.
    sizes : (P,) corners of every polygon.
    owners : (P,) which mask each polygon belongs to, ascending.
    heights, widths : (N,) sizes of the masks.
    """
    points = np.asarray(points, np.float64).reshape(-1, 2)
    sizes, owners = np.asarray(sizes, np.int64), np.asarray(owners, np.int64)
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    if not len(heights):
        return Masks.empty(heights, widths)
    offsets = offsets_of(sizes)
    per_mask = np.bincount(owners, minlength=len(heights))
    mask_first = offsets_of(per_mask)
    corners = np.diff(offsets[mask_first])
    parts = []
    # an edge crosses some tens of columns
    for block in in_blocks(corners * 16 + 1, _BLOCK):
        polygons = slice(mask_first[block.start], mask_first[block.stop])
        parts.append(
            _draw(
                points[offsets[polygons.start] : offsets[polygons.stop]],
                sizes[polygons],
                owners[polygons] - block.start,
                heights[block],
                widths[block],
            )
        )
    return Masks.joined(parts)


def _draw(points, sizes, owners, heights, widths) -> Masks:
    # a cast to int drops the fraction, towards zero, as in C
    corners = (_SCALE * points + 0.5).astype(np.int64)
    offsets = offsets_of(sizes)
    following = np.arange(1, len(corners) + 1)
    filled = sizes > 0
    following[offsets[1:][filled] - 1] = offsets[:-1][filled]
    polygon = np.repeat(np.arange(len(sizes)), sizes)
    edge, column, row = _crossings(
        corners[:, 0],
        corners[:, 1],
        corners[following, 0],
        corners[following, 1],
        widths[owners[polygon]],
    )
    polygon = polygon[edge]
    height = heights[owners[polygon]]
    # the height of the crossing, brought back to pixels
    y = np.ceil(np.clip((row + 0.5) / _SCALE - 0.5, 0, height)).astype(np.int64)
    position = column * height + y
    starts, stops, polygon = _parity(polygon, position, (heights * widths)[owners])
    return _united(
        starts, stops, owners[polygon], np.bincount(owners, minlength=len(heights)), heights, widths
    )


def _crossings(xs, ys, xe, ye, widths) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edge, pixel column and (magnified) row of every crossing of the middle of a column.

    The middle of column n lies between the magnified columns 5 n + 2 and 5 n + 3.
    """
    dx, dy = np.abs(xe - xs), np.abs(ys - ye)
    flat = dx >= dy
    flip = np.where(flat, xs > xe, ys > ye)
    xs, xe = np.where(flip, xe, xs), np.where(flip, xs, xe)
    ys, ye = np.where(flip, ye, ys), np.where(flip, ys, ye)
    low, high = np.minimum(xs, xe), np.maximum(xs, xe)
    first = np.maximum(-((2 - low) // _SCALE), 0)  # smallest n with 5 n + 2 >= low
    last = np.minimum((high - 3) // _SCALE, widths - 1)
    count = np.maximum(last - first + 1, 0)
    edge = np.repeat(np.arange(len(xs)), count)
    column = spans(first, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(flat, (ye - ys) / dx, (xe - xs) / dy)
    row = np.empty(len(edge), np.int64)
    for rows, crossing in ((flat, _rows_of_flat), (~flat, _rows_of_steep)):
        at = np.flatnonzero(rows[edge])
        e = edge[at]
        row[at] = crossing(xs[e], ys[e], slope[e], _SCALE * column[at] + 2)
    return edge, column, row


def _rows_of_flat(xs, ys, slope, target) -> np.ndarray:
    """Lower of the rows at the steps to `target` and to the column after it."""
    step = target - xs
    here = (ys + slope * step + 0.5).astype(np.int64)
    there = (ys + slope * (step + 1) + 0.5).astype(np.int64)
    return np.minimum(here, there)


def _rows_of_steep(xs, ys, slope, target) -> np.ndarray:
    """Row of the step before the walk, which goes down by rows, passes `target`."""
    rising = slope > 0

    def passed(step):
        column = (xs + slope * step + 0.5).astype(np.int64)
        return np.where(rising, column > target, column <= target)

    # rounding may put the estimate one step off; the exact formula decides
    step = np.floor((target + 0.5 - xs) / slope).astype(np.int64) - 1
    for _ in range(3):
        step += ~passed(step)
    return ys + step - 1


def _parity(polygon, position, pixels):
    """Stretches of every polygon from its crossings, which switch between ground and figure."""
    keys = np.sort((polygon << 33) | position)
    # crossings at one place cancel out in pairs
    fresh = np.ones(len(keys), bool)
    fresh[1:] = keys[1:] != keys[:-1]
    begin = np.flatnonzero(fresh)
    odd = np.diff(np.append(begin, len(keys))) & 1 == 1
    keys = keys[begin[odd]]
    owner, position = keys >> 33, keys & ((1 << 33) - 1)
    inside = position < pixels[owner]
    owner, position = owner[inside], position[inside]
    # an open stretch ends with the image
    count = np.bincount(owner, minlength=len(pixels))
    open_ones = np.flatnonzero(count & 1)
    if open_ones.size:
        at = np.cumsum(count)[open_ones]
        position = np.insert(position, at, pixels[open_ones])
        owner = np.insert(owner, at, open_ones)
    return position[::2], position[1::2], owner[::2]


def _united(starts, stops, owner, polygons, heights, widths) -> Masks:
    """Masks from the stretches of their polygons, ascending within each polygon."""
    several = polygons[owner] > 1
    if several.any():
        merged = _merge(starts[several], stops[several], owner[several])
        starts = np.concatenate([starts[~several], merged[0]])
        stops = np.concatenate([stops[~several], merged[1]])
        owner = np.concatenate([owner[~several], merged[2]])
        order = np.argsort(owner, kind="stable")
        starts, stops, owner = starts[order], stops[order], owner[order]
    lengths = np.bincount(owner, minlength=len(heights))
    return Masks(offsets_of(lengths), starts, stops, heights, widths)


def _merge(starts, stops, owner):
    """Union of stretches per owner: where the number of open ones leaves 0 and comes back to it."""
    keys = np.concatenate([owner << 33 | starts, owner << 33 | stops])
    change = np.repeat(np.array([1, -1]), len(starts))
    # what begins where another ends goes on with it, so beginnings come first
    order = np.lexsort((-change, keys))
    keys, change = keys[order], change[order]
    covered = np.cumsum(change)
    begin = keys[(covered == 1) & (change == 1)]
    end = keys[covered == 0]
    place = (1 << 33) - 1
    return begin & place, end & place, begin >> 33
