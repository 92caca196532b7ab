"""Delete-a-block jackknife: standard errors of metrics and of their differences.

The units of a test set are divided into J blocks (called parts in the code): one per unit if there
are few, else `PARTS`. With a metric t on the whole test set and t_j without block j, d_j = t - t_j
is the block's effect, and::

    error^2 = (J - 1) / J  sum_j d_j^2
    df      = 2 J / (kurtosis of d_j - 1)

For a mean over groups this is the cluster-robust variance CR3, which corrects the downward bias
with few groups. The degrees of freedom are Satterthwaite's, from the variance of the variance
estimate: few if few blocks dominate, as with rare classes, rare errors and heavy tails. They are at
most the number of blocks with an effect minus 1, and at most (J - 1) / J (sum n_j)^2 / sum n_j^2
for blocks of n_j samples, which is J - 1 for blocks of equal size.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 11; Cameron and Miller, A
Practitioner's Guide to Cluster-Robust Inference (2015), section VI; Satterthwaite (1946).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.statistics.resampling.units import Units

# this many blocks estimate the variance to 10 %, at the cost of as many resamples
PARTS = 200
# relative deviations below this are rounding
ROUNDING = 1e-12


@dataclass(frozen=True)
class Spread:
    """Variation of metrics with other units; arrays of one shape, NaN if undefined.

    Attributes
    ----------
    error : standard error.
    df : its degrees of freedom, 1 to J - 1.
    bias : jackknife estimate of the metric's bias.
    largest_share : largest d_j^2 as a share of sum_j d_j^2; 1 if one block carries the metric.
    slope : derivative of the squared error with respect to the metric, sum d_j^3 / sum d_j^2 about
        the mean. For a share it is (1 - 2 p) / n.
    deciding : (sum d_j^2)^2 / sum d_j^4, the effective number of blocks that determine the metric.
    """

    error: np.ndarray
    df: np.ndarray
    bias: np.ndarray
    largest_share: np.ndarray
    slope: np.ndarray
    deciding: np.ndarray


def part_sizes(units: Units) -> np.ndarray:
    """(J,) number of samples in each block of `resamples.iter_jackknife`."""
    parts = min(PARTS, units.count)
    return np.bincount(units.index % parts, minlength=parts)


def spread_of(values, left_out, sizes, *, scale=None, centred: bool = False) -> Spread:
    """The spread of metrics.

    Parameters
    ----------
    values : (…) on the whole test set.
    left_out : (…, J) without each block. If the metric is undefined without a block, this block
        carries all of it and the error is infinite.
    sizes : (J,) from `part_sizes`.
    scale : (…) magnitude that rounding is relative to; default |values|.
    centred : use squares about the mean of d_j. About 0, they include the bias, as an interval
        should; for a difference of two metrics with the same bias they should not.
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
    """(…, J) contribution of each block; they sum to the value. See `spread_of`.

    For a mean over samples, it is exactly the block's sum divided by the number of all samples.
    """
    values = np.asarray(values, np.float64)
    shares = sizes / np.sum(sizes)
    return values[..., None] * shares + strays(values, left_out, sizes, scale=scale)


def strays(values, left_out, sizes, *, scale=None) -> np.ndarray:
    """(…, J) `contributions` minus the block's share by size (centred); rows sum to 0."""
    _, deviations = _deviations(values, left_out, scale)
    weighted = deviations * (1 - sizes / np.sum(sizes))
    return weighted - weighted.mean(axis=-1, keepdims=True)


def _deviations(values, left_out, scale) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(values, np.float64)
    scale = np.abs(values if scale is None else scale)
    deviations = values[..., None] - left_out
    nothing = np.isnan(deviations) | (np.abs(deviations) <= ROUNDING * scale[..., None])
    return values, np.where(nothing, 0.0, deviations)
