"""Accuracy, means of recall and precision over classes, F1, IoU and kappa, from counts of pixels.

All functions take (…, K, K) counts, rows the reference and columns the prediction (geodl prints the
transpose), and keep the leading axes.

Recall and precision are weighted means over the classes that occur in either raster. An undefined
ratio (the recall of a class without reference pixels, the precision of one that is never predicted)
counts as 0, as in scikit-learn with ``average="macro", zero_division=0``. F1 is the harmonic mean
of these two *means*; `macro_f1` is the mean of the classes' F1 (scikit-learn, torchmetrics). With
the smoothing ``s``, a defined ratio is ``(TP + s) / (TP + FN + s)`` or ``(TP + s) / (TP + FP +
s)``.

``like="geodl"`` follows geodl: every declared class counts, and all ratios are smoothed, so that
an undefined one is 1 and raises the mean; ``s`` is then 1e-8, as in geodl's worked examples (the
default of its functions is 1), and F1 is ``2 P R / (P + R + 1e-8)``.
The binary mode scores only the positive class, which equals weights (0, 1).
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.ratios import divide, mean_of_defined

GEODL = "geodl"
_GEODL_SMOOTH = 1e-8
BINARY_WEIGHTS = (0.0, 1.0)


def overall_accuracy(counts) -> np.ndarray:
    """Share of the pixels with the right class; NaN without pixels."""
    counts = np.asarray(counts)
    return divide(np.trace(counts, axis1=-2, axis2=-1), counts.sum(axis=(-2, -1)))


def recall(counts, *, smooth: float | None = None, class_weights=None, like=None) -> np.ndarray:
    """Weighted mean over classes of recall (producer's accuracy)."""
    hits, references, predictions = margins(counts)
    present = references + predictions > 0
    return _mean(hits, references, present, smooth_of(smooth, like), class_weights, like)


def precision(counts, *, smooth: float | None = None, class_weights=None, like=None) -> np.ndarray:
    """Weighted mean over classes of precision (user's accuracy)."""
    hits, references, predictions = margins(counts)
    present = references + predictions > 0
    return _mean(hits, predictions, present, smooth_of(smooth, like), class_weights, like)


def f1(counts, *, smooth: float | None = None, class_weights=None, like=None) -> np.ndarray:
    """Harmonic mean of `recall` and `precision`."""
    options = {"smooth": smooth, "class_weights": class_weights, "like": like}
    r, p = recall(counts, **options), precision(counts, **options)
    if like == GEODL:
        return 2 * p * r / (p + r + 1e-8)
    return divide(2 * p * r, p + r, undefined=0.0) + 0 * r


def macro_f1(counts, *, class_weights=None) -> np.ndarray:
    """Weighted mean of the F1 of the classes that occur in either raster."""
    hits, references, predictions = margins(counts)
    both = references + predictions
    return _mean(2 * hits, both, both > 0, 0.0, class_weights, None)


def per_class(counts) -> dict[str, np.ndarray]:
    """``recall``, ``precision``, ``f1``, ``iou`` of each class, (…, K), without smoothing.

    NaN if undefined: recall without reference pixels, precision without predicted ones, F1 and IoU
    without either. With two classes, recall and precision of the first are also known as
    specificity and negative predictive value.
    """
    hits, references, predictions = margins(counts)
    return {
        "recall": divide(hits, references),
        "precision": divide(hits, predictions),
        "f1": divide(2 * hits, references + predictions),
        "iou": divide(hits, references + predictions - hits),
    }


def mean_iou(counts) -> np.ndarray:
    """Mean IoU over the classes that occur in either raster."""
    return mean_of_defined(np.moveaxis(per_class(counts)["iou"], -1, 0))


def kappa(counts) -> np.ndarray:
    """Cohen's kappa: agreement beyond that expected by chance from both class shares.

    NaN if both hold one and the same class only.
    """
    _, references, predictions = margins(counts)
    total = np.asarray(counts).sum(axis=(-2, -1))
    chance = divide((references * predictions).sum(axis=-1), total**2)
    return divide(overall_accuracy(counts) - chance, 1 - chance)


def margins(counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(…, K) float64 each: correct pixels, reference pixels, predicted pixels."""
    counts = np.asarray(counts, np.float64)
    return np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(axis=-1), counts.sum(axis=-2)


def check_weights(class_weights, classes: int) -> np.ndarray:
    """(K,) class weights, all 1 for None.

    Raises
    ------
    PermafrostError : the number of weights is not K; a negative weight; no weight above 0.
    """
    weights = np.ones(classes) if class_weights is None else np.asarray(class_weights, np.float64)
    if weights.shape != (classes,):
        raise PermafrostError(
            f"{weights.size} class weights for {classes} classes",
            remedy="give one weight per class, in the order of their codes",
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise PermafrostError(
            f"the class weights {weights.tolist()} give no mean",
            remedy="give weights of at least 0, one of them above 0",
        )
    return weights


def smooth_of(smooth: float | None, like: str | None) -> float:
    """The smoothing: `smooth` if set, else geodl's with ``like="geodl"``, else 0.

    Raises
    ------
    PermafrostError : negative smoothing; an unknown value of `like`.
    """
    if like not in (None, GEODL):
        raise PermafrostError(
            f"there is no rule like {like!r}", remedy=f"give {GEODL}, or leave it out"
        )
    if smooth is None:
        return _GEODL_SMOOTH if like == GEODL else 0.0
    if not (np.isfinite(smooth) and smooth >= 0):
        raise PermafrostError(f"the smoothing {smooth} is not a number of at least 0")
    return smooth


def _mean(hits, totals, present, smooth: float, class_weights, like: str | None) -> np.ndarray:
    """Weighted mean of hits / totals over the last axis; NaN if no class has a weight."""
    weights = check_weights(class_weights, hits.shape[-1])
    counted = weights > 0 if like == GEODL else (weights > 0) & present
    defined = totals + smooth > 0 if like == GEODL else totals > 0
    ratios = divide(hits + smooth, totals + smooth, undefined=0.0)
    ratios = np.where(defined, ratios, np.nan if like == GEODL else 0.0)
    used = np.where(counted, weights, 0.0)
    return divide(np.where(counted, ratios * weights, 0.0).sum(axis=-1), used.sum(axis=-1))
