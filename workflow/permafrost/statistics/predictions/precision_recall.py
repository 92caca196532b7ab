"""Precision against recall of detected objects: the curve whose area is an average precision."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.objects.point_precision import RECALL_GRID
from permafrost.metrics.ratios import mean_of_defined
from permafrost.statistics.predictions.objects import DetectedObjects

IOU_THRESHOLD = 0.5


def precision_recall(found: DetectedObjects) -> tuple[np.ndarray, np.ndarray]:
    """Recalls (R,), and the best precision from each of them on, (R,), as the mean over classes.

    Boxes match at an IoU of 0.5, so that the mean of the curve is ``AP50``; points match within the
    dataset's distance, so that it is ``point_ap``. Classes without objects are left out; NaN without any.
    """
    if found.task == "point_detection":
        return RECALL_GRID, mean_of_defined(
            np.stack([one.precision() for one in found.scores.rankings])
        )
    evaluation = found.scores.evaluation
    axes = evaluation.axes
    at, everything = axes.threshold_index(IOU_THRESHOLD), axes.area_index("all")
    curves = evaluation.precision[at, :, :, everything, -1].T
    return axes.recall_grid, mean_of_defined(np.where(curves == -1, np.nan, curves))
