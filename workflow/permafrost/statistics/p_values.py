"""Two-sided p-values of paired differences, and their adjustment within a family."""

from __future__ import annotations

import math

import numpy as np


def bootstrap_p_value(differences: np.ndarray) -> float:
    """p = min(1, 2 min(1 + #{d <= 0}, 1 + #{d >= 0}) / (B + 1)) over the B defined replicates.

    This inverts the percentile interval: p <= alpha when the interval at confidence 1 - alpha lies
    on one side of 0 (up to the interpolation of the quantiles). Counting the observed sample once,
    hence the ones, keeps it above 0: the smallest value is 2 / (B + 1), so 200 resamples cannot
    give less than 0.00995 and a family of six pairs cannot reach 0.05 after adjustment. NaN
    without any defined replicate.
    Source: Davison and Hinkley, Bootstrap Methods and their Application (1997), section 4.4.
    """
    defined = differences[~np.isnan(differences)]
    if not defined.size:
        return float("nan")
    tail = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
    return min(1.0, 2 * (1 + int(tail)) / (defined.size + 1))


def holm(p_values) -> np.ndarray:
    """Holm's step-down adjustment of a family of p-values.

    The i-th smallest of m is multiplied by m - i + 1, then made non-decreasing and at most 1. NaN
    stays NaN and does not count as a member.
    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure (1979).
    """
    p_values = np.asarray(p_values, np.float64)
    adjusted = np.full(p_values.shape, np.nan)
    members = np.flatnonzero(~np.isnan(p_values))
    ordered = members[np.argsort(p_values[members], kind="stable")]
    factors = np.arange(len(ordered), 0, -1)
    adjusted[ordered] = np.minimum(1.0, np.maximum.accumulate(factors * p_values[ordered]))
    return adjusted


def mcnemar_p_value(only_a: int, only_b: int) -> float:
    """McNemar's exact two-sided p-value.

    Parameters
    ----------
    only_a, only_b : number of samples that only the one, or only the other, gets right. If neither
        is better, `only_a` is Binomial(only_a + only_b, 1/2). 1 without disagreement.

    It takes samples for independent, so it says nothing about grouped ones.
    """
    trials, fewer = only_a + only_b, min(only_a, only_b)
    if trials == 0:
        return 1.0
    ways = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        for k in range(fewer + 1)
    )
    tail = math.fsum(math.exp(way - trials * math.log(2)) for way in ways)
    return min(1.0, 2 * tail)
