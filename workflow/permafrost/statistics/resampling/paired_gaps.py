"""Differences of calibration errors, which are far from sums over blocks, from resamples."""

from __future__ import annotations

import numpy as np

from permafrost.statistics.resampling.detectable import critical_value, smallest_found
from permafrost.statistics.resampling.intervals import (
    expanded,
    percentile_interval,
    reflected_square,
)
from permafrost.statistics.resampling.p_values import bootstrap_p_value
from permafrost.statistics.resampling.paired import Paired, adjusted, blocks, t_of_score
from permafrost.statistics.resampling.runs import over_runs_drawn
from permafrost.statistics.resampling.student_t import normal_score, t_quantile, two_sided_p
from permafrost.statistics.resampling.units import Units


def paired_gaps(values, replicates, pairs, *, units: Units, confidence: float, seed: int) -> Paired:
    """Differences of calibration errors, each reflected as squares on the same resamples, averaged
    over R runs.

    Parameters
    ----------
    values : (R, K) of each backbone on the whole test set, NaN if it lacks the run.
    replicates : (R, K, B) of each on the same resamples.
    pairs : (P, 2) indices of backbones.
    """
    values, n_units = np.asarray(values), units.count
    mirrored = np.stack(
        [
            np.stack([reflected_square(*each) for each in zip(*run, strict=True)])
            for run in zip(values, replicates, strict=True)
        ]
    )
    noise = np.random.Generator(np.random.PCG64(seed)).standard_normal(
        (len(values), mirrored.shape[-1])
    )

    def drawn_of(pair: np.ndarray) -> tuple[np.ndarray, float]:
        """(B,) differences on resamples, with the variation of the runs, and degrees of freedom."""
        first, second = mirrored[:, pair[0]], mirrored[:, pair[1]]
        have = ~np.isnan(values[:, pair]).any(axis=1)
        have |= not have.any()
        return over_runs_drawn((first - second)[have], noise[have], n_units)

    rows = []
    for pair in pairs:
        drawn, df = drawn_of(pair)
        widened = expanded(drawn, df + 1, confidence)
        p_value = bootstrap_p_value(widened) if n_units > 1 else np.nan
        undefined = np.count_nonzero(np.isnan(widened))
        interval = percentile_interval(widened, confidence)
        gaps = values[:, pair[0]] - values[:, pair[1]]
        gaps = gaps[~np.isnan(gaps)]
        rows.append((gaps.mean() if gaps.size else np.nan, *interval, p_value, undefined))
    difference, lower, upper, p_value, n_undefined = map(np.array, zip(*rows, strict=True))

    def strayed(chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        each = [drawn_of(pair) for pair in pairs[chosen]]
        drawn, df = np.stack([one for one, _ in each]), np.array([df for _, df in each])
        # the centre is the difference without the noise in the errors
        centre, error = np.nanmean(drawn, axis=1), np.nanstd(drawn, axis=1)
        safe = np.where(error > 0, error, np.inf)[:, None]
        correct = np.sqrt(df / (df + 1))
        size = correct * np.abs(centre / safe[:, 0])
        return size, (drawn - centre[:, None]) / safe, error / correct, df

    statistics, errors, degrees = np.full((3, len(pairs)), np.nan)
    tested = np.flatnonzero(~np.isnan(p_value))
    for chosen in blocks(tested):
        size, _, errors[chosen], degrees[chosen] = strayed(chosen)
        statistics[chosen] = normal_score(two_sided_p(size, degrees[chosen]))
    largest = np.zeros(mirrored.shape[-1])

    def under_null(chosen: np.ndarray) -> np.ndarray:
        drawn = np.abs(strayed(chosen)[1])
        np.fmax(largest, np.fmax.reduce(drawn, axis=0), out=largest)
        return drawn

    p_adjusted = adjusted(p_value, statistics, under_null)
    critical = critical_value(largest, confidence) if len(tested) > 1 else 0.0
    t = np.maximum(t_quantile(confidence, degrees), t_of_score(critical, degrees))
    found = smallest_found(errors, degrees, t)
    detectable = np.where(np.isfinite(found), found, np.nan)
    undefined = n_undefined.astype(np.int64)
    return Paired(difference, lower, upper, p_value, p_adjusted, undefined, detectable)
