"""How many units carry a figure, and its interval from leaving units out.

Figures of rare classes rest on the few images that hold them, however many images there are. So the
degrees of freedom of Student's t are no more than the units that carry a figure allow, and a figure that
rests on too few is marked.

With n_k units that hold truth of class k, and units that tell about the same, the variance of a mean over
classes is proportional to sum_k 1 / n_k, and Satterthwaite's degrees of freedom of its estimate are
(sum 1 / n_k)^2 / sum (1 / n_k^2 / (n_k - 1)): n - 1 for a single class. A class of one unit, whose variance
is unknown, counts as half a degree.
Source: Satterthwaite, An Approximate Distribution of Estimates of Variance Components (1946).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.statistics.resampling.intervals import log_interval, wilson_interval
from permafrost.statistics.resampling.jackknife import PARTS, part_sizes, spread_of
from permafrost.statistics.resampling.resamples import draw_resamples, iter_jackknife
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units
from permafrost.statistics.scores.gates import ENOUGH_UNITS, FEW_UNITS, ONE_UNIT

Name = tuple[str, str | None]  # metric, class (None: overall)
# how an interval is formed: see `Replicated.intervals`
FORMS = ("t", "wilson", "signed", "log")


@dataclass(frozen=True)
class Carriers:
    """The units that carry a figure.

    Attributes
    ----------
    labels : of the classes that the figure is a mean of; (None,) or its class where it is no mean.
    counts : (K,) units of each. A class without any is left out, unless it has a value all the same, as a
        share of false alarms has: then nothing is known of it.
    units : U, of the test set.
    kind : what a unit is called.
    has : what a class has in these units, in words.
    """

    labels: tuple
    counts: np.ndarray
    units: int
    kind: str
    has: str = "has truth"

    @classmethod
    def of(
        cls,
        labels,
        counts,
        units: Units,
        *,
        kind: str | None = None,
        has: str = "has truth",
        valued=False,
    ):
        """`valued` (K,) bool are the classes that have a value."""
        counts = np.asarray(counts)
        kept = np.flatnonzero((counts > 0) | np.asarray(valued))
        labels = tuple(labels[place] for place in kept)
        return cls(labels, counts[kept], units.count, kind or units.kind, has)

    @cached_property
    def df(self) -> float:
        """Degrees of freedom, 1 to U - 1."""
        if not self.counts.size:
            return 1.0
        shares = 1 / np.maximum(self.counts, 1)
        df = shares.sum() ** 2 / np.sum(shares**2 / np.maximum(self.counts - 1, 0.5))
        return float(max(1.0, min(df, self.units - 1)))

    @property
    def effective(self) -> float:
        """Number of units of one class that would have as many degrees of freedom."""
        return 1.0 if self.alone else min(self.df + 1, self.units)

    @property
    def alone(self) -> bool:
        """Whether one unit carries all: it cannot be left out."""
        return self.units == 1 or (len(self.counts) == 1 and int(self.counts[0]) <= 1)

    @property
    def gate(self) -> str:
        """``one_unit`` or ``few_units`` with the reason, or nothing; see `gates`."""
        if not self.counts.size or self.effective >= ENOUGH_UNITS:
            return ""
        code = ONE_UNIT if self.alone else FEW_UNITS
        fewest = int(np.argmin(self.counts))
        count = int(self.counts[fewest])
        number = f"{count or 'no'} {self.kind}{'s' * (count > 1)}"
        if count >= self.units or self.labels[fewest] is None:
            return f"{code}: {number}"
        more = int(np.count_nonzero(self.counts < ENOUGH_UNITS)) - 1
        rest = f", {more} more in fewer than {ENOUGH_UNITS}" if more > 0 else ""
        return f'{code}: class "{self.labels[fewest]}" {self.has} in {number}{rest}'


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
            if math.isnan(value) or own.alone:
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
