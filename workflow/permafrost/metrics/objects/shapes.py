"""How objects of each form of targets are compared: one class per form.

A form is added by a class here and a line in `_SHAPES`; see `probes.detection.shapes` for what a head needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from permafrost.core.targets import (
    Boxes,
    InstanceMasks,
    OrientedBoxes,
    Points,
    Targets,
    by_targets,
)
from permafrost.core.tasks import targets_of
from permafrost.data.labels.geometries import BOX, MASK, ORIENTED, POINT
from permafrost.data.labels.objects import Objects
from permafrost.data.labels.oriented import area_of, corners_of_polygons
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.masks import masks_of_objects
from permafrost.metrics.objects.matching import IOU_THRESHOLD


class ObjectShape:
    """Upright boxes, and base class of the other shapes.

    Attributes
    ----------
    kind : shape by which objects are matched and drawn, see `data.labels.geometries`.
    kernel : name of the kernel of average precision (`metrics.detection.kernels`); None for points, which
        are ranked by distance.
    """

    kind: ClassVar[str] = BOX
    kernel: ClassVar[str | None] = "bbox"

    def of(self, things: Objects | Detected) -> np.ndarray:
        """(N, …) shapes of objects or detections, as `metrics.objects.overlaps.find_pairs` takes them."""
        return things.boxes

    def of_image(self, objects: Objects, size: tuple[int, int]):
        """`of` the objects of an image of (height, width) pixels."""
        return self.of(objects)

    def geometry(self, images: Sequence[Objects] | Sequence[Detected]) -> dict[str, Any]:
        """Fields of `Truths` or `Detections` (`metrics.detection.inputs.tables`) that the kernel needs besides the
        boxes, for the objects or detections of all images in order."""
        return {}

    def areas(self, images: Sequence[Detected]) -> np.ndarray:
        """(D,) areas of the detections of all images, in square pixels."""
        sides = [each.boxes[:, 2:] - each.boxes[:, :2] for each in images]
        return np.concatenate([np.empty((0, 2)), *sides]).prod(axis=1)

    def masks(
        self, objects: Sequence[Objects], detections: Sequence[Detected], sizes: np.ndarray
    ) -> tuple[Masks | None, Masks | None]:
        """The masks of all objects and of all detections of images of `sizes` (N, 2: height, width), if the
        kernel compares masks."""
        return None, None

    def threshold(self, match_distance: float | None) -> float:
        """IoU above which a detection matches an object; for points, the distance in pixels below which."""
        return IOU_THRESHOLD


class PointShape(ObjectShape):
    """Points."""

    kind, kernel = POINT, None

    def of(self, things: Objects | Detected) -> np.ndarray:
        return things.centres

    def threshold(self, match_distance: float | None) -> float:
        return float(match_distance or 0)


class MaskShape(ObjectShape):
    """Masks. Those of objects need the size of their image (`of_image`)."""

    kind, kernel = MASK, "segm"

    def of(self, things: Objects | Detected):
        """The `Masks` of detections."""
        assert isinstance(things, Detected) and things.masks is not None
        return things.masks

    def of_image(self, objects: Objects, size: tuple[int, int]):
        return masks_of_objects([objects], [size])

    def areas(self, images: Sequence[Detected]) -> np.ndarray:
        return self._joined(images).areas().astype(np.float64)

    def masks(self, objects, detections, sizes) -> tuple[Masks, Masks]:
        return masks_of_objects(objects, sizes), self._joined(detections)

    def _joined(self, images: Sequence[Detected]) -> Masks:
        return Masks.joined([Masks.empty([], []), *(self.of(each) for each in images)])


class OrientedShape(ObjectShape):
    """Boxes of any direction: (N, 4, 2) corners."""

    kind, kernel = ORIENTED, "oriented"

    def of(self, things: Objects | Detected) -> np.ndarray:
        if isinstance(things, Objects):
            return corners_of_polygons(things.polygons)
        return np.empty((0, 4, 2)) if things.outlines is None else things.outlines.reshape(-1, 4, 2)

    def geometry(self, images) -> dict[str, Any]:
        return {"corners": self._joined(images)}

    def areas(self, images) -> np.ndarray:
        return area_of(self._joined(images))

    def _joined(self, images) -> np.ndarray:
        return np.concatenate([np.empty((0, 4, 2)), *(self.of(each) for each in images)])


_SHAPES: dict[type[Targets], ObjectShape] = {
    Boxes: ObjectShape(),
    Points: PointShape(),
    OrientedBoxes: OrientedShape(),
    InstanceMasks: MaskShape(),
}


def object_shape(task: str) -> ObjectShape:
    """The shape of a task's objects."""
    found = by_targets(_SHAPES, targets_of(task))
    if found is None:
        raise ValueError(f"the task {task} has no objects")
    return found
