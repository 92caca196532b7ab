"""Average precision as a step function: AP = sum over thresholds of (R_t - R_{t-1}) P_t.

A threshold is a distinct score; everything that shares it is retrieved together, so the order of
tied samples does not matter. This is scikit-learn's ``average_precision_score``, not the
interpolated area of object detection. Precision is needed only at thresholds where a positive is
retrieved, since recall stands still elsewhere.
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.classification._checks import label_scores
from permafrost.metrics.ratios import mean_of_defined


def average_precision(target, scores) -> float:
    """Average precision of one ranking.

    Parameters
    ----------
    target : any shape, of 0 and 1 (or bool): which entries are positive.
    scores : the same shape, without NaN.

    Returns
    -------
    AP in (0, 1]; NaN without positives (scikit-learn warns and returns 0 there).
    """
    return _average_precision(*label_scores(target, scores))


def micro_average_precision(target, scores) -> float:
    """AP of all (N, L) entries ranked together (= scikit-learn ``average="micro"``); NaN without
    positives."""
    return average_precision(target, scores)


def per_class_average_precision(target, scores) -> np.ndarray:
    """(L,) AP of each column of the (N, L) arrays; NaN for a class without positives."""
    target, scores = label_scores(target, scores)
    return np.array([_average_precision(t, s) for t, s in zip(target.T, scores.T, strict=True)])


def macro_average_precision(target, scores) -> tuple[float, int]:
    """Mean AP over the classes that have positives, and the number of classes left out.

    Scikit-learn's ``average="macro"`` counts a class without positives as 0, which punishes every
    backbone for what the test set lacks. Here it is skipped, and counted.
    """
    each = per_class_average_precision(target, scores)
    return float(mean_of_defined(each)), int(np.count_nonzero(np.isnan(each)))


def _average_precision(target: np.ndarray, scores: np.ndarray) -> float:
    positives = np.sort(scores[target], axis=None)
    if positives.size == 0:
        return float("nan")
    first = np.flatnonzero(np.concatenate(([True], positives[1:] != positives[:-1])))
    thresholds = positives[first]
    # sorting values and counting from the end beats sorting indices: no labels travel along
    everything = np.sort(scores, axis=None)
    retrieved = everything.size - np.searchsorted(everything, thresholds, side="left")
    found = positives.size - first
    gained = np.diff(found, append=0) * -1
    return float(np.sum(gained * (found / retrieved)) / positives.size)
