"""Statistics of one table of scores per backbone: ranks, wins, gains, improvability.

All functions take values (…, D, K) of D datasets and K backbones without NaN, higher is better
(`draws.Scores.oriented`), with any number of draws as leading axes. Names of means over datasets
say what is averaged; `DATASETS` and `BACKBONES` are their axes.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError

DATASETS, BACKBONES = -2, -1


def ranks_within(values) -> np.ndarray:
    """(…, K) ranks from 1 (best) along the last axis; ties share their mean rank."""
    values = -np.asarray(values, np.float64)
    order = np.argsort(values, axis=-1, kind="stable")
    ascending = np.take_along_axis(values, order, -1)
    places = np.arange(values.shape[-1])
    new = np.ones(values.shape, bool)
    new[..., 1:] = ascending[..., 1:] != ascending[..., :-1]
    first = np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    ends = np.ones(values.shape, bool)
    ends[..., :-1] = new[..., 1:]
    last = np.where(ends, places, places[-1])[..., ::-1]
    last = np.minimum.accumulate(last, axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, -1)
    return ranks


def mean_rank(values) -> np.ndarray:
    """(…, K) mean over datasets of the rank on each; 1 is best."""
    return ranks_within(values).mean(axis=DATASETS)


def win_rate(values) -> np.ndarray:
    """(…, K) mean over datasets of the share of others that a backbone beats; ties count half.

    Equals Borda's count divided by its maximum, (K - mean rank) / (K - 1).
    """
    backbones = np.shape(values)[BACKBONES]
    if backbones < 2:
        raise ValueError("a win rate needs two backbones")
    return (backbones - mean_rank(values)) / (backbones - 1)


def pairwise_wins(values) -> np.ndarray:
    """(…, K, K) number of datasets on which the row's backbone beats the column's, a tie counts
    half; 0 on the diagonal."""
    values = np.asarray(values, np.float64)
    backbones = values.shape[BACKBONES]
    wins = np.zeros((*values.shape[:DATASETS], backbones, backbones))
    # loop over datasets, so that (…, D, K, K) numbers are never in memory at once
    for dataset in range(values.shape[DATASETS]):
        each = values[..., dataset, :]
        wins += (np.sign(each[..., :, None] - each[..., None, :]) + 1) / 2
    wins[..., np.arange(backbones), np.arange(backbones)] = 0
    return wins


def interquartile_mean(values, axis: int = -1) -> np.ndarray:
    """Mean of the middle half: floor(n / 4) values are trimmed at either end (scipy's trim_mean).

    Less sensitive to one failed dataset than the mean, and less noisy than the median.
    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice
    (2021).
    """
    values = np.sort(np.asarray(values, np.float64), axis=axis)
    cut = values.shape[axis] // 4
    return np.take(values, np.arange(cut, values.shape[axis] - cut), axis=axis).mean(axis=axis)


def normalised_mean(values, low, high) -> np.ndarray:
    """(…, K) mean over datasets of (value - low) / (high - low).

    Parameters
    ----------
    low, high : (D,) bounds of each dataset, oriented like the values, see `reference_bounds`.
    """
    return _normalised(values, low, high).mean(axis=DATASETS)


def normalised_iqm(values, low, high) -> np.ndarray:
    """(…, K) mean of the middle half of the datasets; see `interquartile_mean`."""
    return interquartile_mean(_normalised(values, low, high), axis=DATASETS)


def reference_bounds(values, backbones, worst: str, best: str) -> tuple[np.ndarray, np.ndarray]:
    """Bounds (D,), (D,) of each dataset: the values of two named backbones.

    Adding a backbone therefore changes no score. Values are (D, K), in the order of the names
    `backbones`.

    Raises
    ------
    PermafrostError : a name is unknown, or `best` is not better than `worst` on every dataset.
    """
    values, backbones = np.asarray(values, np.float64), list(backbones)
    for name in (worst, best):
        if name not in backbones:
            raise PermafrostError(
                f"the reference backbone {name!r} has no scores",
                remedy=f"name two of {', '.join(backbones)}",
            )
    low, high = (values[:, backbones.index(name)] for name in (worst, best))
    if not np.all(high > low):
        raise PermafrostError(
            f"{best!r} is not better than {worst!r} on {np.count_nonzero(~(high > low))} datasets",
            remedy="give bounds for each dataset, or name other reference backbones",
        )
    return low, high


def mean_gain(values, baseline: int) -> np.ndarray:
    """(…, K) mean over datasets of the value minus that of the backbone with index `baseline`."""
    values = np.asarray(values, np.float64)
    return (values - values[..., [baseline]]).mean(axis=DATASETS)


def improvability(values, best_possible) -> np.ndarray:
    """(…, K) share by which errors would fall if the best backbone were used on each dataset.

    The mean over datasets of (error - smallest error) / error, 0 if the error is 0. Lower is
    better. It depends on the set of backbones.

    Parameters
    ----------
    best_possible : (D,) oriented value without error: 1 for accuracy, 0 for (minus) RMSE.

    Raises
    ------
    PermafrostError : a value is better than the best possible.

    Source: Erickson et al., TabArena: A Living Benchmark for Machine Learning on Tabular Data (2025).
    """
    errors = np.asarray(best_possible, np.float64)[:, None] - values
    if np.any(errors < 0):
        raise PermafrostError(
            "a score is better than the best possible of its dataset",
            remedy="correct the best possible score, or the score",
        )
    smallest = errors.min(axis=BACKBONES, keepdims=True)
    share = np.divide(errors - smallest, errors, out=np.zeros_like(errors), where=errors > 0)
    return share.mean(axis=DATASETS)


def probability_of_improvement(runs) -> np.ndarray:
    """(…, K, K) probability that a run of the row's beats one of the column's on a dataset.

    The mean over datasets of the share of pairs of seeds, a tie counts half (Mann and Whitney's U).
    1/2 on the diagonal.

    Parameters
    ----------
    runs : (…, D, K, S) value of each seed; NaN if a dataset has fewer seeds, for one or both
        backbones of a pair.

    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice (2021).
    """
    runs = np.asarray(runs, np.float64)
    total = 0
    for dataset in range(runs.shape[-3]):
        each = runs[..., dataset, :, :]
        differences = each[..., :, None, :, None] - each[..., None, :, None, :]
        total = total + np.nanmean((np.sign(differences) + 1) / 2, axis=(-2, -1))
    mean = total / runs.shape[-3]
    diagonal = np.arange(runs.shape[-2])
    mean[..., diagonal, diagonal] = 0.5
    return mean


def improvement_over_rest(runs) -> np.ndarray:
    """(…, K) mean of `probability_of_improvement` over the others, without the pair matrix."""
    runs = np.asarray(runs, np.float64)
    backbones = runs.shape[-2]
    if backbones < 2:
        raise ValueError("an improvement over the rest needs two backbones")
    total = 0
    for dataset in range(runs.shape[-3]):
        each = runs[..., dataset, :, :]
        there = ~np.isnan(each)
        # every backbone has the same weight, however many seeds it has
        weights = there / there.sum(axis=-1, keepdims=True)
        below = _weight_below(
            each.reshape(*each.shape[:-2], -1), weights.reshape(*each.shape[:-2], -1)
        )
        beaten = np.sum(np.where(there, below.reshape(each.shape), 0) * weights, axis=-1)
        # the backbone against itself contributes one half
        total = total + (beaten - 0.5) / (backbones - 1)
    # rounding may leave [0, 1]
    return np.clip(total / runs.shape[-3], 0, 1)


def _weight_below(values, weights) -> np.ndarray:
    """(…, N) weight of smaller values plus half the weight of equal ones; NaN has no weight."""
    order = np.argsort(values, axis=-1, kind="stable")
    ascending = np.take_along_axis(values, order, -1)
    through = np.cumsum(np.take_along_axis(weights, order, -1), axis=-1)
    before = np.concatenate([np.zeros_like(through[..., :1]), through[..., :-1]], axis=-1)
    new = np.ones(values.shape, bool)
    new[..., 1:] = ascending[..., 1:] != ascending[..., :-1]
    ends = np.ones(values.shape, bool)
    ends[..., :-1] = new[..., 1:]
    before = np.maximum.accumulate(np.where(new, before, 0), axis=-1)
    through = np.minimum.accumulate(np.where(ends, through, np.inf)[..., ::-1], axis=-1)[..., ::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (before + through) / 2, -1)
    return found


def _normalised(values, low, high) -> np.ndarray:
    low, high = (np.asarray(bound, np.float64)[:, None] for bound in (low, high))
    if not np.all(high > low):
        raise PermafrostError(
            "a dataset's upper bound is not above the lower one", remedy="correct the bounds"
        )
    return (np.asarray(values, np.float64) - low) / (high - low)
