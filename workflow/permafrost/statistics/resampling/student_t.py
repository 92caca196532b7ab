"""Student's t distribution for arrays, without the slow import of SciPy."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

_STEPS = 4
_MOST_TERMS = 500
_TINY = 1e-300


def two_sided_p(statistic, df) -> np.ndarray:
    """P(|T| >= |statistic|) with `df` >= 1 degrees of freedom; NaN if either is NaN.

    It is the incomplete beta function I_x(df / 2, 1 / 2) at x = df / (df + statistic²).
    """
    statistic, df = np.broadcast_arrays(np.asarray(statistic, np.float64), df)
    out = np.where(np.isinf(statistic), 0.0, np.nan)
    known = np.isfinite(statistic) & ~np.isnan(df)
    square, df = statistic[known] ** 2, df[known].astype(np.float64)
    out[known] = incomplete_beta(df / (df + square), square / (df + square), df / 2, 0.5)
    return out


def t_quantile(confidence: float, df) -> np.ndarray:
    """The t with P(|T| <= t) = `confidence`, for each `df` >= 1; NaN if `df` is NaN.

    Newton's method on log t, started from an expansion in 1 / df.
    Source of the expansion: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    df = np.asarray(df, np.float64)
    tail = 1 - confidence
    z = normal_quantile(confidence)
    expansion = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    # for few degrees of freedom start from the exact value of one: both starts are below, so steps
    # go up
    quantile = np.maximum(expansion, np.tan(confidence * math.pi / 2) ** (1 / df))
    constant = np.exp(-_log_beta(df / 2, 0.5)) / np.sqrt(df)
    for _ in range(_STEPS):
        density = constant * (1 + quantile**2 / df) ** (-(df + 1) / 2)
        p = two_sided_p(quantile, df)
        quantile = quantile * np.exp(p * np.log(p / tail) / (2 * density * quantile))
    return quantile


def normal_quantile(confidence: float) -> float:
    """The z with P(|Z| <= z) = `confidence` for a normal Z."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def normal_score(p_values) -> np.ndarray:
    """The z with P(|Z| >= z) = p for a normal Z; infinite for 0, NaN for NaN."""
    inverse = NormalDist().inv_cdf

    def score(p: float) -> float:
        return math.nan if math.isnan(p) else math.inf if p <= 0 else -inverse(p / 2)

    return np.array([score(p) for p in np.asarray(p_values, np.float64).tolist()])


def incomplete_beta(x, rest, a, b) -> np.ndarray:
    """I_x(a, b) of arrays of one shape; `rest` = 1 - x is an argument because it loses digits near
    x = 1."""
    x, rest, a, b = np.broadcast_arrays(*np.atleast_1d(x, rest, a, b))
    turned = x >= (a + 1) / (a + b + 2)
    first, second = np.where(turned, b, a), np.where(turned, a, b)
    at = np.where(turned, rest, x)
    with np.errstate(divide="ignore"):
        scale = np.exp(a * np.log(x) + b * np.log(rest) - _log_beta(a, b))
    part = scale * _continued_fraction(at, first, second) / first
    return np.where(turned, 1 - part, part)


def _continued_fraction(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Continued fraction of the incomplete beta function, by Lentz's method.

    Source: Press et al., Numerical Recipes (2007), section 6.4.
    """
    c = np.ones_like(x)
    d = 1 / _off_zero(1 - (a + b) * x / (a + 1))
    value = d
    # a value that has converged stays: with more terms, its last bit would depend on the others
    moving = np.ones(x.shape, bool)
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _off_zero(1 + even * d)
        c = _off_zero(1 + even / c)
        term = value * d * c
        d = 1 / _off_zero(1 + odd * d)
        c = _off_zero(1 + odd / c)
        change = d * c
        value = np.where(moving, term * change, value)
        moving &= np.abs(change - 1) >= 1e-15
        if not moving.any():
            break
    return value


def _off_zero(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < _TINY, _TINY, values)


def _log_beta(a: np.ndarray, b) -> np.ndarray:
    gamma = np.vectorize(math.lgamma, otypes=[np.float64])
    return gamma(a) + gamma(b) - gamma(a + b)
