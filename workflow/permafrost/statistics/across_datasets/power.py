"""Number of datasets or test items needed to detect the difference of two backbones.

Both treat the observed mean difference and its spread as the true ones. If the difference is barely
significant, these are uncertain, so read the numbers as orders of magnitude. They hold for a test
of one pair; an adjusted test of many pairs needs more.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.draws import Scores
from permafrost.statistics.resampling.student_t import normal_quantile, t_quantile

# larger numbers count as infeasible in practice
_MOST = 10_000
# degrees of freedom beyond which t equals the normal to three digits, and the normal is much faster
_NORMAL = 1000
#: relative differences below this are rounding
_NONE = 1e-12


@dataclass(frozen=True)
class Needed:
    """Sample sizes that detect the difference of two backbones with a given power.

    Attributes
    ----------
    datasets : total number with the observed spread; None if no number suffices, or above 10,000.
    more_datasets : additional datasets, 0 if there are enough.
    times_items : factor by which every test set must grow, 1 if large enough; None if no size
        suffices.
    why_not_datasets, why_not_items : the reason for None, else empty.
    """

    datasets: int | None
    more_datasets: int | None
    times_items: float | None
    why_not_datasets: str
    why_not_items: str


def needed(
    scores: Scores, first: int, second: int, *, power: float = 0.8, level: float = 0.05
) -> Needed:
    """Sample sizes for a two-sided paired test of the mean difference of two backbones.

    Datasets: datasets and their test items are drawn, a paired t test of D differences with the
    observed standard deviation. Items: datasets are fixed; the standard error comes from test items
    and seeds, and only the first falls with the square root of the number of items. Further items
    are assumed to be sampled like the present ones, by groups if there are groups.
    """
    if not (0 < level < 1 and 0.5 <= power < 1):
        raise PermafrostError(
            f"power {power} at level {level}",
            remedy="give a power from 0.5 to below 1 and a level in (0, 1)",
        )
    values = scores.oriented()
    gaps = values[:, first] - values[:, second]
    gap = float(np.mean(gaps))
    if abs(gap) <= _NONE * (1 + np.abs(values).max()):
        none = "there is no difference between the two"
        return Needed(None, None, None, none, none)
    datasets, why_not_datasets = _datasets(gaps, gap, power, level)
    times_items, why_not_items = _items(scores, first, second, gap, power, level)
    more = None if datasets is None else max(0, datasets - len(gaps))
    return Needed(datasets, more, times_items, why_not_datasets, why_not_items)


def _datasets(gaps, gap: float, power: float, level: float) -> tuple[int | None, str]:
    if len(gaps) < 2:
        return None, "one dataset says nothing of the spread between datasets"
    effect = abs(gap) / float(np.std(gaps, ddof=1)) if np.ptp(gaps) > 0 else math.inf
    if t_test_power(_MOST, effect, level) < power:
        return None, f"more than {_MOST:,} datasets"
    low, high = 1, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if t_test_power(middle, effect, level) >= power else (middle, high)
        )
    return high, ""


def t_test_power(count: int, effect: float, level: float) -> float:
    """Approximate power of a two-sided t test of `count` differences with mean / sd `effect`.

    The noncentral t is approximated as normal by Abramowitz and Stegun's 26.7.10; the far tail is
    ignored.
    """
    df = count - 1
    bound = _bound(df, level)
    shift = effect * math.sqrt(count)
    if math.isinf(shift):
        return 1.0
    score = (bound * (1 - 1 / (4 * df)) - shift) / math.sqrt(1 + bound**2 / (2 * df))
    return math.erfc(score / math.sqrt(2)) / 2


@functools.cache
def _bound(df: int, level: float) -> float:
    return normal_quantile(1 - level) if df > _NORMAL else float(t_quantile(1 - level, df))


def _items(
    scores: Scores, first: int, second: int, gap: float, power: float, level: float
) -> tuple[float | None, str]:
    if scores.items is None:
        return None, "the contribution of test items is unknown"
    count = len(scores.items)
    of_items = sum(_variance(each[first] - each[second]) for each in scores.items) / count**2
    of_seeds = float(scores.seed_variance()[:, [first, second]].sum()) / count**2

    # this standard error gives the requested power
    error = abs(gap) / (normal_quantile(1 - level) + NormalDist().inv_cdf(power))
    if of_items == 0 and of_seeds == 0:
        return None, "test sets of one unit, or of no disagreement, say nothing of others"
    if error**2 <= of_seeds:
        return None, "seeds alone stray too much: run more of them"
    return max(1.0, of_items / (error**2 - of_seeds)), ""


def _variance(parts: np.ndarray) -> float:
    count = len(parts)
    return float(np.sum(parts**2)) * count / (count - 1) if count > 1 else 0.0
