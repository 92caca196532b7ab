"""Small selections on tidy score rows (plain dictionaries), shared by figures, page and terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

METRIC_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_precision": "macro precision",
    "macro_recall": "macro recall",
    "macro_f1": "macro F1",
    "top5_accuracy": "top-5 accuracy",
    "recall": "recall",
    "precision": "precision",
    "micro_ap": "micro-AP",
    "macro_ap": "macro-AP",
    "average_precision": "average precision",
    "expected_calibration_error": "expected calibration error",
    "rms_calibration_error": "root mean square calibration error",
    "maximum_calibration_error": "maximum calibration error",
    "brier_score": "Brier score",
    "temperature": "temperature",
    "expected_calibration_error_scaled": "expected calibration error after scaling",
    "rms_calibration_error_scaled": "root mean square calibration error after scaling",
    "maximum_calibration_error_scaled": "maximum calibration error after scaling",
    "brier_score_scaled": "Brier score after scaling",
    "mean_ap": "mean average precision",
    "mean_iou": "mean IoU",
    "frequency_weighted_iou": "frequency-weighted IoU",
    "pixel_accuracy": "pixel accuracy",
    "mean_boundary_iou": "mean boundary IoU",
    "iou": "IoU",
    "boundary_iou": "boundary IoU",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
    "AP": "AP",
    "AP50": "AP50",
    "AP75": "AP75",
    "APs": "AP of small objects",
    "APm": "AP of medium objects",
    "APl": "AP of large objects",
    "AR1": "AR with 1 detection",
    "AR10": "AR with 10 detections",
    "AR": "AR",
    "ARs": "AR of small objects",
    "ARm": "AR of medium objects",
    "ARl": "AR of large objects",
    "box_recall": "box recall",
    "box_precision": "box precision",
    "box_f1": "box F1",
    "point_ap": "point AP",
    "point_recall": "point recall",
    "point_precision": "point precision",
    "point_f1": "point F1",
    "count_mae": "mean absolute error of counts",
    "class_AP": "AP",
    "class_AP50": "AP50",
    "class_point_ap": "point AP",
}


def metric_name(metric: str) -> str:
    """A metric's name in words; a name that is not in the list is shown as it is."""
    return METRIC_NAMES.get(metric, metric.replace("_", " "))


def overall(rows: Iterable[dict], *, primary: bool = True, **where) -> list[dict]:
    """Rows without a class that match `where`; with `primary` only those of the primary metric.

    Rows of single settings are left out, of which the probe's own row is the choice or the mean.
    """
    return [
        row
        for row in rows
        if row["class"] is None
        and row["setting"] is None
        and (row["primary"] or not primary)
        and all(row[key] == value for key, value in where.items())
    ]


def of_metrics(rows: Iterable[dict]) -> list[str]:
    """The metrics of rows, each once, in the order of `METRIC_NAMES`; others follow by name."""
    known = list(METRIC_NAMES)
    return sorted(
        {row["metric"] for row in rows},
        key=lambda name: (known.index(name) if name in METRIC_NAMES else len(known), name),
    )


def distinct(rows: Iterable[dict], column: str) -> list:
    """The values of a column, each once, sorted."""
    return sorted({row[column] for row in rows})


def finite(value) -> bool:
    return value is not None and math.isfinite(value)


def better_first(row: dict) -> tuple:
    """Sorting key: the best value first, values that are not numbers last, then by name."""
    value = row["value"]
    if not finite(value):
        return (1, 0.0, row["backbone"])
    return (0, -value if row["higher_is_better"] else value, row["backbone"])


def mean_value(rows: Iterable[dict]) -> float:
    """Mean over rows of the finite values; NaN where there is none."""
    values = [row["value"] for row in rows if finite(row["value"])]
    return sum(values) / len(values) if values else math.nan


def gates_of(row: dict) -> list[str]:
    """The gates of a score row as a list."""
    return [gate for gate in (row["gates"] or "").split(";") if gate]


def interval_words(row: dict) -> str:
    """How a row's interval was made, e.g. ``95 % interval, 200 resamples of 12 groups``, or ``… over 12 groups``."""
    # leaving out parts in turn draws nothing (`statistics.resampling.jackknife`)
    left_out = row["method"].startswith(("wilson", "jackknife"))
    how = " over" if left_out else f", {row['resamples']} resamples of"
    return f"{100 * row['confidence']:g} % interval{how} {row['n_units']} {row['unit']}s"


def brief_count(count: int) -> str:
    """A count in at most six characters: ``9876``, ``98.8 k``, ``1.2 M``."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= size:
            shown = count / (1000 if letter == "k" else size)
            return f"{shown:.0f} {letter}" if shown >= 100 else f"{shown:.3g} {letter}"
    return str(count)
