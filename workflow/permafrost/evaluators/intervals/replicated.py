"""The figures of an evaluation with units left out and on resamples, and their intervals."""

from __future__ import annotations

import math

import numpy as np

from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.intervals import log_interval, wilson_interval
from permafrost.statistics.resampling.jackknife import PARTS, part_sizes, spread_of
from permafrost.statistics.resampling.resamples import draw_resamples, iter_jackknife
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units

Name = tuple[str, str | None]  # metric, class (None: overall)
# how an interval is formed: see `Replicated.intervals`
FORMS = ("t", "wilson", "signed", "log")


def without_parts(units: Units) -> np.ndarray:
    """(N, J) how often each sample is in the test set without each part, see `jackknife`."""
    parts = [each.counts[units.index] for each in iter_jackknife(units.count, PARTS)]
    return np.concatenate(parts, axis=1)


class Replicated:
    """The figures of an evaluation without each part of its units, and on resamples of them.

    Parameters
    ----------
    evaluation : see `standalone.score_rows`.
    resamples : number of resamples, from which the bias comes.
    """

    def __init__(self, evaluation, units: Units, *, resamples: int, seed: int) -> None:
        self.values, self.units = evaluation.values, units
        drawn = draw_resamples(units.count, resamples, seed)
        self.drawn = evaluation.replicates(drawn.counts[units.index])
        self.left_out = evaluation.replicates(without_parts(units))

    def bias(self, name: Name) -> float:
        """Mean of the replicates minus the value; 0 where all are undefined."""
        moved = self.drawn[name]
        moved = moved[~np.isnan(moved)]
        return float(moved.mean()) - self.values[name] if moved.size else 0.0

    def intervals(
        self, carriers: dict[Name, Carriers], confidence: float, forms: dict[str, str]
    ) -> dict[Name, tuple[float, float]]:
        """Lower and upper of every figure; NaN where it is undefined or a single unit carries it.

        Replicates of precision lie above the value by b, its bias on resamples. The value lies above the
        truth by more: by b / (sqrt(2) - 1) where the bias falls with 1 / sqrt(n), since a resample doubles
        the variance that the envelope of precision rises from; by b where it falls with 1 / n. So 2 b are
        taken away, and b, by which that may be wrong, is added to the standard error.

        Parameters
        ----------
        forms : metric to ``t`` (value ± quantile x error, not below 0), ``wilson`` (in [0, 1]),
            ``signed`` (the same in [-1, 1]) or ``log`` (positive); ``wilson`` where it is not named.
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
                # nothing can be left out
                found[name] = math.nan, math.nan
            elif error == 0:
                # all units are alike, which is known of those alone that carry the figure
                found[name] = _alike(value, own.effective, float(alike[place]), form)
            else:
                own_bias = float(bias[place])
                centre, error = value - 2 * own_bias, math.hypot(error, own_bias)
                found[name] = _formed(centre, error, float(quantiles[place]), form)
        return found


def _formed(centre: float, error: float, quantile: float, form: str) -> tuple[float, float]:
    if form == "t":
        return max(centre - quantile * error, 0.0), centre + quantile * error
    if form == "log":
        return log_interval(centre, error, quantile)
    if form == "signed":
        lower, upper = _formed((centre + 1) / 2, error / 2, quantile, "wilson")
        return 2 * lower - 1, 2 * upper - 1
    if not 0 < centre < 1:
        return max(centre - quantile * error, 0.0), min(centre + quantile * error, 1.0)
    return wilson_interval(centre, centre * (1 - centre) / error**2, quantile)


def _alike(value: float, size: float, quantile: float, form: str) -> tuple[float, float]:
    if form == "log":
        return math.nan, math.nan
    if form == "signed":
        lower, upper = _alike((value + 1) / 2, size, quantile, "wilson")
        return 2 * lower - 1, 2 * upper - 1
    return wilson_interval(min(max(value, 0.0), 1.0), size, quantile)
