"""Files of polygons: extents to use, and classes to rasterise into tiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.members import Members
from permafrost.data.files.windows import Window
from permafrost.data.sources.grid_layout import Grid

#: ending of a vector file -> its first bytes; other formats could refer to other files and hosts
BEGINNINGS = {
    ".gpkg": b"SQLite format 3\0",
    ".geojson": b"{",
    ".json": b"{",
    ".shp": b"\x00\x00\x27\x0a",
    ".fgb": b"fgb",
}


def is_shapes(name: str) -> bool:
    return name.lower().endswith(tuple(BEGINNINGS))


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
    meta, shapes, fields = _read(members, name, where)
    if meta["crs"] is None:
        raise PermafrostError(
            f"{name} has no coordinate system", where=where, remedy="write it into the file"
        )
    names = meta["fields"].tolist()
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
    values = None if attribute is None else fields[names.index(attribute)][there]
    return Shapes(_in_pixels(shapes[there], meta["crs"], grid, name, where), values)


def _read(members: Members, name: str, where: object):
    import pyogrio

    try:
        check_beginning(members, name)
        layers = pyogrio.list_layers(members.location(name))
        if len(layers) != 1:
            raise ValueError(f"it has {len(layers)} layers, not one")
        meta, _, wkb, fields = pyogrio.raw.read(members.location(name), force_2d=True)
        shapes = shapely.from_wkb(wkb)
    # readers fail on damaged files in many ways
    except Exception as error:
        raise PermafrostError(
            f"{name} is not a readable file of shapes ({first_line(error, named=True)})",
            where=where,
            remedy="give a GeoPackage, GeoJSON, Shapefile (all its files) or FlatGeobuf with one layer",
        ) from error
    return meta, shapes, fields


def check_beginning(members: Members, name: str) -> None:
    """Raise `ValueError` unless a file of shapes is what its ending says, and leads to no other place."""
    ending = name[name.rfind(".") :].lower()
    if ending not in BEGINNINGS:
        raise ValueError(f"{ending} is not a file ending for shapes")
    members.verify(name)
    with members.open(name) as stream:
        beginning = stream.read(64)
        # JSON may begin with a byte order mark and spaces
        if written := ending in (".geojson", ".json"):
            beginning = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not beginning.startswith(BEGINNINGS[ending]):
        raise ValueError(f"it does not begin as {ending} does")
    if written:
        _check_geojson(members.read(name))


def _check_geojson(data: bytes) -> None:
    # a document without these texts need not be parsed; letters may be escaped
    if not any(text in data for text in (b'crs"', b"gdal_", b"\\u")):
        return
    content = json.loads(data)
    if str(content.get("type")).startswith("gdal_"):
        raise ValueError("it is a command for GDAL")
    system = content.get("crs")
    kind = system.get("type") if isinstance(system, dict) else "name"
    if str(kind).lower() not in ("name", "epsg"):
        raise ValueError(f"its coordinate system is a {kind}, not a name")


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
