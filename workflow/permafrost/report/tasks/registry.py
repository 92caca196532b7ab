"""Which module draws the figures of a task.

A module offers ``chance(material, best)``, the level that the dot plot marks (or None), and
``draw(material, best, folder)``, which returns figures and sentences on what could not be drawn.
"""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.report.tasks import (
    classification,
    detection,
    pixel_regression,
    regression,
    segmentation,
)

TASKS = {
    "classification": classification,
    "multilabel": classification,
    "segmentation": segmentation,
    "regression": regression,
    "pixel_regression": pixel_regression,
    "detection": detection,
    "point_detection": detection,
}


def task_figures(task: str):
    """The module that draws the figures of `task`."""
    if task not in TASKS:
        raise PermafrostError(
            f"the report knows no figures of the task {task!r}",
            remedy=f"correct the task in the dataset's card: {', '.join(TASKS)}",
        )
    return TASKS[task]
