"""COCO's compressed run-length strings, many at a time.

A run is written in digits of 5 bits, lowest first, as the characters ``chr(48 + digit)``, plus 32
while more digits follow; the highest bit of the last digit is the sign. From the fourth run on, what
is written is the difference to the run two before, which is of the same colour.
"""

from __future__ import annotations

import numpy as np

from ..ragged import in_blocks, offsets_of, places_within
from .runs import Masks, masks_of_runs

# characters decoded together: small enough for the cache, and for memory to be used again at once
_BLOCK = 1 << 17
# seven digits hold 35 bits, and no run of an image below 2**32 pixels needs more
_MOST_DIGITS = 7

ALPHABET = "characters outside of '0' to 'o'"
UNFINISHED = "the last number is not finished"
LONG = "a number of more than seven digits"
NEGATIVE = "a negative run length"
TOTAL = "the run lengths do not add up to height times width"
_PROBLEMS = (ALPHABET, UNFINISHED, LONG, NEGATIVE, TOTAL)


def decode(
    strings: list[bytes], heights, widths, keep=None, measured=None
) -> tuple[Masks, np.ndarray, dict]:
    """Decode and check every string.

    Parameters
    ----------
    strings : N strings of ASCII bytes.
    heights, widths : (N,) sizes that the masks are said to have.
    keep : (N,) bool, the masks whose stretches are wanted (all where None); the others are checked
        and come back without stretches.
    measured : (N,) bool, the masks whose area and box are wanted (all where None).

    Returns
    -------
    The N masks, their (N, 5) areas and boxes (x, y, width, height; NaN where not wanted), and the
    problems: position of a bad string to one sentence. A bad string gives an empty mask.
    """
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    keep = np.ones(len(strings), bool) if keep is None else keep
    measured = np.ones(len(strings), bool) if measured is None else measured
    measures = np.full((len(strings), 5), np.nan)
    problems: dict[int, str] = {}
    parts = [Masks.empty([], [])]
    for block in in_blocks([len(string) for string in strings], _BLOCK):
        lengths, counts, bad = _decode_block(strings[block], heights[block] * widths[block])
        problems.update((block.start + place, _PROBLEMS[kind]) for place, kind in bad.items())
        wanted = keep[block] | measured[block]
        if not wanted.all():
            counts = counts[np.repeat(wanted, lengths)]
            lengths = np.where(wanted, lengths, 0)
        masks = masks_of_runs(lengths, counts, heights[block], widths[block])
        if measured[block].any():
            measures[block] = np.column_stack([masks.areas(), masks.boxes()])
        parts.append(_without(masks, ~keep[block]) if not keep[block].all() else masks)
    measures[~measured] = np.nan
    return Masks.joined(parts), measures, problems


def _without(masks: Masks, dropped: np.ndarray) -> Masks:
    """`masks`, those in `dropped` without stretches."""
    lengths = np.diff(masks.offsets)
    kept = np.repeat(~dropped, lengths)
    return Masks(
        offsets_of(np.where(dropped, 0, lengths)),
        masks.starts[kept],
        masks.stops[kept],
        masks.heights,
        masks.widths,
    )


def _decode_block(strings, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[int, int]]:
    """Runs per mask, run lengths and problems; masks with a problem have no runs."""
    bad: dict[int, int] = {}
    # a damaged mask would spoil those after it: find the damaged, leave them out, begin again
    while True:
        present = [b"" if i in bad else string for i, string in enumerate(strings)]
        digits = np.frombuffer(b"".join(present), np.uint8) - np.uint8(48)
        offsets = offsets_of([len(string) for string in present])
        found = _damaged_text(digits, offsets)
        if not found:
            lengths, counts = _numbers(digits, offsets)
            found = _damaged_runs(lengths, counts, pixels, bad)
        if not found:
            return lengths, counts, bad
        bad.update(found)


def _damaged_text(digits: np.ndarray, offsets: np.ndarray) -> dict[int, int]:
    foreign = np.flatnonzero(digits > 63)
    owners = np.searchsorted(offsets, foreign, side="right") - 1
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    open_end = filled[(digits[offsets[filled + 1] - 1] & 32) != 0]
    found = {int(mask): 1 for mask in open_end}
    found.update({int(mask): 0 for mask in owners})
    if not found:
        ends = np.flatnonzero((digits & 32) == 0)
        sizes = np.diff(ends, prepend=-1)
        long = ends[sizes > _MOST_DIGITS]
        found = {int(m): 2 for m in np.searchsorted(offsets, long, side="right") - 1}
    return found


def _numbers(digits: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers per mask, and the flat run lengths."""
    ends = np.flatnonzero((digits & 32) == 0)
    starts = np.empty_like(ends)
    starts[:1] = 0
    starts[1:] = ends[:-1] + 1
    sizes = ends - starts + 1
    values = (digits[starts] & 31).astype(np.int64)
    for place in range(1, int(sizes.max(initial=1))):
        longer = np.flatnonzero(sizes > place)
        values[longer] |= (digits[starts[longer] + place] & 31).astype(np.int64) << (5 * place)
    negative = np.flatnonzero(digits[ends] & 16)
    values[negative] -= np.int64(1) << (5 * sizes[negative])
    first = np.searchsorted(ends, offsets)
    return np.diff(first), _undo_differences(values, first)


def _undo_differences(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Run lengths from what is written; `first` says where the numbers of each mask start."""
    count = len(values)
    filled = first[:-1][first[1:] > first[:-1]]
    plain = values[filled]
    # run 0 takes part in no chain; the two colours are every other number, summed separately
    chained = np.zeros(count + (count & 1), np.int64)
    chained[:count] = values
    chained[filled] = 0
    sums = chained.reshape(-1, 2).cumsum(axis=0).ravel()
    padded = np.concatenate(([0, 0], sums))  # padded[i] is the sum two before i
    lengths = np.diff(np.append(filled, count))
    place = np.arange(count) - np.repeat(filled, lengths)
    # chains of odd runs begin at first + 1, those of even runs at first + 2
    base = np.where(
        place & 1, np.repeat(padded[filled + 1], lengths), np.repeat(padded[filled + 2], lengths)
    )
    runs = sums[:count] - base
    runs[filled] = plain
    return runs


def _damaged_runs(lengths, counts, pixels, known) -> dict[int, int]:
    offsets = offsets_of(lengths)
    negative = np.flatnonzero(counts < 0)
    # sums of runs that are each at most 2**32 cannot wrap around
    large = np.flatnonzero(counts > (1 << 32))
    if negative.size or large.size:
        found = {int(m): 4 for m in np.searchsorted(offsets, large, side="right") - 1}
        found.update({int(m): 3 for m in np.searchsorted(offsets, negative, side="right") - 1})
        return found
    totals = np.diff(np.concatenate(([0], np.cumsum(counts)))[offsets])
    return {int(m): 4 for m in np.flatnonzero(totals != pixels) if int(m) not in known}


def encode(masks: Masks) -> list[bytes]:
    """Every mask as pycocotools writes it."""
    runs = masks.counts()
    if not runs:
        return []
    lengths = np.array([len(counts) for counts in runs])
    values = np.concatenate(runs)
    place = places_within(lengths)
    later = np.flatnonzero(place > 2)
    written = values.copy()
    written[later] -= values[later - 2]
    sizes, chars = np.ones(len(written), np.int64), []
    rest, going = written.copy(), np.ones(len(written), bool)
    while True:
        digit = (rest & 31).astype(np.uint8)
        rest >>= 5
        # the last digit's highest bit must be the sign of what is left
        more = np.where(digit & 16, rest != -1, rest != 0) & going
        chars.append(digit + 48 + 32 * more.astype(np.uint8))
        if not more.any():
            break
        sizes += more
        going = more
    text = np.stack(chars, axis=1)
    flat = text[np.arange(text.shape[1]) < sizes[:, None]].tobytes()
    ends = np.cumsum(sizes)[np.cumsum(lengths) - 1]
    return [flat[a:b] for a, b in zip(np.concatenate(([0], ends[:-1])), ends, strict=True)]
