"""Metrics of single-label and multi-label classification; numpy only.

`metrics.ratios` defines undefined values, and the classes that a mean covers.

Average precision is a step function: AP = sum over thresholds of (R_t - R_{t-1}) P_t. A threshold is a distinct score;
all samples with this score are retrieved together, so the order of tied samples does not matter. This is scikit-learn's
``average_precision_score``, not the interpolated area of object detection. Precision is needed only at thresholds
where a positive is retrieved, since recall is constant elsewhere.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.row_file import RowFile, row_blocks
from permafrost.core.targets import ManyLabels, OneClass
from permafrost.core.tasks import targets_of, tasks_with
from permafrost.metrics.ratios import divide, macro_means, mean_of_defined
from permafrost.metrics.tasks import TOP_K, overall_metrics

_REMEDY = "run the evaluation that made these predictions again"


def evaluate(target, prediction, scores, *, task: str, classes: int) -> dict:
    """Compute all metrics of `task` on a whole test set.

    Parameters
    ----------
    target, prediction : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel``.
    scores : (N, K) or (N, L).
    classes : K or L.

    Returns
    -------
    Metric name to a float, then metric name to a (K,) array for the metrics per class; NaN where
    undefined.
    """
    check_task(task)
    check_width(scores, classes)
    if targets_of(task).several:
        pooled, each = (
            micro_average_precision(target, scores),
            per_class_average_precision(target, scores),
        )
        pooled_f1 = micro_f1(*label_counts(target, prediction))
        return _as_floats(metrics_of_labels(pooled, each, pooled_f1))
    values = metrics_of_counts(*class_counts(target, prediction, classes))
    if "top5_accuracy" in overall_metrics(task, classes):
        hits = top_k_hits(target, scores, TOP_K)
        values["top5_accuracy"] = divide(np.count_nonzero(hits), len(hits))
    return _as_floats(values)


def _as_floats(values: dict) -> dict:
    """Numbers over all classes as floats, before those per class."""
    overall = {name: float(value) for name, value in values.items() if np.ndim(value) == 0}
    return overall | {name: value for name, value in values.items() if name not in overall}


def metrics_of_counts(hits, targets, predictions) -> dict[str, np.ndarray]:
    """Metrics of single labels from `class_counts`, (K, …) each; trailing axes, such as resamples, are kept.

    Balanced accuracy is the mean recall over the classes that occur in the targets (scikit-learn's, unadjusted). A
    class that is only predicted has no recall and is omitted, unlike in ``macro_recall``.
    """
    recall = divide(hits, targets)
    return {
        "accuracy": divide(hits.sum(axis=0), targets.sum(axis=0)),
        "balanced_accuracy": mean_of_defined(recall),
        **macro_means(hits, targets, predictions),
        "recall": recall,
        "precision": divide(hits, predictions),
    }


def metrics_of_labels(pooled, each, f1) -> dict[str, np.ndarray]:
    """Metrics of multi-label classification.

    Parameters
    ----------
    pooled, f1 : average precision and F1 of all entries together.
    each : (L, …) average precision of each label.

    Classes without positives are skipped. Scikit-learn's ``average="macro"`` counts them as 0, which
    lowers every backbone's score for what the test set lacks.
    """
    return {
        "micro_ap": pooled,
        "macro_ap": mean_of_defined(each),
        "micro_f1": f1,
        "average_precision": each,
    }


def micro_f1(hits, targets, predictions) -> np.ndarray:
    """F1 of all entries together from `label_counts`: 2 hits / (targets + predictions).

    It is 0 if no label is predicted, and NaN if none is true or predicted (scikit-learn and torchmetrics: 0).
    """
    return divide(2 * hits, targets + predictions)


def label_counts(target, prediction) -> tuple[int, int, int]:
    """Counts of true positives, true labels and predicted labels of (N, L) arrays of 0 and 1."""
    target, prediction = (np.asarray(labels) != 0 for labels in (target, prediction))
    if target.shape != prediction.shape:
        raise PermafrostError(
            f"target has the shape {target.shape}, prediction {prediction.shape}", remedy=_REMEDY
        )
    return tuple(map(np.count_nonzero, (target & prediction, target, prediction)))


def accuracy(target, prediction) -> float:
    """Share of the (N,) predictions that equal their (N,) targets, in [0, 1]."""
    target, prediction = _pair_of_ids(target, prediction)
    return int(np.count_nonzero(target == prediction)) / len(target)


def class_counts(target, prediction, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K,) int64 each: hits, samples with this target, samples with this prediction."""
    target, prediction = _pair_of_ids(target, prediction, classes)
    labels = target[target == prediction], target, prediction
    return tuple(np.bincount(each, minlength=classes) for each in labels)


def top_k_hits(target, scores, k: int) -> np.ndarray:
    """(N,) bool: is the target among the k classes of highest score?

    Ties go to the lowest class id, as in the nearest-neighbour vote: the target is among them if
    fewer than k classes score higher, or equal with a lower id. With k = 1 this is
    ``argmax(scores) == target``.

    Parameters
    ----------
    target : (N,) class ids in [0, K).
    scores : (N, K), without NaN; also a `RowFile`.
    k : between 1 and K.
    """
    scores = scores if isinstance(scores, RowFile) else np.asarray(scores)
    shape = scores.shape
    if len(shape) != 2 or not 1 <= k <= shape[1]:
        raise PermafrostError(
            f"top-{k} accuracy is not defined for scores of the shape {shape}",
            remedy=f"give scores of at least {k} classes",
        )
    target = _class_ids(target, "target", shape[1]).astype(np.int64)
    _same_length(target, scores, "scores")
    hits = [_among_best(target[rows], scores[rows], k) for rows in row_blocks(scores)]
    return np.concatenate(hits)


def _among_best(target: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    scores = _float_scores(scores)
    true_scores = np.take_along_axis(scores, target[:, None], axis=1)
    lower_id = np.arange(scores.shape[1]) < target[:, None]
    ahead = (scores > true_scores) | ((scores == true_scores) & lower_id)
    return np.count_nonzero(ahead, axis=1) < k


def average_precision(target, scores) -> float:
    """Average precision of one ranking.

    Parameters
    ----------
    target : any shape, of 0 and 1 (or bool): which entries are positive.
    scores : the same shape, without NaN.

    Returns
    -------
    AP in (0, 1]; NaN without positives (scikit-learn warns and returns 0).
    """
    return _average_precision(*_label_scores(target, scores))


def micro_average_precision(target, scores) -> float:
    """AP of all (N, L) entries ranked together (= scikit-learn ``average="micro"``); NaN without
    positives."""
    return average_precision(target, scores)


def per_class_average_precision(target, scores) -> np.ndarray:
    """(L,) AP of each column of the (N, L) arrays; NaN for a class without positives."""
    target, scores = _label_scores(target, scores)
    return np.array([_average_precision(t, s) for t, s in zip(target.T, scores.T, strict=True)])


def _average_precision(target: np.ndarray, scores: np.ndarray) -> float:
    positives = np.sort(scores[target], axis=None)
    if positives.size == 0:
        return float("nan")
    first = np.flatnonzero(np.concatenate(([True], positives[1:] != positives[:-1])))
    thresholds = positives[first]
    # sorting values and counting from the end is faster than sorting indices
    everything = np.sort(scores, axis=None)
    retrieved = everything.size - np.searchsorted(everything, thresholds, side="left")
    found = positives.size - first
    gained = np.diff(found, append=0) * -1
    return float(np.sum(gained * (found / retrieved)) / positives.size)


def check_task(task: str) -> None:
    """Refuse a task without classification metrics."""
    known = tasks_with(OneClass, ManyLabels)
    look_up(known, task, "no classification metrics for the task")


def check_width(scores, classes: int) -> None:
    """Refuse scores without one column per class of the dataset; classes unseen in training count."""
    shape = np.shape(scores)
    if len(shape) != 2 or shape[1] != classes:
        raise PermafrostError(
            f"the scores have the shape {shape}, but there are {classes} classes",
            remedy="write one column per class of the dataset's card",
        )


def _class_ids(ids, what: str, classes: int | None = None) -> np.ndarray:
    """`ids` as a 1-d integer array, all of them in [0, classes) if `classes` is given.

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


def _pair_of_ids(target, prediction, classes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Targets and predictions of the same, non-zero length."""
    target = _class_ids(target, "target", classes)
    prediction = _class_ids(prediction, "prediction", classes)
    _same_length(target, prediction, "prediction")
    return target, prediction


def _label_scores(target, scores) -> tuple[np.ndarray, np.ndarray]:
    """`target` as booleans and `scores` as floats, of one shape, without NaN.

    Raises
    ------
    PermafrostError : values other than 0 and 1 in `target`, different shapes, NaN, no samples.
    """
    target, scores = np.asarray(target), _float_scores(scores)
    if target.shape != scores.shape:
        raise PermafrostError(
            f"target has the shape {target.shape}, scores {scores.shape}", remedy=_REMEDY
        )
    if target.dtype != bool:
        positive = target == 1
        if not np.array_equal(positive, target != 0):
            raise PermafrostError("a multi-label target holds only 0 and 1", remedy=_REMEDY)
        target = positive
    _same_length(target, scores, "scores")
    return target, scores


def _float_scores(scores) -> np.ndarray:
    """`scores` as a float array; refuses NaN, which has no rank."""
    scores = np.asarray(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if np.isnan(scores).any():
        raise PermafrostError("the scores hold NaN", remedy=_REMEDY)
    return scores


def _same_length(target: np.ndarray, other: np.ndarray, what: str) -> None:
    """Refuse arrays of different lengths, or of length 0."""
    if len(target) != len(other):
        raise PermafrostError(
            f"target has {len(target)} samples, {what} {len(other)}", remedy=_REMEDY
        )
    if len(target) == 0:
        raise PermafrostError("there are no samples to score", remedy=_REMEDY)
