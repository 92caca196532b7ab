"""Confusion matrices of pixels, and the three counts per class from which all metrics follow."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError

_REMEDY = "run the evaluation that made these predictions again"


def confusion_matrix(truth, prediction, classes: int, ignore_index: int | None = None):
    """Count each pair of true and predicted class among the scored pixels.

    Parameters
    ----------
    truth : integer class ids of any shape, in [0, K) or `ignore_index`.
    prediction : integer class ids of the same shape, in [0, K) where `truth` is not ignored.
    classes : K, the number of classes of the dataset, present or not.
    ignore_index : value of `truth` whose pixels are not counted, inside or outside [0, K).

    Returns
    -------
    (K, K) int64: rows are truth, columns predictions.
    """
    truth, prediction = checked_masks(truth, prediction, classes, ignore_index)
    if ignore_index is not None:
        scored = truth != ignore_index
        truth, prediction = truth[scored], prediction[scored]
    cells = truth.astype(np.int64) * classes + prediction
    counts = np.bincount(cells.ravel(), minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.int64, copy=False)


def checked_masks(truth, prediction, classes: int, ignore_index: int | None):
    """Check two masks: arrays of one shape, with class ids in [0, `classes`) in the scored pixels.

    Raises
    ------
    PermafrostError : different shapes, values that are not integers, ids outside of the classes.
    """
    truth, prediction = np.asarray(truth), np.asarray(prediction)
    if truth.shape != prediction.shape:
        raise PermafrostError(
            f"the mask has the shape {truth.shape}, its prediction {prediction.shape}",
            remedy="score both at the same resolution",
        )
    scored = ... if ignore_index is None else truth != ignore_index
    for what, mask in (("mask", truth), ("predicted mask", prediction)):
        if mask.dtype.kind not in "iu":
            raise PermafrostError(
                f"a {what} must hold integer class ids, not {mask.dtype}", remedy=_REMEDY
            )
        ids = mask[scored]
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < classes:
            raise PermafrostError(
                f"a {what} holds values {int(ids.min())} to {int(ids.max())}, but there are"
                f" {classes} classes (ids 0 to {classes - 1})",
                remedy="declare every value of the masks as a class, or as ignore_index",
            )
    return truth, prediction


def class_counts(confusion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K, …) counts of a (…, K, K) stack: correct pixels, true pixels, predicted pixels of each class.

    The class is the first axis, so that other axes (images, resamples) are kept by means over classes.

    Raises
    ------
    PermafrostError : a matrix that is not square, not of integers, or has negative counts.
    """
    confusion = np.asarray(confusion)
    if confusion.ndim < 2 or confusion.shape[-1] != confusion.shape[-2]:
        raise PermafrostError(
            f"a confusion matrix is square, not of the shape {confusion.shape}", remedy=_REMEDY
        )
    if confusion.dtype.kind not in "iu" or (confusion.size and confusion.min() < 0):
        raise PermafrostError("a confusion matrix holds counts of pixels", remedy=_REMEDY)
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    return tuple(
        np.moveaxis(counts, -1, 0)
        for counts in (hits, confusion.sum(axis=-1), confusion.sum(axis=-2))
    )
