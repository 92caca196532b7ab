"""Standard errors of a mean over runs: trainings with other seeds, or draws of a training set.

With y_rj the contribution of block j of the test set in run r, the mean over R runs has variance::

    V_items + V_runs - V_both

V_items is the jackknife variance of the mean over runs, V_runs the variance of the runs' values
divided by R. Both include the interaction of block and run, V_both (a test image that one training
gets right and another one wrong), so it is subtracted once. V_both is the mean of the runs' own
jackknife variances minus V_items, divided by R - 1. If V_runs is below V_both, runs add nothing.
Degrees of freedom are Satterthwaite's, with R - 1 for the runs.

Trainings of two backbones are independent, so V_runs of their difference is the sum of the two,
with up to 2 (R - 1) degrees of freedom. Draws of a training set that both use are paired.
Source: Cameron, Gelbach and Miller, Robust Inference with Multiway Clustering (2011), for the
sum; Searle, Casella and McCulloch, Variance Components (1992), section 4.3, for the components of a
two-way layout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.statistics.resampling.jackknife import ROUNDING, Spread, spread_of


@dataclass(frozen=True)
class OverRuns:
    """Means over runs and their spread.

    Attributes
    ----------
    values : (…) means over the available runs.
    left_out : (…, J) means without each block.
    spread : of the values, with other items and other runs.
    factor : (…) scale of each run's deviation from the mean, so that its squares add up to the
        variance that runs add beyond the items.
    """

    values: np.ndarray
    left_out: np.ndarray
    spread: Spread
    factor: np.ndarray


def over_runs(
    values, left_out, sizes, *, have=None, scale=None, centred: bool = False, of_runs=None
) -> OverRuns:
    """Means of R runs on one test set; see the module docstring.

    Parameters
    ----------
    values : (R, …) of each run on the whole test set.
    left_out : (R, …, J) without each block.
    sizes : (J,) from `jackknife.part_sizes`.
    have : (R, …) whether the run exists; by default all do. Every column has at least one.
    scale, centred : as in `jackknife.spread_of`.
    of_runs : (…) variances V_runs and their degrees of freedom, for differences of two values that
        vary independently; by default computed from the values.
    """
    values, left_out = np.asarray(values, np.float64), np.asarray(left_out, np.float64)
    have = np.ones(values.shape, bool) if have is None else np.broadcast_to(have, values.shape)
    count = have.sum(axis=0)
    mean = np.where(have, values, 0.0).sum(axis=0) / count
    # a block carries the metric if it is undefined without it: `spread_of` then has no error
    carried = np.any(have[..., None] & np.isnan(left_out) & ~np.isnan(values)[..., None], axis=0)
    adds = values[..., None] - left_out
    adds = np.where(have[..., None] & ~np.isnan(adds), adds, 0.0)
    without = mean[..., None] - adds.sum(axis=0) / count[..., None]
    undefined = np.all(np.isnan(left_out) | ~have[..., None], axis=0)
    scale = np.abs(mean) if scale is None else scale
    spread = spread_of(
        mean, np.where(carried, np.nan, without), sizes, scale=scale, centred=centred
    )
    return OverRuns(
        mean,
        np.where(undefined, np.nan, without),
        *_with_runs(
            spread,
            variance_of_runs(values, have, scale) if of_runs is None else of_runs,
            adds,
            have,
        ),
    )


def variance_of_runs(values, have, scale) -> tuple[np.ndarray, np.ndarray]:
    """(…) variances of means of (R, …) values, and their df, at least 1; see `over_runs`."""
    count = have.sum(axis=0)
    strays = values - np.where(have, values, 0.0).sum(axis=0) / count
    strays = np.where(have & (np.abs(strays) > ROUNDING * scale), strays, 0.0)
    several = np.maximum(count - 1, 1)
    return np.sum(strays**2, axis=0) / (several * count), several


def _with_runs(
    spread: Spread, runs: tuple[np.ndarray, np.ndarray], adds: np.ndarray, have: np.ndarray
) -> tuple[Spread, np.ndarray]:
    """The spread including the runs, and the factor of `OverRuns`."""
    (of_runs, df_of_runs), count, parts = runs, have.sum(axis=0), adds.shape[-1]
    several = np.maximum(count - 1, 1)
    about = adds - adds.mean(axis=-1, keepdims=True)
    overall = about.sum(axis=0) / count[..., None]
    residual = np.where(have[..., None], about - overall, 0.0)
    of_both = (parts - 1) / parts * np.sum(residual**2, axis=(0, -1)) / (several * count)
    extra = np.maximum(of_runs - of_both, 0.0)
    of_items = spread.error**2
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (of_items + extra) ** 2 / (of_items**2 / spread.df + extra**2 / df_of_runs)
        share = np.where(of_runs > 0, extra / of_runs, 0.0)
    changed = replace(
        spread,
        error=np.where(extra > 0, np.sqrt(of_items + extra), spread.error),
        df=np.where(extra > 0, np.maximum(df, 1.0), spread.df),
    )
    return changed, np.sqrt(share / (several * count))


def over_runs_drawn(drawn: np.ndarray, noise: np.ndarray, n_units: int) -> tuple[np.ndarray, float]:
    """(B,) means over R runs of replicates, with noise for the runs, and degrees of freedom.

    Parameters
    ----------
    drawn : (R, B) on the same resamples of U units.
    noise : (R, B) normal numbers, the same for all compared values.
    """
    runs = len(drawn)
    if runs == 1:
        return drawn[0], n_units - 1
    mean, centres = drawn.mean(axis=0), np.nanmean(drawn, axis=1)
    strays = centres - centres.mean()
    of_items = float(np.nanvar(mean))
    of_runs = float(np.sum(strays**2)) / (runs * (runs - 1))
    of_both = float(np.mean(np.nanvar(drawn, axis=1)) - of_items) / (runs - 1)
    extra = max(of_runs - of_both, 0.0)
    if extra == 0:
        return mean, n_units - 1
    moved = np.sqrt(extra / of_runs / (runs * (runs - 1))) * (strays @ noise)
    df = (of_items + extra) ** 2 / (of_items**2 / max(n_units - 1, 1) + extra**2 / (runs - 1))
    return mean + moved, max(df, 1.0)
