"""Masks as bits, cropped to their boxes: overlaps by AND and bit count, erosion by shifts.

A mask stores the columns of its box, each as 64-bit words that begin at multiples of 64 rows of the
image, so that words of different masks are aligned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.masks.pieces import column_pieces
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.ragged import (
    in_blocks,
    offsets_of,
    places_within,
    spans,
    sum_each,
)

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# words compared at once
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Packed:
    """N masks as words.

    Attributes
    ----------
    words : flat uint64, mask by mask, column by column.
    offsets : (N + 1,) first word of each mask.
    left, columns : (N,) first column and number of columns.
    top, height : (N,) first word of a column and number of words per column.
    """

    words: np.ndarray
    offsets: np.ndarray
    left: np.ndarray
    columns: np.ndarray
    top: np.ndarray
    height: np.ndarray

    def counts(self) -> np.ndarray:
        """(N,) pixels of foreground."""
        return sum_each(np.bitwise_count(self.words).astype(np.int64), self.offsets)

    def replaced(self, words: np.ndarray) -> Packed:
        """The same boxes with other bits."""
        return Packed(words, self.offsets, self.left, self.columns, self.top, self.height)


def packed_sizes(masks: Masks) -> np.ndarray:
    """(N,) number of words of each mask when packed."""
    _, columns, _, height = _frames(masks)
    return columns * height


def pack(masks: Masks) -> Packed:
    """Pack masks as bits."""
    left, columns, top, height = _frames(masks)
    offsets = offsets_of(columns * height)
    packed = Packed(np.zeros(offsets[-1], np.uint64), offsets, left, columns, top, height)
    _fill(packed, *column_pieces(masks))
    return packed


def pack_shrunk(masks: Masks, margins: np.ndarray) -> Packed:
    """Pack masks in the same boxes, with each piece of a column `margins` (N,) pixels shorter at both ends."""
    left, columns, top, height = _frames(masks)
    offsets = offsets_of(columns * height)
    packed = Packed(np.zeros(offsets[-1], np.uint64), offsets, left, columns, top, height)
    owner, column, low, high = column_pieces(masks)
    low, high = low + margins[owner], high - margins[owner]
    rest = high > low
    _fill(packed, owner[rest], column[rest], low[rest], high[rest])
    return packed


def _frames(masks: Masks):
    """First column, number of columns, first word of a column, words per column."""
    boxes = masks.boxes().astype(np.int64)
    full = boxes[:, 2] > 0
    top = boxes[:, 1] >> 6
    height = np.where(full, ((boxes[:, 1] + boxes[:, 3] - 1) >> 6) - top + 1, 0)
    return boxes[:, 0], boxes[:, 2], top, height


def _fill(packed: Packed, owner, column, low, high) -> None:
    """Set the bits of pieces that ascend by mask, column and row."""
    if not len(owner):
        return
    begin, end = low >> 6, (high - 1) >> 6
    row_start = packed.offsets[owner] + (column - packed.left[owner]) * packed.height[owner]
    target = row_start + begin - packed.top[owner]
    first_bits = _ALL << (low & 63).astype(np.uint64)
    last_bits = _ALL >> (63 - ((high - 1) & 63)).astype(np.uint64)
    one = begin == end
    _combine(packed.words, target[one], first_bits[one] & last_bits[one])
    rest = np.flatnonzero(~one)
    if rest.size:
        length = (end - begin + 1)[rest]
        where = spans(target[rest], length)
        bits = np.full(len(where), _ALL)
        edges = offsets_of(length)
        bits[edges[:-1]] = first_bits[rest]
        bits[edges[1:] - 1] = last_bits[rest]
        _combine(packed.words, where, bits)


def _combine(words, target, bits) -> None:
    """OR bits into words; `target` ascends."""
    if not len(target):
        return
    begin = np.flatnonzero(np.diff(target, prepend=-1))
    words[target[begin]] |= np.bitwise_or.reduceat(bits, begin)


def overlaps(first: Packed, second: Packed, rows, others) -> np.ndarray:
    """(P,) int64: number of pixels shared by masks `rows` of one and `others` of the other collection."""
    rows, others = np.asarray(rows, np.int64), np.asarray(others, np.int64)
    left = np.maximum(first.left[rows], second.left[others])
    right = np.minimum(
        first.left[rows] + first.columns[rows], second.left[others] + second.columns[others]
    )
    top = np.maximum(first.top[rows], second.top[others])
    bottom = np.minimum(
        first.top[rows] + first.height[rows], second.top[others] + second.height[others]
    )
    columns, height = np.maximum(right - left, 0), np.maximum(bottom - top, 0)
    out = np.zeros(len(rows), np.int64)
    meeting = np.flatnonzero(columns * height)
    area = (columns * height)[meeting]
    for block in in_blocks(area, _BLOCK):
        pair = meeting[block]
        size = area[block]
        tall = np.repeat(height[pair], size)
        column, word = np.divmod(places_within(size), tall)
        bits = _words(first, rows[pair], left[pair], top[pair], size, column, word)
        bits &= _words(second, others[pair], left[pair], top[pair], size, column, word)
        out[pair] = np.add.reduceat(np.bitwise_count(bits), offsets_of(size)[:-1], dtype=np.int64)
    return out


def _words(packed: Packed, masks, left, top, size, column, word) -> np.ndarray:
    start = packed.offsets[masks] + (left - packed.left[masks]) * packed.height[masks]
    start += top - packed.top[masks]
    where = np.repeat(start, size) + column * np.repeat(packed.height[masks], size) + word
    return packed.words[where]


def bands(masks: Masks, margins: np.ndarray) -> Packed:
    """The pixels of each mask within `margins` (N,) pixels of its outside, diagonally, too.

    Beyond the image counts as outside.
    """
    whole = pack(masks)
    inner = pack_shrunk(masks, margins)
    words = inner.words
    for margin in np.unique(margins):
        words = _narrowed(inner.replaced(words), margins == margin, int(margin))
    return whole.replaced(whole.words & ~words)


def _narrowed(packed: Packed, chosen: np.ndarray, margin: int) -> np.ndarray:
    """Words of the chosen masks, with only the bits that are set in all columns up to `margin` away."""
    sizes = packed.columns * packed.height
    which = np.repeat(np.arange(len(sizes)), np.where(chosen, sizes, 0))
    if not len(which):
        return packed.words
    places = spans(packed.offsets[:-1], np.where(chosen, sizes, 0))
    part = packed.words[places]
    tall = packed.height[which]
    local = places - packed.offsets[which]
    column, columns = local // tall, packed.columns[which]
    flat = np.arange(len(part))

    def ahead(bits, step):
        """Bits of the column `step` to the right, none beyond the box."""
        inside = (column + step >= 0) & (column + step < columns)
        return np.where(inside, bits[np.where(inside, flat + step * tall, 0)], np.uint64(0))

    # after each iteration a word is the AND of `width` columns, of which it is the leftmost
    width, total = 1, 2 * margin + 1
    while width < total:
        step = min(width, total - width)
        part = part & ahead(part, step)
        width += step
    out = packed.words.copy()
    out[places] = ahead(part, -margin)
    return out
