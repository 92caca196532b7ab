"""Binary masks as stretches (runs of foreground), as in COCO's run-length code.

Pixels are numbered down the columns: pixel (row y, column x) of an image of height h is y + x h.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.ragged import (
    in_blocks,
    max_each,
    min_each,
    offsets_of,
    spans,
    sum_each,
)

# stretches measured at once: few enough for the CPU cache
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Masks:
    """N masks, each with its stretches in ascending order.

    Attributes
    ----------
    offsets : (N + 1,) first stretch of each mask.
    starts, stops : first pixel of every stretch and the pixel after its last one. Stretches are
        not empty, and do not touch.
    heights, widths : (N,) size of each mask in pixels.
    """

    offsets: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    heights: np.ndarray
    widths: np.ndarray

    def __len__(self) -> int:
        return len(self.heights)

    @classmethod
    def empty(cls, heights, widths) -> Masks:
        """Masks without foreground."""
        heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
        none = np.empty(0, np.int64)
        return cls(np.zeros(len(heights) + 1, np.int64), none, none, heights, widths)

    @classmethod
    def joined(cls, parts: list[Masks]) -> Masks:
        """All masks of all collections, in order."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            offsets_of(lengths),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("starts", "stops", "heights", "widths")
            ),
        )

    @classmethod
    def gathered(cls, parts: Iterable[Masks], heights, widths, most: int) -> Masks:
        """Like `joined`, from an iterator; each part is copied when it arrives.

        Parameters
        ----------
        heights, widths : (N,) sizes of all masks.
        most : upper bound of the number of stretches; unused memory is never touched.
        """
        kind = place_type(heights, widths)
        starts, stops = np.empty(most, kind), np.empty(most, kind)
        lengths, begin = [np.zeros(0, np.int64)], 0
        for part in parts:
            end = begin + len(part.starts)
            starts[begin:end], stops[begin:end] = part.starts, part.stops
            lengths.append(np.diff(part.offsets))
            begin = end
        return cls(
            offsets_of(np.concatenate(lengths)), starts[:begin], stops[:begin], heights, widths
        )

    def take(self, rows) -> Masks:
        """The masks at `rows`, in that order."""
        rows = np.asarray(rows, np.int64)
        lengths = np.diff(self.offsets)[rows]
        places = spans(self.offsets[rows], lengths)
        return Masks(
            offsets_of(lengths),
            self.starts[places],
            self.stops[places],
            self.heights[rows],
            self.widths[rows],
        )

    def __getitem__(self, rows) -> Masks:
        """The masks at `rows`: indices, a slice or a (N,) mask."""
        return self.take(np.arange(len(self))[rows])

    def without(self, dropped: np.ndarray) -> Masks:
        """The same masks, with those in `dropped` ((N,) bool) empty."""
        lengths = np.diff(self.offsets)
        kept = np.repeat(~dropped, lengths)
        return Masks(
            offsets_of(np.where(dropped, 0, lengths)),
            self.starts[kept],
            self.stops[kept],
            self.heights,
            self.widths,
        )

    def areas(self) -> np.ndarray:
        """(N,) int64: number of foreground pixels."""
        areas = np.empty(len(self), np.int64)
        for block in in_blocks(np.diff(self.offsets), _BLOCK):
            part = self.part(block)
            areas[block] = sum_each(part.stops - part.starts, part.offsets)
        return areas

    def boxes(self) -> np.ndarray:
        """(N, 4) float64 x, y, width, height of the bounding box in pixels; zeros if empty.

        A stretch that continues in the next column makes the box as high as the image, since it
        contains the last row of one column and the first of the next.
        """
        boxes = np.empty((len(self), 4))
        for block in in_blocks(np.diff(self.offsets), _BLOCK):
            boxes[block] = self.part(block)._boxes()
        return boxes

    def part(self, block: slice) -> Masks:
        """A view of consecutive masks."""
        offsets = self.offsets[block.start : block.stop + 1]
        flat = slice(offsets[0], offsets[-1])
        return Masks(
            offsets - offsets[0],
            self.starts[flat],
            self.stops[flat],
            self.heights[block],
            self.widths[block],
        )

    def _boxes(self) -> np.ndarray:
        lengths = np.diff(self.offsets)
        left, top = split_pixels(self.starts, self.heights, lengths)
        right, bottom = split_pixels(self.stops - 1, self.heights, lengths)
        over = left < right
        y0 = min_each(np.where(over, 0, top), self.offsets, 0)
        y1 = max_each(bottom, self.offsets, -1)
        crossing = np.flatnonzero(over)
        owners = np.searchsorted(self.offsets, crossing, side="right") - 1
        y1[owners] = self.heights[owners] - 1
        filled = np.flatnonzero(lengths)
        x0, x1 = np.zeros(len(self), np.int64), np.full(len(self), -1)
        x0[filled] = left[self.offsets[filled]]
        x1[filled] = right[self.offsets[filled + 1] - 1]
        return np.stack([x0, y0, x1 - x0 + 1, y1 - y0 + 1], axis=1).astype(np.float64)

    def counts(self) -> list[np.ndarray]:
        """Lengths of the runs of every mask, background first: COCO's uncompressed code."""
        out = []
        for i in range(len(self)):
            part = slice(self.offsets[i], self.offsets[i + 1])
            edges = np.stack([self.starts[part], self.stops[part]], axis=1).ravel()
            total = int(self.heights[i] * self.widths[i])
            if not edges.size or edges[-1] != total:
                edges = np.append(edges, total)
            out.append(np.diff(edges, prepend=0))
        return out

    def dense(self, i: int) -> np.ndarray:
        """Mask `i` as (height, width) uint8 of 0 and 1."""
        height, width = int(self.heights[i]), int(self.widths[i])
        flat = np.zeros(height * width, np.uint8)
        part = slice(self.offsets[i], self.offsets[i + 1])
        for start, stop in zip(self.starts[part], self.stops[part], strict=True):
            flat[start:stop] = 1
        return flat.reshape(width, height).T


def masks_of_runs(lengths, counts, heights, widths) -> Masks:
    """Masks from checked run lengths: not negative, with a sum of height times width per mask.

    Parameters
    ----------
    lengths : (N,) number of runs of every mask.
    counts : flat int64 lengths of the runs, background first.
    """
    lengths = np.asarray(lengths, np.int64)
    odd = lengths & 1
    # pair a final run of background with a run of length 0
    counts = np.insert(np.asarray(counts, np.int64), np.cumsum(lengths)[odd == 1], 0)
    return masks_of_pairs((lengths + odd) >> 1, counts[::2], counts[1::2], heights, widths)


def masks_of_pairs(lengths, background, foreground, heights, widths) -> Masks:
    """Like `masks_of_runs`, from pairs of runs: (N,) numbers of pairs and their flat lengths."""
    offsets = offsets_of(lengths)
    stops = np.cumsum(background + foreground)
    # the sum before each mask is the end of the mask before it
    stops -= np.repeat(np.concatenate(([0], stops))[offsets[:-1]], lengths)
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    kind = place_type(heights, widths)
    stops = stops.astype(kind)
    return in_fewest(offsets, stops - foreground.astype(kind), stops, heights, widths)


def least_integer(most: int) -> type:
    """The smallest signed integer type for numbers up to `most`, to save memory."""
    return next(kind for kind in (np.int16, np.int32, np.int64) if most <= np.iinfo(kind).max)


def place_type(heights: np.ndarray, widths: np.ndarray) -> type:
    """The integer type for pixel numbers of images of these sizes."""
    return least_integer(max(1 << 16, int((heights * widths).max(initial=0))))


def in_fewest(offsets, starts, stops, heights, widths) -> Masks:
    """Masks from ascending stretches that may be empty or touch, since runs of length 0 are legal."""
    keep = stops > starts
    if not keep.all():
        starts, stops, offsets = starts[keep], stops[keep], _moved(offsets, keep)
    fresh = np.ones(len(starts), bool)
    fresh[1:] = starts[1:] != stops[:-1]
    fresh[offsets[:-1][offsets[1:] > offsets[:-1]]] = True
    if not fresh.all():
        last = np.ones(len(starts), bool)
        last[:-1] = fresh[1:]
        starts, stops, offsets = starts[fresh], stops[last], _moved(offsets, fresh)
    return Masks(offsets, starts, stops, heights, widths)


def _moved(offsets: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """`offsets` after removing all items but those of `keep`."""
    return np.concatenate(([0], np.cumsum(keep)))[offsets]


def split_pixels(pixels, heights, lengths) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of pixels; the N masks have `heights` (N,) and `lengths` (N,) of these pixels each.

    Float division is several times faster than integer division, and exact here: a quotient of whole
    numbers below 2**32 is never rounded up to the next whole number.
    """
    if not len(pixels):
        return pixels, pixels
    height = np.maximum(heights_of(heights, lengths), 1)
    column = (pixels / np.asarray(height, np.float64)).astype(np.int64)
    return column, pixels - column * height


def heights_of(heights: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The height for each of `lengths` (N,) pixels of N masks, flat; a single number if all are equal."""
    if len(heights) and (heights == heights[0]).all():
        return heights[:1]
    return np.repeat(heights, lengths)
