"""Jackknife and bootstrap replicates of an evaluation's scores, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.intervals import log_interval, wilson_interval
from permafrost.statistics.resampling.jackknife import PARTS, part_sizes, spread_of
from permafrost.statistics.resampling.resamples import draw_resamples, iter_jackknife
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units

Name = tuple[str, str | None]  # metric, class (None: overall)
# forms of intervals, see `Replicated.intervals`
FORMS = ("t", "wilson", "signed", "log", "any", "below_one")


class Scored(Protocol):
    """An evaluation: its scores by name, and the same on resamples; see `standalone.score_rows`."""

    @property
    def values(self) -> Mapping[Name, float]: ...

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]: ...


def without_parts(units: Units) -> np.ndarray:
    """(N, J) weight of each sample when one jackknife block is left out, see `jackknife`."""
    parts = [each.counts[units.index] for each in iter_jackknife(units.count, PARTS)]
    return np.concatenate(parts, axis=1)


class Replicated:
    """The scores of an evaluation without each jackknife block, and on resamples of the units.

    Parameters
    ----------
    evaluation : see `standalone.score_rows`.
    resamples : number of resamples, used to estimate the bias.
    """

    def __init__(self, evaluation: Scored, units: Units, *, resamples: int, seed: int) -> None:
        self.values, self.units = evaluation.values, units
        drawn = draw_resamples(units.count, resamples, seed)
        self.drawn = evaluation.replicates(drawn.counts[units.index])
        self.left_out = evaluation.replicates(without_parts(units))

    def bias(self, name: Name) -> float:
        """Mean of the replicates minus the value; 0 if all are undefined."""
        moved = self.drawn[name]
        moved = moved[~np.isnan(moved)]
        return float(moved.mean()) - self.values[name] if moved.size else 0.0

    def intervals(
        self, carriers: dict[Name, Carriers], confidence: float, forms: dict[str, str]
    ) -> dict[Name, tuple[float, float]]:
        """Lower and upper bound of every score; NaN if undefined or carried by a single unit.

        Precision is biased upward. Let b be the mean of its replicates minus its value. A resample
        doubles the variance from which the precision envelope rises, so the value itself exceeds
        the truth by b / (sqrt(2) - 1) if the bias falls with 1 / sqrt(n), and by b if it falls with
        1 / n. The interval subtracts 2 b, and adds b, the possible error of this correction, to the
        standard error.

        Parameters
        ----------
        forms : metric to ``t`` (value ± quantile x error, not below 0), ``wilson`` (in [0, 1]; the
            default), ``signed`` (the same in [-1, 1]), ``log`` (positive), ``any`` (value ± quantile x error) or
            ``below_one`` (1 - value on the logarithm).
        """
        names = list(self.values)
        values = np.array([self.values[name] for name in names], np.float64)
        bias = np.array([self.bias(name) for name in names])
        spread = spread_of(
            values,
            np.stack([self.left_out[name] for name in names]),
            part_sizes(self.units),
            centred=True,
        )
        most = np.array([carriers[name].df for name in names])
        quantiles = t_quantile(confidence, np.where(values == values, np.fmin(spread.df, most), 1))
        alike = t_quantile(confidence, [max(carriers[name].effective - 1, 1.0) for name in names])
        found = {}
        for place, name in enumerate(names):
            value, error, own = float(values[place]), float(spread.error[place]), carriers[name]
            form = forms.get(name[0], "wilson")
            if math.isnan(value) or own.alone or math.isinf(error):
                found[name] = math.nan, math.nan
            elif error == 0 and own.counts.max(initial=0) <= 1:
                # a single unit cannot be left out
                found[name] = math.nan, math.nan
            elif error == 0:
                # all units have the same value, which is known only for the units that carry the
                # score
                found[name] = _alike(value, own.effective, float(alike[place]), form)
            else:
                # values without a lower bound are heavy-tailed on resamples
                own_bias = 0.0 if form in ("any", "below_one") else float(bias[place])
                centre, error = value - 2 * own_bias, math.hypot(error, own_bias)
                found[name] = formed(centre, error, float(quantiles[place]), form)
        return found


def formed(centre: float, error: float, quantile: float, form: str) -> tuple[float, float]:
    """Lower and upper bound in one of `FORMS`, see `Replicated.intervals`."""
    if form == "t":
        return max(centre - quantile * error, 0.0), centre + quantile * error
    if form == "any":
        return centre - quantile * error, centre + quantile * error
    if form == "log":
        return log_interval(centre, error, quantile)
    if form == "below_one":
        lower, upper = log_interval(1 - centre, error, quantile)
        return 1 - upper, 1 - lower
    if form == "signed":
        lower, upper = formed((centre + 1) / 2, error / 2, quantile, "wilson")
        return 2 * lower - 1, 2 * upper - 1
    if not 0 < centre < 1:
        return max(centre - quantile * error, 0.0), min(centre + quantile * error, 1.0)
    return wilson_interval(centre, centre * (1 - centre) / error**2, quantile)


def _alike(value: float, size: float, quantile: float, form: str) -> tuple[float, float]:
    if form in ("log", "any", "below_one"):
        return math.nan, math.nan
    if form == "signed":
        lower, upper = _alike((value + 1) / 2, size, quantile, "wilson")
        return 2 * lower - 1, 2 * upper - 1
    return wilson_interval(min(max(value, 0.0), 1.0), size, quantile)
