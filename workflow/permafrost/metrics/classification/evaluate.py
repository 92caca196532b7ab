"""Every metric of a classification task at once, by the name it has in the score tables."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.classification.accuracy import accuracy, balanced_accuracy
from permafrost.metrics.classification.average_precision import (
    micro_average_precision,
    per_class_average_precision,
)
from permafrost.metrics.classification.confusion import class_counts
from permafrost.metrics.classification.topk import top_k_accuracy
from permafrost.metrics.ratios import divide, macro_means, mean_of_defined
from permafrost.metrics.tasks import TOP_K, overall_metrics

TASKS = ("classification", "multilabel")


def evaluate(target, prediction, scores, *, task: str, classes: int) -> dict:
    """All metrics of `task` on a whole test set.

    Parameters
    ----------
    target, prediction : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel``.
    scores : (N, K) or (N, L).
    classes : K or L.

    Returns
    -------
    Metric name to a float, then metric name to a (K,) array for the metrics per class; what is
    undefined is NaN.
    """
    check_task(task)
    check_width(scores, classes)
    if task == "multilabel":
        each = per_class_average_precision(target, scores)
        return {
            "micro_ap": micro_average_precision(target, scores),
            "macro_ap": float(mean_of_defined(each)),
            "average_precision": each,
        }
    hits, targets, predictions = class_counts(target, prediction, classes)
    values = {
        "accuracy": accuracy(target, prediction),
        "balanced_accuracy": balanced_accuracy(target, prediction),
        **{name: float(mean) for name, mean in macro_means(hits, targets, predictions).items()},
    }
    if "top5_accuracy" in overall_metrics(task, classes):
        values["top5_accuracy"] = top_k_accuracy(target, scores, TOP_K)
    values["recall"] = divide(hits, targets)
    values["precision"] = divide(hits, predictions)
    return values


def check_task(task: str) -> None:
    """Refuse a task without classification metrics."""
    if task not in TASKS:
        raise PermafrostError(
            f"no classification metrics for the task {task!r}", remedy=near_names(task, TASKS)
        )


def check_width(scores, classes: int) -> None:
    """Scores have one column per class of the dataset, seen in training or not."""
    shape = np.shape(scores)
    if len(shape) != 2 or shape[1] != classes:
        raise PermafrostError(
            f"the scores have the shape {shape}, but there are {classes} classes",
            remedy="write one column per class of the dataset's card",
        )
