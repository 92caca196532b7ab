"""A quantity of a profile: value, spread of its repeats, and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

#: a quantity is flagged if its interquartile range exceeds this share of the median
_QUIET = 0.2


@dataclass(frozen=True)
class Quantity:
    """A measured or counted number.

    Attributes
    ----------
    value : in `unit`; NaN if undefined, for the reason in ``notes["undefined"]``.
    lower, upper : quartiles of the repeats, NaN without repeats. They show how busy the machine
        was; they are not a confidence interval.
    repeats : number of measurements; None for a counted quantity.
    notes : further information.
    """

    value: float
    unit: str
    lower: float = math.nan
    upper: float = math.nan
    repeats: int | None = None
    notes: dict = field(default_factory=dict)


def undefined(unit: str, reason: str, **notes) -> Quantity:
    """A quantity with value NaN and the reason for it."""
    return Quantity(math.nan, unit, notes={"undefined": reason, **notes})


def repeated(values: Sequence[float], unit: str, **notes) -> Quantity:
    """Median and quartiles of repeats (percentiles with linear interpolation)."""
    lower, middle, upper = np.percentile(np.asarray(values, np.float64), (25, 50, 75)).tolist()
    if upper - lower > _QUIET * middle:
        share = 100 * (upper - lower) / middle if middle else math.inf
        notes["flag"] = (
            f"the middle half of the repeats spans {share:.0f} % of the median, so something else "
            "kept the machine busy"
        )
    return Quantity(middle, unit, lower, upper, len(values), notes)
