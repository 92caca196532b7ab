"""The metrics of each task, by the names they have in the score tables."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError, near_names

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
    "segmentation": (
        "mean_iou",
        "frequency_weighted_iou",
        "pixel_accuracy",
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "mean_boundary_iou",
    ),
}
PER_CLASS = {
    "classification": ("recall", "precision"),
    "multilabel": ("average_precision",),
    "segmentation": ("iou", "boundary_iou"),
}
PRIMARY = {"classification": "accuracy", "multilabel": "micro_ap", "segmentation": "mean_iou"}
LOWER_IS_BETTER: frozenset[str] = frozenset()
# measured only where a probe was asked to count boundaries
BOUNDARY = frozenset({"mean_boundary_iou", "boundary_iou"})


def overall_metrics(task: str, classes: int, *, boundary: bool = False) -> tuple[str, ...]:
    """Names of the metrics that give one number for a test set of `classes` classes.

    Parameters
    ----------
    boundary : whether boundaries were counted; only ``segmentation`` has metrics of them.
    """
    check_task(task)
    left_out = set() if boundary else set(BOUNDARY)
    if classes <= TOP_K:
        left_out.add("top5_accuracy")
    return tuple(name for name in OVERALL[task] if name not in left_out)


def class_metrics(task: str, *, boundary: bool = False) -> tuple[str, ...]:
    """Names of the metrics that give one number per class; arguments as `overall_metrics`."""
    check_task(task)
    return tuple(name for name in PER_CLASS[task] if boundary or name not in BOUNDARY)


def check_task(task: str) -> None:
    """Refuse a task without metrics."""
    if task not in OVERALL:
        raise PermafrostError(f"no metrics for the task {task!r}", remedy=near_names(task, OVERALL))
