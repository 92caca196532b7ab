"""Predictions of made-up test sets, and metrics on resamples worked out the slow way."""

from __future__ import annotations

import numpy as np
from permafrost.metrics.classification import evaluate


def single_label(n=200, classes=6, present=None, seed=0, skill=0.5, ties=False):
    """Targets, predictions and float32 scores; only the first `present` classes occur in targets."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, present or classes, n)
    scores = rng.random((n, classes)).astype(np.float32)
    scores[np.arange(n), target] += skill
    if ties:
        scores = np.round(scores * 4) / 4
    return target, scores.argmax(axis=1), scores


def multi_label(n=120, labels=5, seed=0, share=0.3, ties=False, without_positives=()):
    """Targets, predictions and float32 scores of a multi-label test set."""
    rng = np.random.default_rng(seed)
    target = (rng.random((n, labels)) < share).astype(np.uint8)
    target[:, list(without_positives)] = 0
    scores = (rng.random((n, labels)) + 0.4 * target).astype(np.float32)
    if ties:
        scores = np.round(scores * 5) / 5
    return target, (scores > 0.6).astype(np.uint8), scores


def naive_replicates(arrays, counts, units, *, task, classes):
    """Evaluate every metric on the rows of each resample, written out; metric to (B,) or (K, B)."""
    found = []
    for resample in counts.T.astype(int):
        rows = np.repeat(np.arange(len(units)), resample[units])
        found.append(evaluate(*(array[rows] for array in arrays), task=task, classes=classes))
    return {name: np.stack([values[name] for values in found], axis=-1) for name in found[0]}


def naive_t_test(difference, without):
    """(lower, upper, p) of a difference by Student's t from its values without each unit, by SciPy."""
    from scipy import stats

    count = len(without)
    error = np.sqrt((count - 1) * without.var())
    df = min(count - 1, 2 * count / (stats.kurtosis(without, fisher=False) - 1))
    interval = difference + error * stats.t.ppf([0.025, 0.975], df)
    return (*interval, 2 * stats.t.sf(abs(difference) / error, df))
