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
    "regression": ("r2", "rmse", "mae"),
    "pixel_regression": ("r2", "rmse", "mae"),
    "detection": (
        "AP",
        "AP50",
        "AP75",
        "APs",
        "APm",
        "APl",
        "AR1",
        "AR10",
        "AR",
        "ARs",
        "ARm",
        "ARl",
        "box_recall",
        "box_precision",
        "box_f1",
    ),
    "point_detection": (
        "point_ap",
        "point_recall",
        "point_precision",
        "point_f1",
        "count_mae",
    ),
    # and recall_at_k, hit_at_k for every k that was asked for
    "retrieval": ("mean_ap",),
}
PER_CLASS = {
    "classification": ("recall", "precision"),
    "multilabel": ("average_precision",),
    "segmentation": ("iou", "boundary_iou"),
    "regression": (),
    "pixel_regression": (),
    "detection": ("class_AP", "class_AP50"),
    "point_detection": ("class_point_ap",),
    "retrieval": (),
}
PRIMARY = {
    "classification": "accuracy",
    "multilabel": "micro_ap",
    "segmentation": "mean_iou",
    "regression": "r2",
    "pixel_regression": "r2",
    "detection": "AP",
    "point_detection": "point_ap",
    "retrieval": "mean_ap",
}
# tasks of probes, for which no dataset is made
OF_PROBES = frozenset({"retrieval"})
# measured only where a probe gives probabilities, and asked for by the configuration
CALIBRATION_ERRORS = (
    "expected_calibration_error",
    "rms_calibration_error",
    "maximum_calibration_error",
)
BRIER = "brier_score"
TEMPERATURE = "temperature"
# suffix of what is measured after temperature scaling
SCALED = "_scaled"
CALIBRATION = (
    *CALIBRATION_ERRORS,
    BRIER,
    TEMPERATURE,
    *(f"{name}{SCALED}" for name in (*CALIBRATION_ERRORS, BRIER)),
)
# tasks whose probes can give probabilities
CALIBRATED_TASKS = frozenset({"classification", "multilabel"})
LOWER_IS_BETTER: frozenset[str] = frozenset(
    {"rmse", "mae", "count_mae", *(name for name in CALIBRATION if name != TEMPERATURE)}
)
# neither more nor less is better: no backbone is ranked by it
UNRANKED: frozenset[str] = frozenset({TEMPERATURE})
# sizes of gaps, which chance makes larger: resamples move them up (see `statistics.resampling.intervals`)
OF_GAPS = frozenset(name for name in CALIBRATION if name.startswith(CALIBRATION_ERRORS))
# read from curves over a ranking: resamples move them to one side (see `statistics.resampling.intervals`)
OF_CURVES = frozenset(
    {
        *(name for name in OVERALL["detection"] if name.startswith("A")),
        *PER_CLASS["detection"],
        "point_ap",
        *PER_CLASS["point_detection"],
    }
)
# without an upper bound, but never below 0: their intervals are formed on the logarithm
POSITIVE = frozenset({"rmse", "mae", "count_mae", TEMPERATURE, BRIER, f"{BRIER}{SCALED}"})
# without a lower bound
BELOW_ONE = frozenset({"r2"})
# few positives make them too high on average: their intervals are moved by the bias
BIASED = frozenset({"macro_ap", "average_precision"})
# measured only where a probe was asked to count boundaries
BOUNDARY = frozenset({"mean_boundary_iou", "boundary_iou"})


def overall_metrics(
    task: str, classes: int, *, boundary: bool = False, calibration: bool = False
) -> tuple[str, ...]:
    """Names of the metrics that give one number for a test set of `classes` classes.

    Parameters
    ----------
    boundary : whether boundaries were counted; only ``segmentation`` has metrics of them.
    calibration : whether probabilities were judged; only `CALIBRATED_TASKS` have metrics of them.
    """
    check_task(task)
    left_out = set() if boundary else set(BOUNDARY)
    if classes <= TOP_K:
        left_out.add("top5_accuracy")
    judged = CALIBRATION if calibration and task in CALIBRATED_TASKS else ()
    return (*(name for name in OVERALL[task] if name not in left_out), *judged)


def class_metrics(task: str, *, boundary: bool = False) -> tuple[str, ...]:
    """Names of the metrics that give one number per class; arguments as `overall_metrics`."""
    check_task(task)
    return tuple(name for name in PER_CLASS[task] if boundary or name not in BOUNDARY)


def check_task(task: str) -> None:
    """Refuse a task without metrics."""
    if task not in OVERALL:
        raise PermafrostError(f"no metrics for the task {task!r}", remedy=near_names(task, OVERALL))
