"""Differences of all pairs of backbones on one test set: intervals, tests, and their adjustment.

A difference is tested by Student's t on its standard error from `jackknife`, which also gives its
interval: p <= 0.05 where the 95 % interval leaves 0 out.
The adjustment for the number of pairs is step-down max-T. What the largest statistic of a family would
be without any difference comes from turning the signs of all that a part of the test set contributes (a
wild bootstrap with the hypothesis imposed): the same signs for all pairs, so that how they depend on
each other is kept. Resamples of the units serve as well where units are many; with few they vary too
little, and in simulation 12 equal backbones on 15 groups had a significant pair in 34 % of the test
sets instead of 5 %. Calibration errors, which are not sums over parts even nearly, have resamples.
Source: Romano and Wolf (2005), see `p_values.step_down_max_t`; Cameron, Gelbach and Miller,
Bootstrap-Based Improvements for Inference with Clustered Errors (2008), for the signs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.statistics.resampling.intervals import (
    constant_difference_interval,
    expanded,
    percentile_interval,
    reflected_square,
)
from permafrost.statistics.resampling.jackknife import contributions, part_sizes, spread_of
from permafrost.statistics.resampling.p_values import bootstrap_p_value, step_down_max_t
from permafrost.statistics.resampling.student_t import normal_score, t_quantile, two_sided_p
from permafrost.statistics.resampling.units import Units

# pairs computed together
_TOGETHER = 1024


@dataclass(frozen=True)
class Paired:
    """(P,) arrays of P pairs; see `compare.compare`."""

    difference: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    p_value: np.ndarray
    p_adjusted: np.ndarray
    n_undefined: np.ndarray


def paired_by_jackknife(
    values, left_out, pairs, *, units: Units, resamples: int, confidence: float, seed: int
) -> Paired:
    """Differences of metrics that are smooth in what the parts of a test set hold.

    Parameters
    ----------
    values : (K,) of each backbone on the whole test set.
    left_out : (K, J) without each part; not read where there is one unit.
    pairs : (P, 2) indices of backbones.
    resamples : number of turned signs, for the adjustment; where all 2^(J - 1) - 1 are fewer, those.
    """
    values, left_out, pairs = np.asarray(values), np.asarray(left_out), np.asarray(pairs)
    sizes = part_sizes(units)
    blocks = [pairs[start : start + _TOGETHER] for start in range(0, len(pairs), _TOGETHER)]
    columns = [
        tested_pairs(values[block.T], left_out[block.T], sizes, units.count, confidence)
        for block in blocks
    ]
    difference, lower, upper, p_value, n_undefined = map(np.concatenate, zip(*columns, strict=True))
    if units.count == 1 or len(pairs) == 1:
        return Paired(difference, lower, upper, p_value, p_value, n_undefined)
    signs = _signs(left_out.shape[1], resamples, seed)

    def standardised(chosen: np.ndarray) -> np.ndarray:
        (first, second), (one, other) = values[pairs[chosen].T], left_out[pairs[chosen].T]
        parts = contributions(first - second, one - other, sizes, scale=_scale(first, second))
        length = np.sqrt(np.sum(parts**2, axis=1, keepdims=True))
        return np.divide(parts, length, out=np.zeros_like(parts), where=length > 0)

    statistics = np.full(len(pairs), np.nan)
    tested = np.flatnonzero(~np.isnan(p_value))
    for start in range(0, len(tested), _TOGETHER):
        chosen = tested[start : start + _TOGETHER]
        statistics[chosen] = np.abs(standardised(chosen).sum(axis=1))
    p_adjusted = _adjusted(p_value, statistics, lambda chosen: np.abs(standardised(chosen) @ signs))
    return Paired(difference, lower, upper, p_value, p_adjusted, n_undefined)


def paired_gaps(values, replicates, pairs, *, units: Units, confidence: float) -> Paired:
    """Differences of calibration errors, each mirrored as squares on the same resamples.

    Parameters
    ----------
    values : (K,) of each backbone on the whole test set.
    replicates : (K, B) of each on the same resamples.
    pairs : (P, 2) indices of backbones.
    """
    n_units = units.count
    mirrored = np.stack([reflected_square(*each) for each in zip(values, replicates, strict=True)])
    rows = []
    for a, b in pairs:
        drawn = expanded(mirrored[a] - mirrored[b], n_units, confidence)
        p_value = bootstrap_p_value(drawn) if n_units > 1 else np.nan
        undefined = np.count_nonzero(np.isnan(drawn))
        interval = percentile_interval(drawn, confidence)
        rows.append((values[a] - values[b], *interval, p_value, undefined))
    difference, lower, upper, p_value, n_undefined = map(np.array, zip(*rows, strict=True))

    def strayed(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = mirrored[pairs[chosen].T]
        drawn = first - second
        # the centre is the difference without what chance adds to the errors
        centre, error = np.nanmean(drawn, axis=1), np.nanstd(drawn, axis=1)
        error = np.where(error > 0, error, np.inf)[:, None]
        return centre / error[:, 0], (drawn - centre[:, None]) / error

    statistics = np.full(len(pairs), np.nan)
    tested = np.flatnonzero(~np.isnan(p_value))
    for start in range(0, len(tested), _TOGETHER):
        chosen = tested[start : start + _TOGETHER]
        units = np.sqrt((n_units - 1) / n_units) * np.abs(strayed(chosen)[0])
        statistics[chosen] = normal_score(two_sided_p(units, n_units - 1))
    p_adjusted = _adjusted(p_value, statistics, lambda chosen: np.abs(strayed(chosen)[1]))
    return Paired(difference, lower, upper, p_value, p_adjusted, n_undefined.astype(np.int64))


def tested_pairs(
    values, left_out, sizes, n_units, confidence: float, *, most_df=np.inf
) -> list[np.ndarray]:
    """Columns ``difference, lower, upper, p_value, n_undefined`` of P pairs.

    Parameters
    ----------
    values : two arrays (P,) of those that are compared.
    left_out : two arrays (P, J) of the same without each part.
    sizes : (J,) of `part_sizes`.
    n_units : of the test set, or (P,) those that carry each pair; with 1 there is no test.
    most_df : degrees of freedom are no more than this; a number or (P,).
    """
    difference, without = values[0] - values[1], left_out[0] - left_out[1]
    undefined = np.count_nonzero(np.isnan(without), axis=1)
    if np.ndim(n_units) == 0 and n_units == 1:
        return [difference, difference, difference, np.full(len(difference), np.nan), undefined]
    n_units = np.broadcast_to(n_units, difference.shape)
    spread = spread_of(difference, without, sizes, scale=_scale(*values), centred=True)
    df = np.where(np.isnan(spread.df), np.nan, np.minimum(spread.df, most_df))
    half = t_quantile(confidence, df) * spread.error
    lower, upper = difference - half, difference + half
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = two_sided_p(difference / spread.error, df)
    # the same difference in all units, or none in any
    for pair in np.flatnonzero(spread.error == 0):
        value, count = difference[pair], max(float(n_units[pair]), 1.0)
        lower[pair], upper[pair] = constant_difference_interval(value, count, confidence)
        p_value[pair] = 2.0 ** (1 - count) if value else 1.0
    return [difference, lower, upper, p_value, undefined]


def _scale(first, second) -> np.ndarray:
    return np.maximum(np.abs(first), np.abs(second))


def _signs(parts: int, resamples: int, seed: int) -> np.ndarray:
    """(J, B) of 1 and -1, the first part always 1: turning all signs changes no size.

    All but the one without a change where they are no more than asked for, so that p-values are exact.
    """
    if parts - 1 < resamples.bit_length():
        numbers = np.arange(1, 1 << (parts - 1))
        if len(numbers) <= resamples:
            turned = (numbers >> np.arange(parts - 1)[:, None]) & 1
            return np.concatenate([np.ones((1, len(numbers))), 1.0 - 2.0 * turned])
    generator = np.random.Generator(np.random.PCG64(seed))
    turned = generator.integers(0, 2, (parts - 1, resamples))
    return np.concatenate([np.ones((1, resamples)), 1.0 - 2.0 * turned])


def _adjusted(p_value, statistics, null_replicates) -> np.ndarray:
    """Never below the values of single tests, and those where there is one test."""
    if np.count_nonzero(~np.isnan(p_value)) < 2:
        return p_value
    return np.maximum(p_value, step_down_max_t(statistics, null_replicates))
