"""Two-sided p-values of paired differences, and their adjustment within a family."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_ROUNDING = 1e-9
# members whose replicates are in memory at once
_TOGETHER = 256


def bootstrap_p_value(differences: np.ndarray) -> float:
    """p = min(1, 2 min(1 + #{d <= 0}, 1 + #{d >= 0}) / (B + 1)) over the B defined replicates.

    This inverts the percentile interval: p <= alpha if the interval at confidence 1 - alpha is on
    one side of 0 (up to the interpolation of the quantiles). Counting the observed sample once,
    hence the ones, keeps p above 0: the smallest value is 2 / (B + 1), so 200 resamples give at
    least 0.00995. NaN without any defined replicate.
    Source: Davison and Hinkley, Bootstrap Methods and their Application (1997), section 4.4.
    """
    defined = differences[~np.isnan(differences)]
    if not defined.size:
        return float("nan")
    tail = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
    return min(1.0, 2 * (1 + int(tail)) / (defined.size + 1))


def step_down_max_t(
    statistics: np.ndarray, null_replicates: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Step-down max-T adjusted p-values of a family of two-sided tests (Romano and Wolf).

    With the statistics sorted from large to small, the i-th adjusted p-value is
    (1 + #{b : max over the members i..m of their null replicate b >= statistic i}) / (B + 1), made
    non-decreasing. The replicates of all members come from the same resamples, so the dependence of
    the tests is used instead of bounded; the smallest value, 1 / (B + 1), is the same for every
    family size.

    Parameters
    ----------
    statistics : (m,) absolute test statistics, such as |difference| / standard error; NaN is not a
        member of the family and stays NaN. Infinity exceeds every replicate.
    null_replicates : function of (k,) member indices that returns (k, B) absolute statistics under
        the null hypothesis, on the same scale; NaN if a resample leaves a member undefined, which
        is then excluded from the maximum. Each member is computed once, a block at a time, so that
        (m, B) numbers are never in memory at once.

    Source: Romano and Wolf, Exact and Approximate Stepdown Methods for Multiple Hypothesis Testing
    (2005), and Efficient Computation of Adjusted p-Values for Resampling-Based Stepdown Multiple Testing
    (2016); Westfall and Young, Resampling-Based Multiple Testing (1993).
    """
    statistics = np.asarray(statistics, np.float64)
    adjusted = np.full(statistics.shape, np.nan)
    members = np.flatnonzero(~np.isnan(statistics))
    ascending = members[np.argsort(statistics[members], kind="stable")]
    largest: np.ndarray | None = None
    for start in range(0, len(ascending), _TOGETHER):
        block = ascending[start : start + _TOGETHER]
        drawn = null_replicates(block)
        if largest is not None:
            drawn[0] = np.fmax(drawn[0], largest)
        np.fmax.accumulate(drawn, axis=0, out=drawn)
        # rounding must not separate equal statistics, such as two members with the same predictions
        reached = drawn >= statistics[block, None] * (1 - _ROUNDING)
        adjusted[block] = (1 + np.count_nonzero(reached, axis=1)) / (drawn.shape[1] + 1)
        largest = drawn[-1]
    descending = ascending[::-1]
    adjusted[descending] = np.maximum.accumulate(adjusted[descending])
    return adjusted


def holm(p_values) -> np.ndarray:
    """Holm's step-down adjusted p-values (m,), valid under any dependence; NaN is skipped.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure (1979).
    """
    p_values = np.asarray(p_values, np.float64)
    adjusted = np.full(p_values.shape, np.nan)
    members = np.flatnonzero(~np.isnan(p_values))
    ascending = members[np.argsort(p_values[members], kind="stable")]
    scaled = p_values[ascending] * np.arange(len(ascending), 0, -1)
    adjusted[ascending] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted


def mcnemar_p_value(only_a: int, only_b: int) -> float:
    """McNemar's exact two-sided p-value.

    Parameters
    ----------
    only_a, only_b : number of samples that only one of them, or only the other, gets right. If
        neither is better, `only_a` is Binomial(only_a + only_b, 1/2). 1 without disagreement.

    It assumes independent samples, so it does not apply to grouped ones.
    """
    # same as `scipy.stats.binomtest`, whose import takes ten times as long as all others of
    # `compare` together (3.7 s against 0.4 s, `python -X importtime` on two busy cores)
    trials, fewer = only_a + only_b, min(only_a, only_b)
    if trials == 0:
        return 1.0
    ways = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        for k in range(fewer + 1)
    )
    tail = math.fsum(math.exp(way - trials * math.log(2)) for way in ways)
    return min(1.0, 2 * tail)
