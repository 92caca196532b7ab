"""COCO's compressed run-length strings, many at a time.

A run is written in digits of 5 bits, lowest first, as the characters ``chr(48 + digit)``, plus 32
if more digits follow; the highest bit of the last digit is the sign. From the fourth run on, the
difference to the run two before, which has the same colour, is written.
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.detection.masks.runs import Masks, masks_of_pairs
from permafrost.metrics.detection.masks.text import Text
from permafrost.metrics.detection.ragged import (
    in_blocks,
    offsets_of,
    owners_of,
    places_within,
    sum_each,
)

# characters decoded at once: few enough for the CPU cache, and for memory to be reused
_BLOCK = 1 << 18
# seven digits hold 35 bits, and no run of an image below 2**32 pixels needs more
_MOST_DIGITS = 7

ALPHABET = "characters outside of '0' to 'o'"
UNFINISHED = "the last number is not finished"
LONG = "a number of more than seven digits"
NEGATIVE = "a negative run length"
TOTAL = "the run lengths do not add up to height times width"
_PROBLEMS = (ALPHABET, UNFINISHED, LONG, NEGATIVE, TOTAL)


def decode(
    strings: Text | list[bytes] | list[str], heights, widths, keep=None, measured=None
) -> tuple[Masks, np.ndarray, dict]:
    """Decode and check every string.

    Parameters
    ----------
    strings : N strings; non-ASCII characters are a problem like any other invalid one.
    heights, widths : (N,) declared sizes of the masks in pixels.
    keep : (N,) bool, the masks whose runs are needed (all if None); the others are checked
        and returned without foreground.
    measured : (N,) bool, the masks whose area and box are needed (all if None).

    Returns
    -------
    The N masks, their (N, 5) areas and boxes (x, y, width, height; NaN if not requested), and the
    problems: position of an invalid string to a sentence. An invalid string gives an empty mask.
    """
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    keep = np.ones(len(strings), bool) if keep is None else keep
    measured = np.ones(len(strings), bool) if measured is None else measured
    measures = np.full((len(strings), 5), np.nan)
    problems: dict[int, str] = {}
    text = strings if isinstance(strings, Text) else Text.of(strings)
    sizes = np.diff(text.offsets)

    def parts():
        for block in in_blocks(sizes, _BLOCK):
            pairs, bad = _decode_block(text.part(block), heights[block] * widths[block])
            problems.update((block.start + place, _PROBLEMS[kind]) for place, kind in bad.items())
            wanted = keep[block] | measured[block]
            pairs = pairs if wanted.all() else _without(pairs, ~wanted)
            masks = masks_of_pairs(*pairs, heights[block], widths[block])
            if measured[block].any():
                measures[block] = np.column_stack([masks.areas(), masks.boxes()])
                masks = masks.without(~keep[block])
            yield masks

    # a stretch has two numbers
    masks = Masks.gathered(parts(), heights, widths, int(sizes[keep].sum()) // 2)
    measures[~measured] = np.nan
    return masks, measures, problems


def _without(pairs, dropped: np.ndarray):
    """`pairs` without those of `dropped` masks."""
    lengths, background, foreground = pairs
    kept = np.repeat(~dropped, lengths)
    return np.where(dropped, 0, lengths), background[kept], foreground[kept]


def _decode_block(text: Text, pixels: np.ndarray):
    """Number of pairs of runs per mask, the two runs of every pair, and problems.

    Masks with a problem have no runs.
    """
    bad: dict[int, int] = {}
    # a damaged mask would corrupt all after it: find the damaged, remove them, decode again
    while True:
        found = _damaged_text(text)
        if not found:
            pairs = text.pairs()
            found = _damaged_runs(*pairs, pixels, bad)
        if not found:
            return pairs, bad
        bad.update(found)
        text = text.without(list(found))


def _damaged_text(text: Text) -> dict[int, int]:
    digits, offsets = text.digits, text.offsets
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    open_end = filled[(digits[offsets[filled + 1] - 1] & 32) != 0]
    found = {int(mask): 1 for mask in open_end}
    if digits.size and digits.max() > 63:
        found.update(dict.fromkeys(owners_of(offsets, np.flatnonzero(digits > 63)).tolist(), 0))
    if not found:
        numbers = text.long_numbers
        long = numbers.ends[numbers.sizes > _MOST_DIGITS]
        found = dict.fromkeys(owners_of(offsets, long).tolist(), 2)
    return found


def _damaged_runs(lengths, background, foreground, pixels, known) -> dict[int, int]:
    offsets = offsets_of(lengths)
    sides = (background, foreground)
    # sums of runs of at most 2**32 each cannot overflow; as unsigned numbers, negative runs are larger
    if any(side.view(np.uint64).max(initial=0) > 1 << 32 for side in sides):
        large = np.flatnonzero(np.logical_or(*(side > 1 << 32 for side in sides)))
        negative = np.flatnonzero(np.logical_or(*(side < 0 for side in sides)))
        found = dict.fromkeys(owners_of(offsets, large).tolist(), 4)
        return {**found, **dict.fromkeys(owners_of(offsets, negative).tolist(), 3)}
    totals = sum_each(background, offsets) + sum_each(foreground, offsets)
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
        # the last digit's highest bit must equal the sign of the rest
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
