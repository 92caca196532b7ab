"""Format numbers for people: on the page, in figures and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from permafrost.statistics.leaderboard.rows import finite

NONE = "–"  # a missing value
_MINUS = "−"


def number(value, digits: int = 3) -> str:
    """``0.931``, ``−0.020``; a dash for a missing value. Zero after rounding has no sign."""
    if not finite(value):
        return NONE
    return true_minus(f"{round(float(value), digits) + 0.0:.{digits}f}")


def signed(value, digits: int = 3) -> str:
    """A difference: ``+0.031``, ``−0.020``."""
    if not finite(value):
        return NONE
    return true_minus(f"{round(float(value), digits) + 0.0:+.{digits}f}")


def true_minus(text: str) -> str:
    """`text` with minus signs instead of hyphens."""
    return text.replace("-", _MINUS)


def interval(lower, upper, write: Callable[[float], str] = number) -> str:
    """``[0.858, 0.986]``, with limits formatted by `write`; empty if a limit is missing."""
    if not (finite(lower) and finite(upper)):
        return ""
    return f"[{write(lower)}, {write(upper)}]"


def interval_of(row: dict, write: Callable[[float], str] = number) -> str:
    """`interval` of a row with ``lower`` and ``upper``."""
    return interval(row["lower"], row["upper"], write)


def places(ranks: Sequence[float | None]) -> list[str]:
    """Competition ranks: ``1=``, ``1=``, ``3``; a dash for a missing rank.

    Parameters
    ----------
    ranks : of all that are ranked together, from 1 (best); ties have equal ranks of any kind.
    """
    known = [rank for rank in ranks if finite(rank)]
    return [
        f"{1 + sum(other < rank for other in known)}{'=' * (known.count(rank) > 1)}"
        if finite(rank)
        else NONE
        for rank in ranks
    ]


def listed(words: Iterable[str]) -> str:
    """``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def chance(share: float) -> str:
    """``93 %``; never 0 or 100 %, which draws cannot establish: ``< 1 %``, ``> 99 %``."""
    percent = math.floor(100 * share + 0.5)
    return "< 1 %" if percent < 1 else "> 99 %" if percent > 99 else f"{percent} %"


def p_value_text(value: float | None, *, smallest: float = 0.0, digits: int = 3) -> str:
    """A p-value as text: ``< 0.001`` below the shown digits, ``≤`` at the smallest possible value.

    Parameters
    ----------
    smallest : 1 / (resamples + 1) for a p-value from resamples, an upper bound of the true p-value.
    """
    if value is None or math.isnan(value):
        return "–"
    step = 10**-digits
    bound = max(step, math.ceil(smallest / step - 1e-9) * step) if value <= smallest else step
    return f"< {bound:.{digits}f}" if value < bound else f"{value:.{digits}f}"


def class_words(classes: list[str], labels) -> str:
    """The name of one class (an index), or of all classes in a row of zeros and ones."""
    if not hasattr(labels, "__len__"):
        return classes[int(labels)]
    return ", ".join(name for name, has in zip(classes, labels, strict=True) if has) or "nothing"
