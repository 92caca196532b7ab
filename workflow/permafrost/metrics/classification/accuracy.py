"""Accuracy, over samples and over classes."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.classification._checks import pair_of_ids
from permafrost.metrics.ratios import divide, mean_of_defined


def accuracy(target, prediction) -> float:
    """Share of the (N,) predictions that equal their (N,) targets, in [0, 1]."""
    target, prediction = pair_of_ids(target, prediction)
    return int(np.count_nonzero(target == prediction)) / len(target)


def balanced_accuracy(target, prediction) -> float:
    """Mean recall over the classes that occur in `target` (= scikit-learn's, unadjusted).

    A class that is only predicted has no recall and is left out, unlike in `macro_recall`.
    """
    target, prediction = pair_of_ids(target, prediction)
    hits = np.bincount(target[target == prediction], minlength=int(target.max()) + 1)
    return float(mean_of_defined(divide(hits, np.bincount(target))))
