"""Test sets whose items are easy or hard, answered by backbones that were trained several times."""

from __future__ import annotations

import numpy as np
from permafrost.statistics.resampling.paired import Paired, paired_by_jackknife
from permafrost.statistics.resampling.units import Units
from scipy.stats import norm

_RESAMPLES = 500


def answers(rng, sets: int, levels, runs: int, items: int, groups: int, noise: float, stray: float):
    """(R, D, K, N) whether each run of each backbone is right in D test sets, and (N,) groups of the items.

    An item is right where the sum of how easy it is (for all backbones, and for this one; with groups, half of that is
    its group's), of chance in this training and of the backbone's level is above 0.

    Parameters
    ----------
    levels : (K,) shares that are right over all items and trainings, where `stray` is 0.
    noise : share of the variance of an item that is the training's.
    stray : standard deviation of a training's level, in shares.
    """
    index, count = np.arange(items) % (groups or items), len(levels)

    def of_items(*shape):
        own = rng.standard_normal((*shape, items), np.float32)
        if not groups:
            return own
        return (own + rng.standard_normal((*shape, groups), np.float32)[..., index]) / np.sqrt(2)

    easy = np.sqrt(0.6) * of_items(sets, 1) + np.sqrt(0.4) * of_items(sets, count)
    strayed = np.asarray(levels) + stray * rng.normal(size=(runs, sets, count))
    bounds = norm.ppf(np.clip(strayed, 0.01, 0.99)).astype(np.float32)[..., None]
    hits = np.empty((runs, sets, count, items), bool)
    for run in range(runs):
        trained = rng.standard_normal((sets, count, items), np.float32)
        hits[run] = np.sqrt(1 - noise) * easy + np.sqrt(noise) * trained > -bounds[run]
    return hits, index


def compared(hits: np.ndarray, index: np.ndarray, pairs, *, shared: bool = False) -> Paired:
    """Pairs of backbones (R, K, N) as `permafrost compare` tests their accuracies."""
    units, items = int(index.max()) + 1, hits.shape[-1]
    of_part = np.eye(min(units, 200), dtype=np.float32)[index % 200]
    sizes = of_part.sum(axis=0)
    sums = np.stack([run.astype(np.float32) @ of_part for run in hits]).astype(float)
    left_out = (sums.sum(axis=-1, keepdims=True) - sums) / (items - sizes)
    drawn = {
        "units": Units("group", units, index),
        "resamples": _RESAMPLES,
        "seed": 0,
        "shared": shared,
    }
    return paired_by_jackknife(sums.sum(axis=-1) / items, left_out, pairs, confidence=0.95, **drawn)
