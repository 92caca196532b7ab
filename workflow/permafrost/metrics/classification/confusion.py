"""The confusion matrix, and the three counts per class that most metrics need of it."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.classification._checks import pair_of_ids


def confusion_matrix(target, prediction, classes: int) -> np.ndarray:
    """Counts of each pair of target and prediction.

    Parameters
    ----------
    target, prediction : (N,) integer class ids in [0, classes).
    classes : K, the number of classes of the dataset, present or not.

    Returns
    -------
    (K, K) int64: rows are targets, columns predictions.
    """
    target, prediction = pair_of_ids(target, prediction, classes)
    cells = target.astype(np.int64) * classes + prediction
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def class_counts(target, prediction, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K,) int64 each: hits, samples with this target, samples with this prediction."""
    target, prediction = pair_of_ids(target, prediction, classes)
    hits = np.bincount(target[target == prediction], minlength=classes)
    return (
        hits,
        np.bincount(target, minlength=classes),
        np.bincount(prediction, minlength=classes),
    )
