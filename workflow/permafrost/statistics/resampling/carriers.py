"""Which units of a test set carry a value, and the consequences for its interval.

The value of a class depends only on the units that hold the class, however many units there are.
Therefore the degrees of freedom of Student's t are limited by the number of units that carry the
value, a value with too few carriers is marked, and one with a single carrier has no error estimate:
it may be anything in its range.

With n_k units that hold class k, all equally informative, the variance of a mean over classes is
proportional to sum_k 1 / n_k, and Satterthwaite's degrees of freedom of its estimate are
(sum 1 / n_k)^2 / sum (1 / n_k^2 / (n_k - 1)): n - 1 for a single class. A class with one unit,
whose variance is unknown, counts as half a degree.
Source: Satterthwaite, An Approximate Distribution of Estimates of Variance Components (1946).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.statistics.resampling.jackknife import Spread
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units

ONE_UNIT = "one_unit"
FEW_UNITS = "few_units"
# with fewer units no sign test can reject at 5 %: an interval then rests on assumptions alone
ENOUGH_UNITS = 6


@dataclass(frozen=True)
class Carriers:
    """The units that carry a value.

    Attributes
    ----------
    labels : classes that the value averages; (None,) or its own class otherwise.
    counts : (K,) number of units of each. A class without units is excluded, unless it has a value,
        such as a share of false positives: then its uncertainty is unknown.
    units : U, of the test set.
    kind : name of a unit.
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
        """`valued` (K,) bool marks the classes that have a value."""
        counts = np.asarray(counts)
        kept = np.flatnonzero((counts > 0) | np.asarray(valued, bool))
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
        """Number of units of a single class with the same degrees of freedom."""
        return 1.0 if self.alone else min(self.df + 1, self.units)

    @property
    def alone(self) -> bool:
        """Whether one unit carries everything, so that it cannot be left out."""
        return self.units == 1 or (len(self.counts) == 1 and int(self.counts[0]) <= 1)

    @property
    def number(self) -> int:
        """`effective` as an integer, 0 if no unit carries the value."""
        return int(self.effective + 1e-9) if self.counts.any() else 0

    @property
    def support(self) -> float:
        """Number of units, sampled with equal probability, that would estimate the mean over
        classes equally well: `harmonic_support`."""
        return max(harmonic_support(self.counts), 1.0)

    @property
    def of_all(self) -> bool:
        """Whether all units carry the value, so that warnings about the test set suffice."""
        return bool(self.counts.size) and int(self.counts.min()) >= self.units

    @property
    def gate(self) -> str:
        """The warning ``one_unit`` or ``few_units`` with the reason, or empty; see `gates`."""
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
        # warnings are joined by semicolons
        label = str(self.labels[fewest]).replace(";", ",")
        return f'{code}: class "{label}" {self.has} in {number}{rest}'

    def deciding_gate(self, deciding: float) -> str:
        """``few_units`` if few of many units determine a value, as with errors near 1; or empty.

        Parameters
        ----------
        deciding : see `jackknife.Spread`. For homogeneous units it is about a third of their
            number.
        """
        if not deciding < min(ENOUGH_UNITS, self.effective / 4):
            return ""
        number = max(1, round(deciding))
        return f"{FEW_UNITS}: {number} of {self.units} {self.kind}s decide{'s' * (number == 1)}"


def carriers_of_metrics(family, values: dict, classes, units: Units) -> dict[str, list[Carriers]]:
    """Metric to its `Carriers`, one per class if it has a value per class.

    Parameters
    ----------
    family : has ``holders``, see `families.SingleLabel.holders`; all units carry metrics that it
        does not know.
    values : metric to a number, or (K,).
    """
    holders = getattr(family, "holders", lambda _: None)
    kinds = {"has": getattr(family, "has", "has truth")}
    found = {}
    for metric, value in values.items():
        counts = holders(metric)
        if counts is None:
            counts = np.full(np.shape(value) or 1, units.count)
        if np.ndim(value):
            found[metric] = [
                Carriers.of([label], [count], units, **kinds, valued=True)
                for label, count in zip(classes, counts.tolist(), strict=True)
            ]
        else:
            labels = classes if len(counts) == len(classes) > 1 else [None]
            found[metric] = [Carriers.of(labels, counts, units, **kinds)]
    return found


def quantiles_of(
    spreads: dict[str, Spread], carriers: dict[str, list[Carriers]], confidence: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Metric to quantiles of Student's t, for the df of its spread and for its carriers."""
    degrees = []
    for name, spread in spreads.items():
        most = np.array([own.df for own in carriers[name]]).reshape(spread.df.shape)
        support = np.array([own.support for own in carriers[name]]).reshape(spread.df.shape)
        degrees += [np.minimum(spread.df, most), np.maximum(support - 1, 1)]
    if not degrees:
        return {}
    quantiles = t_quantile(confidence, np.concatenate([np.ravel(each) for each in degrees]))
    ends = np.cumsum([each.size for each in degrees])[:-1]
    parts = [
        part.reshape(each.shape)
        for part, each in zip(np.split(quantiles, ends), degrees, strict=True)
    ]
    return dict(zip(spreads, zip(parts[::2], parts[1::2], strict=True), strict=True))


def units_of_each(labels, units, classes: int) -> np.ndarray:
    """(K,) distinct units among the samples of each label; `labels` and `units` are (N,)."""
    pairs = np.unique(np.asarray(labels, np.int64) + classes * np.asarray(units, np.int64))
    return np.bincount(pairs % classes, minlength=classes)


def units_with_truth(evaluation, units: np.ndarray) -> dict[str, np.ndarray]:
    """Area range to the (K,) numbers of units with truth of each category in it.

    Parameters
    ----------
    evaluation : `metrics.detection.evaluation.Evaluation`.
    units : (I,) unit of each image.
    """
    cells = evaluation.cells
    unit = units[cells.truth_cell % max(cells.images, 1)]
    found = {}
    for place, area in enumerate(evaluation.axes.area_names):
        counted = ~evaluation.matching.truth_ignored[:, place]
        found[area] = units_of_each(cells.truth_bucket[counted], unit[counted], cells.buckets)
    return found


def harmonic_support(each: np.ndarray) -> float:
    """K^2 / sum 1 / n_k over the K classes that occur: equivalent units of a mean over classes."""
    present = each[each > 0]
    return float(len(present) ** 2 / np.sum(1 / present)) if present.size else 0.0
