"""Every metric of a task at once, by the name it has in the score tables."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError, near_names

from .accuracy import accuracy, balanced_accuracy
from .average_precision import micro_average_precision, per_class_average_precision
from .confusion import class_counts
from .per_class import divide, macro_means, mean_of_defined
from .topk import top_k_accuracy

# with k classes or fewer, top-k accuracy is 1 whatever is predicted: no row is made of it
TOP_K = 5
OVERALL = {
    "classification": (
        "accuracy",
        "balanced_accuracy",
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "top5_accuracy",
    ),
    "multilabel": ("micro_ap", "macro_ap"),
}
PER_CLASS = {"classification": ("recall", "precision"), "multilabel": ("average_precision",)}
PRIMARY = {"classification": "accuracy", "multilabel": "micro_ap"}
LOWER_IS_BETTER: frozenset[str] = frozenset()


def overall_metrics(task: str, classes: int) -> tuple[str, ...]:
    """Names of the metrics that give one number for a test set of `classes` classes."""
    check_task(task)
    return tuple(name for name in OVERALL[task] if name != "top5_accuracy" or classes > TOP_K)


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
    if task not in OVERALL:
        raise PermafrostError(f"no metrics for the task {task!r}", remedy=near_names(task, OVERALL))


def check_width(scores, classes: int) -> None:
    """Scores have one column per class of the dataset, seen in training or not."""
    shape = np.shape(scores)
    if len(shape) != 2 or shape[1] != classes:
        raise PermafrostError(
            f"the scores have the shape {shape}, but there are {classes} classes",
            remedy="write one column per class of the dataset's card",
        )
