"""What a head must know of the shape of objects: a module per shape, and a line in `SHAPES`."""

from __future__ import annotations

from permafrost.core.targets import (
    Boxes,
    InstanceMasks,
    OrientedBoxes,
    Points,
    Targets,
    by_targets,
)
from permafrost.core.tasks import targets_of
from permafrost.probes.detection.shapes.instances import InstanceHead
from permafrost.probes.detection.shapes.oriented import OrientedHead
from permafrost.probes.detection.shapes.points import PointHead
from permafrost.probes.detection.shapes.shape import HeadShape
from permafrost.probes.detection.shapes.upright import UprightHead

UPRIGHT, POINTS, ORIENTED = UprightHead(), PointHead(), OrientedHead()
INSTANCES = InstanceHead()
SHAPES: dict[type[Targets], HeadShape] = {
    Boxes: UPRIGHT,
    Points: POINTS,
    OrientedBoxes: ORIENTED,
    InstanceMasks: INSTANCES,
}


def shape_of(task: str) -> HeadShape:
    """The shape of the objects of a task."""
    found = by_targets(SHAPES, targets_of(task))
    if found is None:
        raise ValueError(f"the task {task} has no objects")
    return found
