"""Objects of any format as oriented boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import area_of, enclosing
from permafrost.data.labels.rectangles import rectangle_of_polygon

if TYPE_CHECKING:
    from permafrost.data.sources.annotated import Annotated, Found

# sides below this, in pixels, are rounding: the object is a line
_THIN = 1e-6


def turned_images(images: Sequence[Annotated], *, where: object) -> list[Annotated]:
    """The images with every object as an oriented box: the smallest rectangle around its outline.

    An object without an outline among others that have one, such as a crowd of COCO, is its upright box.

    Raises
    ------
    PermafrostError : no object has an outline; one that is not a crowd has a mask only, which may lie in any direction.
    """
    every = [one for image in images for one in image.found]
    if every and not any(one.polygon for one in every):
        raise PermafrostError(
            "no object has an outline, so that all oriented boxes would be upright",
            where=where,
            remedy="use the task detection, or annotations with polygons or oriented boxes",
        )
    masked = [one for one in every if one.mask is not None and not one.polygon and not one.crowd]
    if masked:
        raise PermafrostError(
            f"{len(masked)} of {len(every)} objects have a mask without an outline, so the direction of their boxes is"
            f" not known (the first: {masked[0].where})",
            where=where,
            remedy="give polygons for these objects, or use the task detection or instance_segmentation",
        )
    return [replace(image, found=[turned(one) for one in image.found]) for image in images]


def turned(found: Found) -> Found:
    """An object as an oriented box: its corners are the polygon, around which the box lies."""
    x_min, y_min, x_max, y_max = found.box
    polygon = found.polygon or [[x_min, y_min, x_max, y_min, x_max, y_max, x_min, y_max]]
    if not np.isfinite(np.concatenate([np.ravel(ring) for ring in polygon])).all():
        return found._replace(box=(np.nan,) * 4, polygon=None)
    rings = rectangle_of_polygon(polygon)
    corners = np.reshape(rings[0], (1, 4, 2))
    box, area = enclosing(corners)[0], float(area_of(corners)[0])
    if area <= _THIN * np.ptp(corners[0], axis=0).max():
        # as a box without width or height, which is refused or left out
        box = np.tile(corners[0].mean(axis=0), 2)
    return found._replace(box=box.tolist(), polygon=rings, area=area)
