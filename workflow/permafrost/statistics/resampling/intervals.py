"""Intervals: from a standard error and Student's t, and from bootstrap replicates.

Intervals from replicates are percentile, basic (also of squares), and BCa, bias-corrected and
accelerated. `docs/intervals.md` shows their coverage.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.statistics.resampling.student_t import normal_quantile, t_quantile

# available methods; ``auto`` chooses by coverage, see `bootstrap.bootstrap_scores`
METHODS = ("auto", "percentile", "bca")
# with fewer items of the rarer outcome, one end of Wilson's interval is too close
_FEW = 10


def check_method(method: str, confidence: float) -> None:
    """Refuse an unknown interval method and a confidence level outside (0, 1)."""
    look_up(METHODS, method, "there is no interval named")
    if not 0 < confidence < 1:
        raise PermafrostError(
            f"the confidence {confidence} is not between 0 and 1", remedy="give for example 0.95"
        )


def wilson_interval(value: float, size: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of a share in [0, 1], which has positive width even at 0 and 1.

    It contains the shares p within `quantile` standard errors sqrt(p (1 - p) / size) of the value;
    the error is evaluated at p, not at the value.

    Parameters
    ----------
    size : number of independent units with the same standard error as the value.
    quantile : of the normal distribution, or of Student's t if the error was estimated.

    Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927);
    Korn and Graubard, Confidence Intervals for Proportions with Small Expected Number of Positive
    Counts Estimated from Survey Data (1998) for the size.
    """
    extra = quantile**2 / size
    centre = value + extra / 2
    half = quantile * math.sqrt(value * (1 - value) / size + extra / (4 * size))
    # rounding may leave [0, 1], and must not separate the value from its bound
    return max(0.0, (centre - half) / (1 + extra)), min(1.0, (centre + half) / (1 + extra))


def share_interval(value: float, size: int, confidence: float) -> tuple[float, float]:
    """The interval of a share of `size` independent items: Wilson's, at least as wide as mid-P.

    Wilson's alone covers the true share in only 84 % if 0.15 items of the rarer outcome are
    expected, as for an accuracy of 0.997 with 50 images. With fewer than 10 such items its bounds
    are widened to those of the mid-P interval; the union covers in 93 % or more for any size.

    Source: Berry and Armitage, Mid-P Confidence Intervals: A Brief Review (1995).
    """
    lower, upper = wilson_interval(value, size, normal_quantile(confidence))
    rarer = round(min(value, 1 - value) * size)
    if rarer >= _FEW:
        return lower, upper
    least, most = _mid_p(rarer, size, confidence)
    if value > 0.5:
        least, most = 1 - most, 1 - least
    return min(lower, least), max(upper, most)


@lru_cache(maxsize=1024)
def _mid_p(count: int, size: int, confidence: float) -> tuple[float, float]:
    """The shares p with P(X < count) + P(X = count) / 2 = (1 ± confidence) / 2, X binomial with
    `size` and p."""

    def below(p: float) -> float:
        chances = [math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(count + 1)]
        return math.fsum(chances) - chances[-1] / 2

    def solved(level: float) -> float:
        low, high = 0.0, 1.0
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) > level else (low, middle)
        return high

    tail = (1 - confidence) / 2
    return (solved(1 - tail) if count else 0.0), (solved(tail) if count < size else 1.0)


def skewed_interval(
    value: float, error: float, slope: float, quantile: float
) -> tuple[float, float]:
    """Roots x of (x - value)^2 = quantile^2 (error^2 + slope (x - value)): the error is evaluated
    at the bound.

    `wilson_interval` assumes the binomial error of a share. Here the slope is estimated from the
    units, whose influence may differ widely: one hard image can affect average precision more than
    many others.

    Parameters
    ----------
    slope : derivative of the squared error with respect to the value, see `jackknife.Spread`.
    """
    shift = quantile**2 * slope / 2
    half = math.hypot(quantile * error, shift)
    return value + shift - half, value + shift + half


def interval_of_mean(
    values: np.ndarray, ends: np.ndarray, deviations: np.ndarray
) -> tuple[float, float]:
    """The interval of a mean over K classes from the class intervals; half-widths add as errors.

    It keeps the uncertainty of a class with few units, or of one without observed errors.

    Parameters
    ----------
    values : (K,) of the classes. ends : (K, 2) their intervals.
    deviations : (K, J) change of each class value when a block is left out, used for the
        correlation of the classes. Classes that do not change, or are undefined without a block,
        count as independent.

    Source: Zou and Donner, Construction of Confidence Limits about Effect Measures (2008), equation 5.
    """
    length = np.linalg.norm(deviations, axis=1, keepdims=True)
    moving = length > 0
    alike = np.divide(deviations, length, out=np.zeros_like(deviations), where=moving)
    halves = np.abs(ends - values[:, None]).T
    known = moving[:, 0]
    together = np.sum((halves[:, known] @ alike[known]) ** 2, axis=1)
    error = np.sqrt(together + np.sum(halves[:, ~known] ** 2, axis=1)) / len(values)
    return float(values.mean() - error[0]), float(values.mean() + error[1])


def log_interval(value: float, error: float, quantile: float) -> tuple[float, float]:
    """value exp(± quantile error / value): the interval of a positive quantity, on the log."""
    if value <= 0:
        return value, value
    factor = math.exp(min(quantile * error / value, 700.0))
    return value / factor, value * factor


def same_in_all_units(n_units: float, confidence: float) -> float:
    """Share of units that may still differ although none of `n_units` did.

    1 - (alpha / 2)^(1 / U), the exact bound of Clopper and Pearson for no event ("rule of three").
    """
    return 1 - ((1 - confidence) / 2) ** (1 / n_units)


def constant_difference_interval(
    value: float, n_units: float, confidence: float, *, bound: float = 1.0
) -> tuple[float, float]:
    """The interval of a difference that equals `value` in each unit, without an estimated error.

    A share q of `same_in_all_units` may have the opposite difference, hence value ± 2 q |value|. It
    excludes 0 if 2^(1 - U) <= 1 - confidence, the p-value of the sign test. If no unit differs, the
    share q may still differ by up to `bound`, all in one direction: 0 ± q bound.
    """
    half = same_in_all_units(n_units, confidence) * (2 * abs(value) or bound)
    return value - half, value + half


def constant_interval(value: float, n_units: int, confidence: float) -> tuple[float, float]:
    """The interval of a positive quantity that equals `value` in each of its units, so that no
    error can be estimated.

    The share q of `same_in_all_units` may be 0 instead: the lower bound is (1 - q) value, the upper
    symmetric on the log scale. A value of 0 gets no width, because other units may have any size.
    """
    rest = 1 - same_in_all_units(n_units, confidence)
    return value * rest, value / rest


def percentile_interval(replicates: np.ndarray, confidence: float) -> tuple[float, float]:
    """The central `confidence` share of the replicates, linearly interpolated.

    Undefined (NaN) replicates are excluded; the caller counts them. NaN, NaN if all are.
    """
    return _quantiles(replicates, (1 - confidence) / 2, (1 + confidence) / 2)


def reflected(value: float, replicates: np.ndarray) -> np.ndarray:
    """(B,) 2 value - replicate: the replicates reflected at the value.

    The precision envelope is biased upward, the more so the fewer distinct images determine it. The
    value exceeds its expectation for infinite images, and replicates exceed the value by about the
    same amount. Percentiles of the replicates then miss on one side; percentiles of the reflected
    ones, the basic interval, correct both.
    Source: Davison and Hinkley, Bootstrap Methods and their Application (1997), equation 5.6.
    """
    return 2 * value - replicates


def basic_interval(value: float, replicates: np.ndarray, confidence: float) -> tuple[float, float]:
    """Percentiles of the `reflected` replicates of a metric in [0, 1], truncated to that range."""
    lower, upper = percentile_interval(reflected(value, replicates), confidence)
    return max(lower, 0.0), min(upper, 1.0)


def reflected_square(value: float, replicates: np.ndarray) -> np.ndarray:
    """(B,) sqrt(2 value^2 - replicate^2), 0 if negative: reflected on the scale of squares.

    For absolute gaps, such as calibration errors. Noise adds to the squared gap independently of
    the gap: with n items, E[value^2] is the true square plus some v / n, and a resample adds v / n
    once more. Squares can therefore be reflected without bias, but gaps cannot: near a true gap of
    0 the value is c / sqrt(n) too high, replicates only 0.41 c / sqrt(n) above the value. The whole
    interval may be below the value if most of it is noise.

    Coverage of 95 % intervals from 200 resamples, simulated with 10 classes, at n = 200, 1000 and
    5000 items, for true expected calibration errors of 0.001, 0.06 and 0.22::

        percentile  0.00 0.00 0.00   0.03 0.77 0.95   0.92 0.94 0.94
        BCa         0.00 0.00 0.00   0.35 0.83 0.92   0.89 0.93 0.94
        reflected   0.47 0.57 0.66   0.87 0.86 0.90   0.88 0.93 0.96
        squares     0.99 0.99 0.99   0.96 0.89 0.88   0.87 0.92 0.96

    Results for the root mean square are similar. The largest gap of any bin is irregular: no
    interval from resamples covers it reliably (squares: 0.14 to 0.97).
    """
    return np.sqrt(np.maximum(2 * value**2 - replicates**2, 0.0))


def expanded(replicates: np.ndarray, n_units: float, confidence: float) -> np.ndarray:
    """(B,) replicates with deviations from their mean scaled by sqrt(U / (U - 1)) t / z.

    The first factor corrects the too small variance of resamples of U units, the second allows for
    a variance estimated from few units. Both approach 1 as U grows.
    Source: Hesterberg, What Teachers Should Know About the Bootstrap (2015), section 4.4.
    """
    if n_units < 2 or np.isnan(replicates).all():
        return replicates
    quantile = float(t_quantile(confidence, n_units - 1))
    factor = math.sqrt(n_units / (n_units - 1)) * quantile / normal_quantile(confidence)
    centre = np.nanmean(replicates)
    return centre + factor * (replicates - centre)


def basic_square_interval(
    value: float, replicates: np.ndarray, confidence: float
) -> tuple[float, float]:
    """Percentiles of `reflected_square` of a gap in [0, 1]."""
    lower, upper = percentile_interval(reflected_square(value, replicates), confidence)
    return lower, min(upper, 1.0)


def bca_interval(
    value: float, replicates: np.ndarray, jackknife: np.ndarray, confidence: float
) -> tuple[float, float] | None:
    """Efron's BCa interval: percentiles corrected for bias and for a changing variance.

    Parameters
    ----------
    value : the metric on the whole test set.
    replicates : (B,) values on resamples; NaN is excluded.
    jackknife : (U,) values with one unit left out; NaN is excluded.

    Returns
    -------
    The interval, or None if BCa does not exist: all replicates on one side of the value, or no
    variation in the jackknife. The caller then uses and reports the percentile interval.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), equations 14.9 to 14.15;
    replicates that equal the value count half, because metrics of a finite test set are discrete.
    """
    replicates = replicates[~np.isnan(replicates)]
    jackknife = jackknife[~np.isnan(jackknife)]
    if math.isnan(value) or not replicates.size or not jackknife.size:
        return None
    below = np.count_nonzero(replicates < value) + np.count_nonzero(replicates == value) / 2
    deviations = jackknife.mean() - jackknife
    spread = float(np.sum(deviations**2))
    # rounding leaves a spread of about 1e-32 per unit if all values are equal
    if not 0 < below < replicates.size or spread <= 1e-28 * jackknife.size:
        return None
    normal = NormalDist()
    bias = normal.inv_cdf(below / replicates.size)
    acceleration = float(np.sum(deviations**3)) / (6 * spread**1.5)
    levels = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        shifted = bias + normal.inv_cdf(tail)
        levels.append(normal.cdf(bias + shifted / (1 - acceleration * shifted)))
    return _quantiles(replicates, *levels)


def _quantiles(replicates: np.ndarray, low: float, high: float) -> tuple[float, float]:
    defined = replicates[~np.isnan(replicates)]
    if not defined.size:
        return float("nan"), float("nan")
    lower, upper = np.quantile(defined, [low, high])
    return float(lower), float(upper)
