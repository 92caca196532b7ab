"""Masks in COCO's run-length encoding: their text, and box and area without decoding the mask.

Runs go down the columns, from the left; the first run is background.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MOST_DIGITS = 7


def runs_of(text: str) -> list[int]:
    """Run lengths of COCO's compressed text: digits of 5 bits, lowest first, from ``chr(48)`` on.

    Bit 32 of a digit means that another one follows; the highest bit of the last is the sign. From
    the fourth run on, the number is the difference to the run two before.

    Raises
    ------
    ValueError : the text has another format.
    """
    runs: list[int] = []
    value = place = 0
    for character in text:
        digit = ord(character) - 48
        if not 0 <= digit < 64 or place == _MOST_DIGITS:
            raise ValueError("the run lengths are damaged")
        value |= (digit & 31) << 5 * place
        place += 1
        if digit & 32:
            continue
        if digit & 16:
            value -= 1 << 5 * place
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = place = 0
    if place:
        raise ValueError("the run lengths are damaged")
    return runs


def runs_box(runs: Sequence[int], height: int, width: int) -> tuple[list[float], float] | None:
    """Box ``[x_min, y_min, x_max, y_max]`` and area of a mask; None without foreground.

    Raises
    ------
    ValueError : the run lengths are not integers from 0 that add up to height times width.
    """
    if any(isinstance(run, bool) or not isinstance(run, int) or run < 0 for run in runs):
        raise ValueError("the run lengths are damaged")
    if sum(runs) != height * width:
        raise ValueError(f"the run lengths fill {sum(runs)} pixels, not {height} times {width}")
    ends = np.cumsum(np.array([*runs, *([0] * (len(runs) % 2))], np.int64)).reshape(-1, 2)
    starts, stops = ends[ends[:, 1] > ends[:, 0]].T
    if not len(starts):
        return None
    first, last = starts // height, (stops - 1) // height
    # a run past the end of a column fills it to the bottom and continues at the top
    over = last > first
    top = 0 if over.any() else (starts % height).min()
    bottom = height if over.any() else ((stops - 1) % height).max() + 1
    box = [float(first.min()), float(top), float(last.max() + 1), float(bottom)]
    return box, float((stops - starts).sum())


def text_of(runs: Sequence[int]) -> str:
    """COCO's compressed text of run lengths, as pycocotools writes it; the inverse of `runs_of`."""
    out = []
    for place, run in enumerate(runs):
        rest = run - runs[place - 2] if place > 2 else run
        while True:
            digit, rest = rest & 31, rest >> 5
            # the highest bit of the last digit is the sign
            if rest == (-1 if digit & 16 else 0):
                break
            out.append(chr(digit + 80))
        out.append(chr(digit + 48))
    return "".join(out)


def runs_of_raster(
    mask: np.ndarray, *, corner: tuple[int, int] = (0, 0), size: tuple[int, int] | None = None
) -> list[int]:
    """Run lengths of a mask (H, W), true in the object; `text_of` makes COCO's text of them.

    Parameters
    ----------
    corner : column and row of its upper left pixel in an image that is background elsewhere.
    size : height and width of this image, which holds the whole mask; by default those of the mask.
    """
    height, width = size or np.shape(mask)
    (left, top), (columns, rows) = corner, np.nonzero(np.asarray(mask, bool).T)
    places = (left + columns) * height + top + rows
    first = np.diff(places, prepend=-2) != 1
    starts, stops = places[first], places[np.append(first[1:], True)[: len(places)]] + 1
    edges = np.stack([starts, stops], axis=1).ravel()
    # the end of a mask whose last pixel is foreground is the end of the image
    ends = edges if len(edges) and edges[-1] == height * width else [*edges, height * width]
    return np.diff(ends, prepend=0).tolist()
