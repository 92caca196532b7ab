"""Standard errors from leaving out parts of a test set, and what they say of differences.

The units of a test set are divided into J parts: one for each unit where they are few, else `PARTS`. With
a metric t on the whole test set and t_j without part j, d_j = t - t_j is what the part adds, and::

    error^2 = (J - 1) / J  sum_j d_j^2
    df      = 2 J / (kurtosis of d_j - 1)

Of a mean over groups this is the cluster-robust variance called CR3, which makes up for what few
groups hide. The degrees of freedom are Satterthwaite's, from how much the variance itself would move:
few of them where few parts decide, as for rare classes, rare errors and heavy tails. They are no more
than the parts that add anything, less 1, nor than (J - 1) / J (sum n_j)^2 / sum n_j^2 for parts of n_j
samples, which is J - 1 for parts of one size.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 11; Cameron and Miller, A
Practitioner's Guide to Cluster-Robust Inference (2015), section VI; Satterthwaite (1946).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.statistics.resampling.units import Units

# that many parts know the variance to 10 %, and cost no more than as many resamples
PARTS = 200
# deviations below this share of the value are rounding
ROUNDING = 1e-12


@dataclass(frozen=True)
class Spread:
    """How far metrics would move with other units; arrays of one shape, NaN where undefined.

    Attributes
    ----------
    error : standard error.
    df : its degrees of freedom, 1 to J - 1.
    bias : of the metric, by the jackknife.
    largest_share : of sum_j d_j^2, that of the part whose absence moves the metric most; 1 where one carries it all.
    slope : of the squared error over the metric, sum d_j^3 / sum d_j^2 about the mean: how much smaller the error
        comes out where chance made the metric high. Of a share (1 - 2 p) / n.
    deciding : (sum d_j^2)^2 / sum d_j^4, of parts that add alike their number.
    """

    error: np.ndarray
    df: np.ndarray
    bias: np.ndarray
    largest_share: np.ndarray
    slope: np.ndarray
    deciding: np.ndarray


def part_sizes(units: Units) -> np.ndarray:
    """(J,) number of samples in each part of `resamples.iter_jackknife`."""
    parts = min(PARTS, units.count)
    return np.bincount(units.index % parts, minlength=parts)


def spread_of(values, left_out, sizes, *, scale=None, centred: bool = False) -> Spread:
    """The spread of metrics.

    Parameters
    ----------
    values : (…) on the whole test set.
    left_out : (…, J) without each part. Where the metric is undefined without one, which then carries all of it,
        the error is infinite.
    sizes : (J,) of `part_sizes`.
    scale : (…) size of the numbers that rounding is judged by; default that of the values.
    centred : take squares about the mean of d_j. About 0 they hold the bias too, as an interval should; of a
        difference of two metrics with the same bias they should not.
    """
    values, deviations = _deviations(values, left_out, scale)
    parts = deviations.shape[-1]
    mean = deviations.mean(axis=-1)
    squares = (deviations - mean[..., None]) ** 2
    second, fourth = squares.sum(axis=-1), np.sum(squares**2, axis=-1)
    total = second if centred else second + parts * mean**2
    error = np.sqrt((parts - 1) / parts * total)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = np.where(second > 0, parts * fourth / second**2, np.inf)
        df = 2 * parts / np.maximum(kurtosis - 1, 1e-9)
    moving = np.count_nonzero(deviations, axis=-1)
    of_sizes = (parts - 1) / parts * np.sum(sizes) ** 2 / np.sum(np.square(sizes, dtype=float))
    df = np.maximum(np.minimum(np.minimum(df, moving - 1), of_sizes), 1)
    carried_by_one = np.isnan(left_out).any(axis=-1)
    error, df = np.where(carried_by_one, np.inf, error), np.where(carried_by_one, 1.0, df)
    undefined = np.isnan(values)
    with np.errstate(invalid="ignore"):
        share = np.square(deviations).max(axis=-1) / np.square(deviations).sum(axis=-1)
        third = np.sum((deviations - mean[..., None]) ** 3, axis=-1)
        slope = np.where(second > 0, third / second, 0.0)
        deciding = second**2 / fourth
    found = (error, df, -(parts - 1) * mean, np.where(carried_by_one, 1.0, share), slope, deciding)
    return Spread(*(np.where(undefined, np.nan, each) for each in found))


def contributions(values, left_out, sizes, *, scale=None) -> np.ndarray:
    """(…, J) what each part contributes to the values, which are the sums of it; see `spread_of`.

    Of a mean over samples, exactly the part's sum over the number of all samples.
    """
    values = np.asarray(values, np.float64)
    shares = sizes / np.sum(sizes)
    return values[..., None] * shares + strays(values, left_out, sizes, scale=scale)


def strays(values, left_out, sizes, *, scale=None) -> np.ndarray:
    """(…, J) `contributions` less the share that each part has by its size: rows with the sum 0."""
    _, deviations = _deviations(values, left_out, scale)
    weighted = deviations * (1 - sizes / np.sum(sizes))
    return weighted - weighted.mean(axis=-1, keepdims=True)


def _deviations(values, left_out, scale) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(values, np.float64)
    scale = np.abs(values if scale is None else scale)
    deviations = values[..., None] - left_out
    nothing = np.isnan(deviations) | (np.abs(deviations) <= ROUNDING * scale[..., None])
    return values, np.where(nothing, 0.0, deviations)
