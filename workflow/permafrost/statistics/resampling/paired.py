"""Differences of all pairs of backbones on one test set: intervals, tests, and their adjustment.

A difference is tested by Student's t with its standard error from `jackknife`. The same error gives
the interval: p <= 0.05 if the 95 % interval excludes 0.

The adjustment for the number of pairs is step-down max-T. The null distribution of the largest
statistic of a family comes from random signs of the block contributions (a wild bootstrap under the
null hypothesis), the same signs for all pairs, which keeps their dependence. Resamples of the units
work as well if there are many units. With few units they vary too little: in simulation, 12 equal
backbones on 15 groups had a significant pair in 34 % of the test sets instead of 5 %. Calibration
errors, which are not even approximately sums over blocks, use resamples.

Over several runs (seeds, draws of the training set) the mean difference is tested, with an error
that includes items and runs (`runs`). Few runs are too few for random signs: the p-value is
converted to a normal score and compared with the largest of normal numbers that are correlated like
the contributions of blocks and runs to the differences.
Source: Romano and Wolf (2005), see `p_values.step_down_max_t`; Cameron, Gelbach and Miller,
Bootstrap-Based Improvements for Inference with Clustered Errors (2008), for the signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from permafrost.statistics.resampling.detectable import (
    critical_value,
    smallest_found,
    units_that_must_differ,
)
from permafrost.statistics.resampling.intervals import (
    constant_difference_interval,
)
from permafrost.statistics.resampling.jackknife import (
    Spread,
    contributions,
    part_sizes,
    spread_of,
    strays,
)
from permafrost.statistics.resampling.p_values import step_down_max_t
from permafrost.statistics.resampling.runs import (
    OverRuns,
    over_runs,
    variance_of_runs,
)
from permafrost.statistics.resampling.student_t import normal_score, t_quantile, two_sided_p
from permafrost.statistics.resampling.units import Units

# pairs processed at once
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
    detectable: np.ndarray


def paired_by_jackknife(
    values,
    left_out,
    pairs,
    *,
    units: Units,
    resamples: int,
    confidence: float,
    seed: int,
    bounded: bool = True,
    shared: bool = False,
) -> Paired:
    """Differences of metrics that are smooth in the blocks' contents, averaged over R runs.

    Parameters
    ----------
    values : (R, K) of each backbone on the whole test set, NaN if it lacks the run; a pair is
        compared on the runs that both have.
    left_out : (R, K, J) without each block; not used with a single unit.
    pairs : (P, 2) indices of backbones.
    resamples : number of sign vectors for the adjustment; if all 2^(J - 1) - 1 are fewer, all of
        them. Over several runs, number of normal draws.
    bounded : whether the metric is in [0, 1].
    shared : whether runs are draws of a training set that all backbones use, instead of separate
        trainings.
    """
    values, left_out, pairs = np.asarray(values), np.asarray(left_out), np.asarray(pairs)
    test = _Differences(values, left_out, part_sizes(units), bounded, shared)
    judged = [test.spread(chosen) for chosen in blocks(pairs)]
    columns = [
        _tested(*each, units.count, confidence, bounds=test.unit_bounds(chosen))
        for each, chosen in zip(judged, blocks(pairs), strict=True)
    ]
    difference, lower, upper, p_value, n_undefined = map(np.concatenate, zip(*columns, strict=True))
    found = Paired(difference, lower, upper, p_value, p_value, n_undefined, np.nan * difference)
    if units.count == 1:
        return found
    single = len(values) == 1
    signs = test.multipliers(resamples, seed)
    statistics = np.full(len(pairs), np.nan)
    tested = np.flatnonzero(~np.isnan(p_value))
    for chosen in blocks(tested):
        if single:
            statistics[chosen] = np.abs(test.standardised(pairs[chosen]).sum(axis=1))
        else:
            statistics[chosen] = normal_score(p_value[chosen])
    largest = np.zeros(signs.shape[1])

    def under_null(chosen: np.ndarray) -> np.ndarray:
        drawn = np.abs(test.standardised(pairs[chosen]) @ signs)
        np.maximum(largest, drawn.max(axis=0), out=largest)
        return drawn

    p_adjusted = adjusted(p_value, statistics, under_null)
    critical = critical_value(largest, confidence) if len(tested) > 1 else 0.0
    detectable = [
        test.detectable(chosen, spread, critical, len(tested), units.count, confidence)
        for chosen, (_, spread, _) in zip(blocks(pairs), judged, strict=True)
    ]
    return replace(found, p_adjusted=p_adjusted, detectable=np.concatenate(detectable))


@dataclass(frozen=True)
class _Differences:
    """Differences of pairs of backbones over runs; see `paired_by_jackknife`."""

    values: np.ndarray
    left_out: np.ndarray
    sizes: np.ndarray
    bounded: bool
    shared: bool

    def spread(self, pairs: np.ndarray) -> tuple[np.ndarray, Spread, np.ndarray]:
        """(P,) differences, their spread, and how many of the underlying numbers are undefined."""
        if len(self.values) == 1:
            difference, without, scale = self._of_run(0, pairs)
            spread = spread_of(difference, without, self.sizes, scale=scale, centred=True)
            return difference, spread, np.count_nonzero(np.isnan(without), axis=1)
        over, undefined = self._over_runs(pairs)
        return over.values, over.spread, undefined

    def standardised(self, pairs: np.ndarray) -> np.ndarray:
        """(P, J) contributions of blocks to differences or, over several runs, (P, J + M) of blocks
        and runs; scaled to unit length.

        M is R if runs are shared, else R K: each backbone varies independently.
        """
        if len(self.values) == 1:
            difference, without, scale = self._of_run(0, pairs)
            parts = contributions(difference, without, self.sizes, scale=scale)
        else:
            over, _ = self._over_runs(pairs)
            of_items = strays(over.values, over.left_out, self.sizes, scale=self._scale(pairs))
            # scale to their variance, because blocks of unequal size contribute another share
            of_runs = self._strays_of_runs(pairs, over)
            wanted = over.spread.error**2 - np.sum(of_runs**2, axis=1)
            wanted = np.sqrt(np.maximum(wanted, 0.0))
            length = np.sqrt(np.sum(of_items**2, axis=1))
            factor = np.divide(wanted, length, out=np.zeros_like(length), where=length > 0)
            parts = np.concatenate([of_items * factor[:, None], of_runs], axis=1)
        length = np.sqrt(np.sum(parts**2, axis=1, keepdims=True))
        return np.divide(parts, length, out=np.zeros_like(parts), where=length > 0)

    def multipliers(self, resamples: int, seed: int) -> np.ndarray:
        """(J, B) signs from `_signs` or, over several runs, (J + M, B) normal numbers."""
        runs, count, parts = self.left_out.shape
        if runs == 1:
            return _signs(parts, resamples, seed)
        rows = parts + runs * (1 if self.shared else count)
        return np.random.Generator(np.random.PCG64(seed)).standard_normal((rows, resamples))

    def detectable(
        self, pairs, spread: Spread, critical: float, family: int, n_units: int, confidence: float
    ) -> np.ndarray:
        """(P,) differences that the family detects with 80 % power; NaN if none is large enough.

        Parameters
        ----------
        critical : absolute value that the family's largest statistic exceeds with probability 1 -
            `confidence`.
        family : number of tests.
        """
        alone = t_quantile(confidence, spread.df)
        if len(self.values) > 1:
            together = t_of_score(critical, spread.df)
        else:
            # t of a difference with this sum of `standardised` contributions
            shares = np.sum((self.sizes / np.sum(self.sizes)) ** 2)
            room = 1 - critical**2 * shares
            parts = len(self.sizes)
            together = critical * math.sqrt((parts - 1) / parts / room) if room > 0 else np.inf
        found = smallest_found(spread.error, spread.df, np.maximum(alone, together))
        constant = spread.error == 0
        # the share is found in many steps, which most families do not need
        if constant.any():
            few = units_that_must_differ(n_units, (1 - confidence) / max(family, 1))
            found = np.where(constant, few * self.unit_bounds(pairs), found)
        return np.where(np.isfinite(found), found, np.nan)

    def unit_bounds(self, pairs: np.ndarray) -> np.ndarray:
        """(P,) largest difference in a unit: 1 for metrics in [0, 1], else the values' size."""
        return np.ones(len(pairs)) if self.bounded else self._scale(pairs)

    def _of_run(self, run: int, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (first, second), (one, other) = self.values[run][pairs.T], self.left_out[run][pairs.T]
        return first - second, one - other, _scale(first, second)

    def _over_runs(self, pairs: np.ndarray) -> tuple[OverRuns, np.ndarray]:
        have = self._have(pairs)
        each = [self._of_run(run, pairs) for run in range(len(self.values))]
        differences, without = (np.stack([one[place] for one in each]) for place in (0, 1))
        undefined = np.count_nonzero(np.isnan(without) & have[..., None], axis=(0, 2))
        about = {"have": have, "scale": self._scale(pairs)}
        of_runs = None
        if not self.shared:
            (a, df), (b, _) = (variance_of_runs(self.values[:, one], **about) for one in pairs.T)
            both = np.maximum(a**2 + b**2, np.finfo(float).tiny)
            of_runs = a + b, np.maximum((a + b) ** 2 / both, 1) * df
        about |= {"centred": True, "of_runs": of_runs}
        return over_runs(differences, without, self.sizes, **about), undefined

    def _have(self, pairs: np.ndarray) -> np.ndarray:
        """(R, P) runs that both backbones of a pair have; all if the pair has none."""
        have = ~np.isnan(self.values[:, pairs]).any(axis=2)
        return have | ~have.any(axis=0)

    def _strays_of_runs(self, pairs: np.ndarray, over: OverRuns) -> np.ndarray:
        """(P, M) contributions of the runs; see `standardised`."""
        have, rows = self._have(pairs), np.arange(len(pairs))

        def strays_from_mean(values):
            values = np.where(have, values, 0.0)
            return np.where(have, values - values.sum(axis=0) / have.sum(axis=0), 0.0) * over.factor

        first, second = (self.values[:, one] for one in pairs.T)
        if self.shared:
            return strays_from_mean(first - second).T
        runs, count, _ = self.left_out.shape
        found = np.zeros((len(pairs), runs, count))
        found[rows, :, pairs[:, 0]] = strays_from_mean(first).T
        found[rows, :, pairs[:, 1]] = -strays_from_mean(second).T
        return found.reshape(len(pairs), runs * count)

    def _scale(self, pairs: np.ndarray) -> np.ndarray:
        return np.abs(np.nan_to_num(self.values)).max(axis=0)[pairs].max(axis=1)


def tested_pairs(
    values, left_out, sizes, n_units, confidence: float, *, most_df=np.inf
) -> list[np.ndarray]:
    """Columns ``difference, lower, upper, p_value, n_undefined`` of P pairs of metrics in [0, 1].

    Parameters
    ----------
    values : two arrays (P,), the compared metrics.
    left_out : two arrays (P, J), the same without each block.
    sizes : (J,) from `part_sizes`.
    n_units : number of units of the test set, or (P,) carriers of each pair; with 1 there is no
        test.
    most_df : upper limit of the degrees of freedom; a number or (P,).
    """
    difference, without = values[0] - values[1], left_out[0] - left_out[1]
    undefined = np.count_nonzero(np.isnan(without), axis=1)
    spread = spread_of(difference, without, sizes, scale=_scale(*values), centred=True)
    df = np.where(np.isnan(spread.df), np.nan, np.minimum(spread.df, most_df))
    bounds = np.ones(len(difference))
    return _tested(
        difference, replace(spread, df=df), undefined, n_units, confidence, bounds=bounds
    )


def _tested(
    difference, spread: Spread, undefined, n_units, confidence: float, *, bounds
) -> list[np.ndarray]:
    """The columns of `tested_pairs`; bounds : (P,) largest difference in a single unit."""
    if np.ndim(n_units) == 0 and n_units == 1:
        return [difference, difference, difference, np.full(len(difference), np.nan), undefined]
    n_units = np.broadcast_to(n_units, difference.shape)
    # a value carried by a single block cannot be tested
    spread = replace(spread, error=np.where(np.isinf(spread.error), np.nan, spread.error))
    half = t_quantile(confidence, spread.df) * spread.error
    lower, upper = difference - half, difference + half
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = two_sided_p(difference / spread.error, spread.df)
    # the difference is the same in all units, or 0 in all
    for pair in np.flatnonzero(spread.error == 0):
        value, count = difference[pair], max(float(n_units[pair]), 1.0)
        lower[pair], upper[pair] = constant_difference_interval(
            value, count, confidence, bound=float(bounds[pair])
        )
        p_value[pair] = 2.0 ** (1 - count) if value else 1.0
    return [difference, lower, upper, p_value, undefined]


def t_of_score(score: float, df: np.ndarray) -> np.ndarray:
    """The t with the same p-value as a normal score."""
    p_value = math.erfc(score / math.sqrt(2))
    if p_value in (0, 1):
        return np.full(np.shape(df), 0.0 if p_value else np.inf)
    return t_quantile(1 - p_value, df)


def blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Blocks of pairs that are processed at once."""
    return (rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER))


def _scale(first, second) -> np.ndarray:
    return np.maximum(np.abs(first), np.abs(second))


def _signs(parts: int, resamples: int, seed: int) -> np.ndarray:
    """(J, B) of 1 and -1, the first row always 1: flipping all signs changes no |statistic|.

    If there are at most `resamples` sign vectors, all except the identity, so that p-values are
    exact.
    """
    if parts - 1 < resamples.bit_length():
        numbers = np.arange(1, 1 << (parts - 1))
        if len(numbers) <= resamples:
            turned = (numbers >> np.arange(parts - 1)[:, None]) & 1
            return np.concatenate([np.ones((1, len(numbers))), 1.0 - 2.0 * turned])
    generator = np.random.Generator(np.random.PCG64(seed))
    turned = generator.integers(0, 2, (parts - 1, resamples))
    return np.concatenate([np.ones((1, resamples)), 1.0 - 2.0 * turned])


def adjusted(p_value, statistics, null_replicates) -> np.ndarray:
    """Adjusted p-values, not below those of the single tests; for one test, its p-value."""
    if np.count_nonzero(~np.isnan(p_value)) < 2:
        return p_value
    return np.maximum(p_value, step_down_max_t(statistics, null_replicates))
