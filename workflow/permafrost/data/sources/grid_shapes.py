"""Files of polygons: extents to use, and classes to rasterise into tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.members import Members
from permafrost.data.files.vectors import FORMATS, read_vectors
from permafrost.data.files.windows import Window
from permafrost.data.sources.grid_layout import Grid


@dataclass(frozen=True)
class Shapes:
    """(N,) polygons in pixels of a grid, and the attribute of each; None without an attribute."""

    polygons: np.ndarray
    values: np.ndarray | None


def read_shapes(
    members: Members, name: str, grid: Grid, attribute: str | None, *, where: object
) -> Shapes:
    """The polygons of a single-layer GeoPackage, GeoJSON, Shapefile or FlatGeobuf, in pixels of the grid.

    Raises
    ------
    PermafrostError : damaged, lacks a coordinate system or the attribute, or holds other shapes
        than polygons.
    """
    try:
        vectors = read_vectors(members, name)
    except ValueError as error:
        raise PermafrostError(
            f"{name} is not a readable file of shapes ({first_line(error)})",
            where=where,
            remedy=f"give {FORMATS} with one layer",
        ) from error
    shapes, names = vectors.shapes, list(vectors.fields)
    if vectors.crs is None:
        raise PermafrostError(
            f"{name} has no coordinate system", where=where, remedy="write it into the file"
        )
    if attribute is not None and attribute not in names:
        raise PermafrostError(
            f"{name} has no attribute {attribute!r}, only {', '.join(names) or 'none'}",
            where=where,
            remedy="correct attribute in source",
        )
    there = ~(shapely.is_missing(shapes) | shapely.is_empty(shapes))
    kinds = set(shapely.get_type_id(shapes[there]).tolist())
    if not there.any() or not kinds <= {3, 6}:
        raise PermafrostError(
            f"{name} holds " + ("shapes that are not polygons" if there.any() else "no shapes"),
            where=where,
            remedy="give polygons, e.g. lines with a buffer",
        )
    values = None if attribute is None else vectors.fields[attribute][there]
    return Shapes(_in_pixels(shapes[there], vectors.crs, grid, name, where), values)


def _in_pixels(shapes: np.ndarray, crs: str, grid: Grid, name: str, where: object) -> np.ndarray:
    from rasterio.warp import transform

    def moved(points: np.ndarray) -> np.ndarray:
        x, y = transform(crs, grid.crs, *points.T)
        return np.stack(
            [(np.array(x) - grid.left) / grid.step[0], (grid.top - np.array(y)) / grid.step[1]],
            axis=1,
        )

    try:
        found = shapely.transform(shapes, moved)
        # polygons only: a collapsed line has no pixels
        return shapely.make_valid(found, method="structure", keep_collapsed=False)
    except Exception as error:
        raise PermafrostError(
            f"{name} cannot be reprojected to {grid.crs} ({first_line(error)})",
            where=where,
            remedy="declare a crs that covers all of it",
        ) from error


class Burnt:
    """Rasterised class ids: a pixel has the class of the last polygon that contains its centre.

    Parameters
    ----------
    ids : (N,) class id of each polygon.
    background : id of pixels outside all polygons.
    """

    def __init__(self, polygons: np.ndarray, ids: Sequence[int], background: int) -> None:
        self._polygons, self._ids, self._background = polygons, ids, background
        self._tree = shapely.STRtree(polygons)

    def read(self, window: Window) -> np.ndarray:
        """(H, W) class ids."""
        from rasterio.features import rasterize

        shape = (window.height, window.width)
        found = np.sort(self._tree.query(shapely.box(*window.bounds)))
        if not len(found):
            return np.full(shape, self._background, np.int32)
        # units are pixels, and the grid's rows run downwards like the pixel rows
        return rasterize(
            [(self._polygons[i], self._ids[i]) for i in found],
            out_shape=shape,
            transform=(1.0, 0.0, window.x, 0.0, 1.0, window.y),
            fill=self._background,
            dtype=np.int32,
        )
