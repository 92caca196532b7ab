"""Recall, precision and F1 of each class, and their unweighted means over classes.

What is undefined, and which classes a mean runs over, is said in `metrics.ratios`.
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.classification.confusion import class_counts
from permafrost.metrics.ratios import divide, macro_means


def per_class_recall(target, prediction, classes: int) -> np.ndarray:
    """(K,) float64: share of a class's samples that were found; NaN without any."""
    hits, targets, _ = class_counts(target, prediction, classes)
    return divide(hits, targets)


def per_class_precision(target, prediction, classes: int) -> np.ndarray:
    """(K,) float64: share of a class's predictions that are right; NaN without any."""
    hits, _, predictions = class_counts(target, prediction, classes)
    return divide(hits, predictions)


def macro_recall(target, prediction, classes: int) -> float:
    """Mean recall over the classes in target or prediction; see `metrics.ratios`."""
    return float(macro_means(*class_counts(target, prediction, classes))["macro_recall"])


def macro_precision(target, prediction, classes: int) -> float:
    """Mean precision over the classes in target or prediction; see `metrics.ratios`."""
    return float(macro_means(*class_counts(target, prediction, classes))["macro_precision"])


def macro_f1(target, prediction, classes: int) -> float:
    """Mean of the classes' F1 (not the F1 of the macro means); see `metrics.ratios`."""
    return float(macro_means(*class_counts(target, prediction, classes))["macro_f1"])
