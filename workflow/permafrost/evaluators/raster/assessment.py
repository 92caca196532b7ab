"""geodl's four assessment metrics, and IoU and kappa, from counts of pixels.

All take (…, K, K) counts, rows the reference and columns the prediction (geodl prints the
transpose), and keep the leading axes.

geodl's conventions: TP, FP and FN are summed over everything, then divided once. With the smoothing
``s``, recall and precision of a class are ``(TP + s) / (TP + FN + s)`` and
``(TP + s) / (TP + FP + s)``; their means over classes are weighted; F1 is the harmonic mean of these
two *means*, ``2 P R / (P + R + 1e-8)``, not the mean of the classes' F1 (scikit-learn, torchmetrics);
overall accuracy is not smoothed. A class that occurs in neither raster then has recall and precision
1 for any ``s > 0``, which raises the means. ``s`` is 1e-8 here, as in geodl's worked examples; the
default of its functions is 1.
The binary mode scores the positive class alone, which is the same as weights (0, 1).
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.ratios import divide, mean_of_defined

SMOOTH = 1e-8
BINARY_WEIGHTS = (0.0, 1.0)


def overall_accuracy(counts) -> np.ndarray:
    """Share of the pixels whose class is right; NaN without pixels."""
    counts = np.asarray(counts)
    return divide(np.trace(counts, axis1=-2, axis2=-1), counts.sum(axis=(-2, -1)))


def recall(counts, *, smooth: float = SMOOTH, class_weights=None) -> np.ndarray:
    """Weighted mean over classes of smoothed recall (producer's accuracy)."""
    hits, references, _ = margins(counts)
    return _weighted(divide(hits + smooth, references + smooth), class_weights)


def precision(counts, *, smooth: float = SMOOTH, class_weights=None) -> np.ndarray:
    """Weighted mean over classes of smoothed precision (user's accuracy)."""
    hits, _, predictions = margins(counts)
    return _weighted(divide(hits + smooth, predictions + smooth), class_weights)


def f1(counts, *, smooth: float = SMOOTH, class_weights=None) -> np.ndarray:
    """Harmonic mean of `recall` and `precision`."""
    options = {"smooth": smooth, "class_weights": class_weights}
    r, p = recall(counts, **options), precision(counts, **options)
    return 2 * p * r / (p + r + 1e-8)


def per_class(counts) -> dict[str, np.ndarray]:
    """``recall``, ``precision``, ``f1``, ``iou`` of each class, (…, K), without smoothing.

    NaN where undefined: recall without reference pixels, precision without predicted ones, F1 and
    IoU without either. Of two classes, recall and precision of the first are also called
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
    """Cohen's kappa: agreement beyond that of two rasters with these shares of classes, shuffled.

    NaN where both hold a single, common class.
    """
    _, references, predictions = margins(counts)
    total = np.asarray(counts).sum(axis=(-2, -1))
    chance = divide((references * predictions).sum(axis=-1), total**2)
    return divide(overall_accuracy(counts) - chance, 1 - chance)


def margins(counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(…, K) float64 each: hits, reference pixels, predicted pixels."""
    counts = np.asarray(counts, np.float64)
    return np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(axis=-1), counts.sum(axis=-2)


def check_weights(class_weights, classes: int) -> np.ndarray:
    """(K,) weights of the classes, all 1 where None.

    Raises
    ------
    PermafrostError : another number of weights; a negative one; none above 0.
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


def check_smooth(smooth: float) -> None:
    """Refuse a negative smoothing."""
    if not (np.isfinite(smooth) and smooth >= 0):
        raise PermafrostError(f"the smoothing {smooth} is not a number of at least 0")


def _weighted(ratios: np.ndarray, class_weights) -> np.ndarray:
    weights = check_weights(class_weights, ratios.shape[-1])
    used = weights > 0  # an undefined ratio without weight does not matter
    return (ratios[..., used] * weights[used]).sum(axis=-1) / weights.sum()
