"""Ratios of counts per class and their means over classes, shared by the tasks.

Conventions
-----------
Per class, a ratio without a denominator is NaN: the recall of a class without targets, the
precision of a class that was never predicted.
The macro means cover the classes that occur in the targets *or* the predictions, and count such
a ratio as 0: exactly scikit-learn's ``average="macro", zero_division=0`` with its default
labels, and torchmetrics' ``average="macro"``. Scikit-learn with ``labels=range(K)`` would also
average over absent classes.
"""

from __future__ import annotations

import numpy as np


def divide(numerator, denominator, undefined: float = np.nan) -> np.ndarray:
    """`numerator` / `denominator` in float64, `undefined` where the denominator is 0."""
    numerator, denominator = np.asarray(numerator), np.asarray(denominator)
    out = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), undefined, np.float64)
    return np.divide(numerator, denominator, out=out, where=denominator != 0)


def mean_of_defined(ratios) -> np.ndarray:
    """Mean along the first axis without NaN; NaN if all are NaN."""
    defined = ~np.isnan(ratios)
    total = np.where(defined, ratios, 0.0).sum(axis=0)
    return divide(total, np.count_nonzero(defined, axis=0))


def macro_means(hits, targets, predictions) -> dict[str, np.ndarray]:
    """Macro precision, recall and F1 from counts per class.

    Parameters
    ----------
    hits, targets, predictions : (K, …) number of correct predictions, of samples with this target, of
        samples with this prediction; trailing axes, such as resamples, are kept.

    Returns
    -------
    ``macro_precision``, ``macro_recall``, ``macro_f1``, each of the trailing shape.
    """
    present = np.count_nonzero((targets > 0) | (predictions > 0), axis=0)
    # 2 tp / (2 tp + fp + fn) is 0, not undefined, if precision and recall are both 0
    ratios = {
        "macro_precision": divide(hits, predictions, undefined=0.0),
        "macro_recall": divide(hits, targets, undefined=0.0),
        "macro_f1": divide(2 * hits, targets + predictions, undefined=0.0),
    }
    return {name: divide(ratio.sum(axis=0), present) for name, ratio in ratios.items()}


def ratios_of_hits(prefix: str, hits, truths, detections) -> dict[str, np.ndarray]:
    """``{prefix}_recall``, ``_precision`` and ``_f1`` from counts of one shape; NaN where undefined.

    F1 is 2 hits / (truths + detections): 0, not undefined, without detections.
    """
    return {
        f"{prefix}_recall": divide(hits, truths),
        f"{prefix}_precision": divide(hits, detections),
        f"{prefix}_f1": divide(2 * hits, truths + detections),
    }
