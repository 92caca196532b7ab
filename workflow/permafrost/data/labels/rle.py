"""Box and area of a mask in COCO's run-length encoding, without decoding the mask.

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
