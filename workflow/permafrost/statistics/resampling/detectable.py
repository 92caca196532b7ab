"""The smallest difference that a test set and a family of comparisons can detect."""

from __future__ import annotations

import math

import numpy as np

from permafrost.statistics.resampling.student_t import (
    incomplete_beta,
    normal_quantile,
    t_quantile,
)

#: probability of detecting a difference of this size
POWER = 0.8
_Z = normal_quantile(2 * POWER - 1)
_HALVINGS = 50


def smallest_found(error, df, critical) -> np.ndarray:
    """Differences that a two-sided t test detects with power `POWER`; infinite if `critical` is.

    Parameters
    ----------
    error : standard errors of differences; df : their degrees of freedom.
    critical : |t| above which a difference is significant.

    The noncentral t is approximated as normal.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.10.
    """
    error, df, critical = (np.asarray(each, np.float64) for each in (error, df, critical))
    with np.errstate(invalid="ignore"):
        shift = critical * (1 - 1 / (4 * df)) + _Z * np.sqrt(1 + critical**2 / (2 * df))
        return error * shift


def critical_value(largest: np.ndarray, confidence: float) -> float:
    """Value above which a statistic has an adjusted p-value <= 1 - confidence; or infinity.

    Parameters
    ----------
    largest : (B,) largest statistic of a family under the null hypothesis, see
        `p_values.step_down_max_t`.
    """
    exceeding = math.floor((1 - confidence) * (len(largest) + 1) * (1 + 1e-12)) - 1
    if exceeding < 0:
        return math.inf
    return float(np.sort(largest)[::-1][exceeding]) if exceeding < len(largest) else 0.0


def units_that_must_differ(n_units: int, level: float) -> float:
    """Share of units that must differ in one direction, for a sign test with power `POWER`.

    The test needs m units with 2^(1 - m) <= level. NaN if there are fewer.
    """
    needed = math.ceil(1 - math.log2(level) - 1e-12)
    if needed > n_units:
        return math.nan
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # P(Binomial(U, q) >= m) = I_q(m, U - m + 1)
        chance = float(incomplete_beta(middle, 1 - middle, needed, n_units - needed + 1)[0])
        low, high = (low, middle) if chance >= POWER else (middle, high)
    return high


def planned(
    n_units: int, backbones: int, resamples: int, confidence: float, deviation: float
) -> float:
    """Difference that would be detected with power `POWER`, before any result; or NaN.

    All pairs of backbones are one family of tests, assumed independent; dependent tests detect
    slightly smaller differences.

    Parameters
    ----------
    resamples : an adjusted p-value is at least 1 / (resamples + 1), and at least 2^(1 - U).
    deviation : standard deviation over units of the difference of two backbones.
    """
    pairs = backbones * (backbones - 1) // 2
    level = 1 - confidence
    if n_units < 2 or not pairs or max(1 / (resamples + 1), 2.0 ** (1 - n_units)) > level:
        return math.nan
    df = n_units - 1
    critical = t_quantile(confidence ** (1 / pairs), df)
    return float(smallest_found(deviation / math.sqrt(n_units), df, critical))
