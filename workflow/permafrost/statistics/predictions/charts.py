"""Details of detections for charts: precision and recall, kinds of errors, and calibration.

Values are plain lists and numbers, for the metadata of a score table; None is undefined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.tasks import targets_of
from permafrost.metrics.detection.analysis.calibration import LOWEST_SCORE, calibrate
from permafrost.metrics.detection.analysis.tide import error_kinds
from permafrost.metrics.detection.axes import RECALL_GRID
from permafrost.metrics.ratios import mean_of_defined

if TYPE_CHECKING:
    from permafrost.statistics.predictions.objects import DetectedObjects
    from permafrost.statistics.replicates.boxes import BoxScores
    from permafrost.statistics.replicates.points import PointScores

IOU_THRESHOLD = 0.5


def detection_charts(predictions: DetectedObjects) -> dict:
    """Charts of a test set's detections.

    Returns
    -------
    ``precision_recall``: ``recall`` and ``precision``, lists of equal length (see
    `precision_recall`). For boxes also ``errors``, with the ``gain`` in AP and the ``counts`` per
    kind (`metrics.detection.analysis.tide`), and ``calibration``, with ``counts``, ``mean_score``,
    ``accuracy``, its interval ``low`` and ``high`` per bin, and the ``expected`` error
    (`metrics.detection.analysis.calibration`); None if no score counts.
    """
    recall, precision = precision_recall(predictions)
    charts = {"precision_recall": {"recall": _plain(recall), "precision": _plain(precision)}}
    if not targets_of(predictions.task).points:
        charts |= {"errors": _errors(predictions), "calibration": _calibration(predictions)}
    return charts


def precision_recall(predictions: DetectedObjects) -> tuple[np.ndarray, np.ndarray]:
    """Recalls (R,), and the best precision at each of them or beyond, (R,), averaged over classes.

    Boxes match at an IoU of 0.5, so the mean of the curve is ``AP50``; points match within the
    dataset's distance, so it is ``point_ap``. Classes without objects are excluded; NaN if all are.
    """
    if targets_of(predictions.task).points:
        once = np.ones((1, len(predictions)), np.int64)
        each = [one.precision(once)[0] for one in cast("PointScores", predictions.scores).rankings]
        return RECALL_GRID, mean_of_defined(np.stack(each))
    evaluation = cast("BoxScores", predictions.scores).evaluation
    axes = evaluation.axes
    at, everything = axes.threshold_index(IOU_THRESHOLD), axes.area_index("all")
    curves = evaluation.precision[at, :, :, everything, -1].T
    return axes.recall_grid, mean_of_defined(np.where(curves == -1, np.nan, curves))


def _errors(predictions: DetectedObjects) -> dict:
    kinds = error_kinds(cast("BoxScores", predictions.scores).evaluation)
    gain = {kind: _plain(value) for kind, value in kinds.gain.items()}
    return {"gain": gain, "counts": {kind: int(count) for kind, count in kinds.counts.items()}}


def _calibration(predictions: DetectedObjects) -> dict | None:
    if not any((each.scores >= LOWEST_SCORE).any() for each in predictions.detections):
        return None
    bins = calibrate(cast("BoxScores", predictions.scores).evaluation)
    names = ("mean_score", "accuracy", "low", "high", "expected")
    return {
        "counts": bins.counts.tolist(),
        **{name: _plain(getattr(bins, name)) for name in names},
    }


def _plain(values):
    """Numbers for JSON, with None for NaN."""
    if np.ndim(values):
        return [_plain(value) for value in np.asarray(values).tolist()]
    return None if np.isnan(values) else float(values)
