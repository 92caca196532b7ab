"""What every metric asks of its arguments; a wrong one is an error, never a guess."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError

_REMEDY = "run the evaluation that made these predictions again"


def class_ids(ids, what: str, classes: int | None = None) -> np.ndarray:
    """`ids` as a 1-d integer array, all of them in [0, classes) where `classes` is known.

    Raises
    ------
    PermafrostError : not one-dimensional, not integers, or outside the classes.
    """
    ids = np.asarray(ids)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise PermafrostError(
            f"{what} must be a 1-d array of integer class ids, not {ids.dtype} of shape {ids.shape}",
            remedy=_REMEDY,
        )
    if classes is not None and ids.size:
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= classes:
            raise PermafrostError(
                f"{what} holds class ids {low} to {high}, but there are {classes} classes",
                remedy=_REMEDY,
            )
    return ids


def pair_of_ids(target, prediction, classes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Targets and predictions of the same, non-zero length."""
    target = class_ids(target, "target", classes)
    prediction = class_ids(prediction, "prediction", classes)
    same_length(target, prediction, "prediction")
    return target, prediction


def label_scores(target, scores) -> tuple[np.ndarray, np.ndarray]:
    """`target` as booleans and `scores` as floats, of one shape, without NaN.

    Raises
    ------
    PermafrostError : other values than 0 and 1 in `target`, shapes that differ, NaN, no samples.
    """
    target, scores = np.asarray(target), float_scores(scores)
    if target.shape != scores.shape:
        raise PermafrostError(
            f"target has the shape {target.shape}, scores {scores.shape}", remedy=_REMEDY
        )
    if target.dtype != bool:
        positive = target == 1
        if not np.array_equal(positive, target != 0):
            raise PermafrostError("a multi-label target holds only 0 and 1", remedy=_REMEDY)
        target = positive
    same_length(target, scores, "scores")
    return target, scores


def float_scores(scores) -> np.ndarray:
    """`scores` as a float array; NaN has no place in a ranking and is refused."""
    scores = np.asarray(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if np.isnan(scores).any():
        raise PermafrostError("the scores hold NaN", remedy=_REMEDY)
    return scores


def same_length(target: np.ndarray, other: np.ndarray, what: str) -> None:
    """Refuse arrays of different lengths, and none at all."""
    if len(target) != len(other):
        raise PermafrostError(
            f"target has {len(target)} samples, {what} {len(other)}", remedy=_REMEDY
        )
    if len(target) == 0:
        raise PermafrostError("there are no samples to score", remedy=_REMEDY)
