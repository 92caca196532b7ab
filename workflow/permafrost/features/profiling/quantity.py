"""One quantity of a profile: a number, how far its repeats spread, and what must be said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

#: a middle half of the repeats that is wider than this share of their median is flagged
_QUIET = 0.2


@dataclass(frozen=True)
class Quantity:
    """A number in the unit `unit`; NaN where there is none, and then ``notes["undefined"]`` says why.

    Attributes
    ----------
    lower, upper : quartiles of the repeats, NaN where nothing was repeated. They say how quiet the
        machine was, and are no confidence interval.
    repeats : how often it was measured; None for what is counted.
    notes : anything else, for the record.
    """

    value: float
    unit: str
    lower: float = math.nan
    upper: float = math.nan
    repeats: int | None = None
    notes: dict = field(default_factory=dict)


def undefined(unit: str, reason: str, **notes) -> Quantity:
    """A quantity without a value."""
    return Quantity(math.nan, unit, notes={"undefined": reason, **notes})


def repeated(values: Sequence[float], unit: str, **notes) -> Quantity:
    """The median of repeats, between their quartiles (percentiles with linear interpolation)."""
    lower, middle, upper = np.percentile(np.asarray(values, np.float64), (25, 50, 75)).tolist()
    if upper - lower > _QUIET * middle:
        share = 100 * (upper - lower) / middle if middle else math.inf
        notes["flag"] = (
            f"the middle half of the repeats spans {share:.0f} % of the median, so something else "
            "kept the machine busy"
        )
    return Quantity(middle, unit, lower, upper, len(values), notes)
