"""Masks as pieces of columns: overlaps from the ends of pieces instead of pixels.

Most masks have one piece per column. Comparing two of them takes one step per common column, much
less than per pixel, and less than packing them as bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.masks.runs import Masks, heights_of, least_integer, split_pixels
from permafrost.metrics.detection.ragged import (
    in_blocks,
    max_each,
    min_each,
    offsets_of,
    places_within,
    spans,
    sum_each,
)

# pieces created or compared at once
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Pieces:
    """N masks as pieces, ascending by mask, column and row.

    Attributes
    ----------
    low, high : (P,) first row of every piece and the row after its last, in a small integer type.
    first : (sum of columns + 1,) first piece of each column of each mask.
    offsets : (N + 1,) first column of each mask in `first`.
    left : (N,) the first column of each mask.
    """

    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    offsets: np.ndarray
    left: np.ndarray

    @classmethod
    def of(cls, masks: Masks) -> Pieces:
        """From stretches, which may extend over several columns."""
        heights = np.maximum(masks.heights, 1)
        left, columns = _columns(masks, heights)
        kind = least_integer(int(heights.max(initial=0)))
        offsets = offsets_of(columns)
        # a stretch that extends into the next column is two pieces; at most one extra per column
        most = len(masks.starts) + int(offsets[-1])
        low, high = np.empty(most, kind), np.empty(most, kind)
        first = np.zeros(int(offsets[-1]) + 1, least_integer(most))
        begin = 0
        for block in in_blocks(np.diff(masks.offsets) + 1, _BLOCK):
            owner, column, top, bottom = column_pieces(masks.part(block))
            end = begin + len(owner)
            low[begin:end], high[begin:end] = top, bottom
            inside = slice(offsets[block.start], offsets[block.stop])
            place = column + (offsets[block] - inside.start - left[block])[owner]
            counts = np.bincount(place, minlength=inside.stop - inside.start)
            first[inside.start + 1 : inside.stop + 1] = begin + np.cumsum(counts)
            begin = end
        return cls(low[:begin], high[:begin], first, offsets, left)

    @property
    def columns(self) -> np.ndarray:
        """(N,) number of columns from the first to the last of each mask."""
        return np.diff(self.offsets)

    def density(self) -> np.ndarray:
        """(N,) pieces per column; 0 for an empty mask."""
        pieces = np.diff(self.first[self.offsets])
        return pieces / np.maximum(self.columns, 1)

    def boxes(self) -> np.ndarray:
        """(N, 4) float64 boxes, as `Masks.boxes`."""
        pieces = self.first[self.offsets]
        top = min_each(self.low, pieces, 0)
        bottom = max_each(self.high, pieces, 0)
        left, columns = self.left, self.columns
        return np.stack([left, top, columns, bottom - top], axis=1).astype(np.float64)


def _columns(masks: Masks, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) first column and number of columns of each mask."""
    filled = np.flatnonzero(masks.offsets[1:] > masks.offsets[:-1])
    left, columns = np.zeros(len(masks), np.int64), np.zeros(len(masks), np.int64)
    left[filled] = masks.starts[masks.offsets[filled]] // heights[filled]
    right = (masks.stops[masks.offsets[filled + 1] - 1] - 1) // heights[filled]
    columns[filled] = right - left[filled] + 1
    return left, columns


def column_pieces(masks: Masks):
    """Stretches cut at the ends of columns: mask, column, first row, row after the last."""
    lengths = np.diff(masks.offsets)
    owner = np.repeat(np.arange(len(masks)), lengths)
    first, low = split_pixels(masks.starts, masks.heights, lengths)
    high = low + (masks.stops - masks.starts)
    height = heights_of(masks.heights, lengths)
    over = high > height
    if not over.any():
        return owner, first, low, high
    height = np.broadcast_to(height, high.shape)
    # columns beyond the first up to the one of the last pixel
    more = np.where(over, (high - 1) // np.maximum(height, 1), 0)
    which = np.repeat(np.arange(len(owner)), more + 1)
    step = places_within(more + 1)
    low = np.where(step == 0, low[which], 0)
    high = np.minimum(high[which] - step * height[which], height[which])
    return owner[which], first[which] + step, low, high


def shared_by_pieces(first: Pieces, second: Pieces, rows, others) -> np.ndarray:
    """(P,) int64: number of pixels shared by masks `rows` of one and `others` of the other collection."""
    rows, others = np.asarray(rows, np.int64), np.asarray(others, np.int64)
    left = np.maximum(first.left[rows], second.left[others])
    right = np.minimum(
        first.left[rows] + first.columns[rows], second.left[others] + second.columns[others]
    )
    columns = np.maximum(right - left, 0)
    mine = first.offsets[rows] + left - first.left[rows]
    theirs = second.offsets[others] + left - second.left[others]
    out = np.zeros(len(rows), np.int64)
    for block in in_blocks(columns + 1, _BLOCK):
        count = columns[block]
        shared = _shared(first, second, spans(mine[block], count), spans(theirs[block], count))
        out[block] = sum_each(shared, offsets_of(count))
    return out


def _shared(first: Pieces, second: Pieces, columns, others) -> np.ndarray:
    """(C,) number of rows shared by columns of the two collections."""
    begin, other_begin = first.first[columns], second.first[others]
    count, other_count = first.first[columns + 1] - begin, second.first[others + 1] - other_begin
    combinations = count * other_count
    single = np.flatnonzero(combinations == 1)
    if len(single) == len(columns):
        return _common(first, second, begin, other_begin)
    out = np.zeros(len(columns), np.int64)
    out[single] = _common(first, second, begin[single], other_begin[single])
    crossed = np.flatnonzero(combinations > 1)
    lengths, other_lengths = combinations[crossed], other_count[crossed]
    place, step = places_within(lengths), np.repeat(other_lengths, lengths)
    shared = _common(
        first,
        second,
        np.repeat(begin[crossed], lengths) + place // step,
        np.repeat(other_begin[crossed], lengths) + place % step,
    )
    out[crossed] = sum_each(shared, offsets_of(lengths))
    return out


def _common(first: Pieces, second: Pieces, pieces, others) -> np.ndarray:
    """(P,) number of rows shared by pieces."""
    high = np.minimum(first.high[pieces], second.high[others])
    low = np.maximum(first.low[pieces], second.low[others])
    return np.maximum(high - low, 0)
