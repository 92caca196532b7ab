"""Which module draws the figures of a task, as `core.tasks` says.

A module offers ``chance(material, best)``, the level that the dot plot marks (or None), and
``draw(material, best, folder)``, which returns figures and sentences on what could not be drawn.
"""

from __future__ import annotations

from importlib import import_module

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import TASKS


def task_figures(task: str):
    """The module that draws the figures of `task`."""
    known = {name: about.figures for name, about in TASKS.items() if about.figures}
    if task not in known:
        raise PermafrostError(
            f"the report knows no figures of the task {task!r}",
            remedy=f"correct the task in the dataset's card: {', '.join(known)}",
        )
    return import_module(known[task])
