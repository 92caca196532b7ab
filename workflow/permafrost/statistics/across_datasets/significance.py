"""Tests of backbones over datasets by their ranks: Friedman, Nemenyi, and Wilcoxon against a reference.

They treat datasets as independent draws with one value each, so they are about other datasets of
this kind. The number of test items has no effect. All take (D, K) values without NaN, higher is
better.
Source: Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets (2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.standings import mean_rank, ranks_within
from permafrost.statistics.resampling.p_values import holm
from permafrost.statistics.resampling.student_t import incomplete_beta

# largest number of differences for the exact distribution of the signed ranks
_EXACT = 100
# where a normal density counts as 0, and number of integration points of a range
_FAR, _POINTS = 8.5, 241


@dataclass(frozen=True)
class Friedman:
    """Test of whether any two backbones differ: Friedman's chi-square with K - 1 degrees of
    freedom, corrected for ties, and the less conservative F of Iman and Davenport with K - 1 and (K
    - 1)(D - 1), None for one dataset.
    """

    chi_square: float
    p_chi_square: float
    f: float | None
    p_f: float | None


def friedman(values) -> Friedman:
    """Friedman's test. If all backbones tie on all datasets, statistics are 0 and p-values 1.

    Source: Friedman, The Use of Ranks to Avoid the Assumption of Normality (1937); Iman and Davenport, Approximations
    of the Critical Region of the Friedman Statistic (1980).
    """
    values = _checked(values)
    datasets, backbones = values.shape
    ranks = ranks_within(values) - (backbones + 1) / 2
    spread = np.sum(ranks**2)
    if spread == 0:
        return Friedman(0.0, 1.0, 0.0, 1.0)
    between = np.sum(ranks.sum(axis=0) ** 2) / datasets
    chi_square = float((backbones - 1) * between / (spread / datasets))
    p = chi_square_tail(chi_square, backbones - 1)
    if datasets < 2:
        return Friedman(chi_square, p, None, None)
    left = datasets * (backbones - 1) - chi_square
    # all datasets have the same order: F is infinite, and the exact p-value is 1 / (number of orders)^(D - 1)
    if left <= 1e-9 * chi_square:
        ties = np.unique(ranks[0], return_counts=True)[1]
        orders = math.lgamma(backbones + 1) - sum(math.lgamma(tie + 1) for tie in ties)
        return Friedman(chi_square, p, math.inf, math.exp(orders * (1 - datasets)))
    f = (datasets - 1) * chi_square / left
    return Friedman(chi_square, p, f, f_tail(f, backbones - 1, (backbones - 1) * (datasets - 1)))


def nemenyi_difference(backbones: int, datasets: int, level: float = 0.05) -> float:
    """The critical difference of mean ranks: its p-value, adjusted for all pairs, is `level`."""
    low, high = 0.0, 100.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (low, middle) if range_tail(middle, backbones) <= level else (middle, high)
    return high * _rank_error(backbones, datasets)


def nemenyi(values) -> np.ndarray:
    """(K, K) p-values of all pairs by their mean ranks, adjusted for all pairs; 1 on the diagonal.

    Source: Nemenyi, Distribution-Free Multiple Comparisons (1963).
    """
    values = _checked(values)
    ranks, error = mean_rank(values), _rank_error(values.shape[1], values.shape[0])
    gaps = np.abs(ranks[:, None] - ranks) / error
    found, place = np.unique(gaps, return_inverse=True)
    tails = np.array([range_tail(gap, values.shape[1]) for gap in found])
    return tails[place].reshape(gaps.shape)


def cliques(ranks, difference: float) -> list[list[int]]:
    """The bars of a critical-difference diagram: maximal groups with mean ranks in `difference`.

    Each is a list of indices of two or more backbones, best first; groups are sorted by their best.
    """
    ranks = np.asarray(ranks, np.float64)
    order = np.argsort(ranks, kind="stable")
    ends = np.searchsorted(ranks[order], ranks[order] + difference, side="left")
    ends = np.maximum(ends, np.arange(1, len(ranks) + 1))
    groups, reached = [], 0
    for start, end in enumerate(ends):
        if end > reached and end - start > 1:
            groups.append(order[start:end].tolist())
        reached = max(reached, end)
    return groups


def wilcoxon_against(values, reference: int) -> tuple[np.ndarray, np.ndarray]:
    """(K,) p-values against the backbone with index `reference`, and Holm-adjusted ones.

    Values of the reference itself are NaN.
    """
    values = _checked(values)
    gaps = values - values[:, [reference]]
    p_values = np.array(
        [math.nan if k == reference else wilcoxon(gap) for k, gap in enumerate(gaps.T)]
    )
    return p_values, holm(p_values)


def wilcoxon(differences) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test; zeros are excluded; 1 if all are 0.

    Exact, given the ranks with their ties, up to 100 differences; above, normal with corrections
    for ties and continuity.
    Source: Wilcoxon, Individual Comparisons by Ranking Methods (1945).
    """
    differences = np.asarray(differences, np.float64)
    differences = differences[differences != 0]
    if not differences.size:
        return 1.0
    # twice the ranks are integers
    ranks = np.rint(2 * ranks_within(-np.abs(differences))).astype(np.int64)
    positive, total = int(ranks[differences > 0].sum()), int(ranks.sum())
    smaller = min(positive, total - positive)
    if differences.size > _EXACT:
        deviation = math.sqrt(np.sum(ranks.astype(np.float64) ** 2) / 4)
        return min(1.0, math.erfc(max(total / 2 - smaller - 1, 0) / deviation / math.sqrt(2)))
    # share of all sign patterns with each sum
    shares = np.zeros(total + 1)
    shares[0] = 1
    for rank in ranks:
        moved = np.concatenate([np.zeros(rank), shares[: total + 1 - rank]])
        shares = (shares + moved) / 2
    return min(1.0, 2 * float(shares[: smaller + 1].sum()))


def chi_square_tail(statistic: float, df: int) -> float:
    """P(X >= statistic) of chi-square with an integer `df`, as a finite sum.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.4.4 and 26.4.5.
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    tail = math.erfc(math.sqrt(half)) if df % 2 else 0.0
    powers = np.arange(0.5 if df % 2 else 0, df / 2)
    terms = (math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in powers)
    return min(1.0, tail + math.fsum(terms))


def f_tail(statistic: float, df: float, df_below: float) -> float:
    """P(X >= statistic) of Fisher's F."""
    if statistic <= 0:
        return 1.0
    scaled = df * statistic
    x = df_below / (df_below + scaled)
    return float(incomplete_beta(x, scaled / (df_below + scaled), df_below / 2, df / 2)[0])


def range_tail(width: float, count: int) -> float:
    """P(range of `count` standard normals >= width): studentized range, infinite df.

    It is count x the integral of density(z) (Phi(z)^(count - 1) - [Phi(z) - Phi(z - width)]^(count
    - 1)), by the trapezoidal rule. Both powers are integrated together, because 1 minus the second
      would round off a small tail.
    """
    if width <= 0:
        return 1.0
    z, density, below = _standard_normal()
    tail = density * (below ** (count - 1) - (below - _normal(z - width)) ** (count - 1))
    return min(1.0, max(0.0, float(count * tail.sum() * (z[1] - z[0]))))


@cache
def _standard_normal() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integration points of a range, with the normal density and distribution there."""
    z = np.linspace(-_FAR, _FAR, _POINTS)
    return z, np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi), _normal(z)


def _normal(z) -> np.ndarray:
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in z])


def _rank_error(backbones: int, datasets: int) -> float:
    """Scale of mean ranks: their standard error x root(K / (K - 1)) without differences."""
    return math.sqrt(backbones * (backbones + 1) / (12 * datasets))


def _checked(values) -> np.ndarray:
    values = np.asarray(values, np.float64)
    datasets, backbones = values.shape
    if backbones < 2 or not datasets:
        raise ValueError("a test needs two backbones and a dataset")
    missing = np.isnan(values)
    if missing.any():
        dataset, backbone = np.argwhere(missing)[0]
        raise PermafrostError(
            f"{missing.sum()} scores are missing, the first of backbone {backbone} on dataset {dataset}",
            remedy="take the datasets that all backbones have",
        )
    return values
