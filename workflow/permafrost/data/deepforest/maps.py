"""Tables of crowns from files of shapes (GeoPackage, GeoJSON, Shapefile, FlatGeobuf), in coordinates that they share.

The attributes are the columns of DeepForest's tables: label, image_path, score. The geometry counts; corners that are
attributes, too, are those of another file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.inputs import check_regular
from permafrost.data.deepforest.columns import Columns, read_columns
from permafrost.data.deepforest.shapes import CENTRE, CORNERS, WKT
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.georeference import Georeference, georeference
from permafrost.data.files.opening import open_raster, readable
from permafrost.data.files.vectors import (
    FORMATS,
    Vectors,
    in_pixels,
    in_system,
    is_shapes,
    read_vectors,
)

MAP, PIXELS = "map", "pixels"
IMAGE = "image_path"
_TIFF = (".tif", ".tiff")
_OR_PIXELS = "give --coordinates pixels if its numbers are pixels of the images"
_GIVE_IMAGES = "give the folder of the georeferenced images with --images"


@dataclass(frozen=True)
class Tables:
    """Columns by the names of the sources, and remarks on their coordinates."""

    columns: dict[str, Columns]
    remarks: list[str]


def read_tables(
    sources: Mapping[str, object], *, images: str | Path | None = None, coordinates: str = MAP
) -> Tables:
    """Read tables of crowns whose coordinates are comparable.

    Parameters
    ----------
    sources : name (truth, predictions, …) -> file of shapes, or what `columns.read_columns` reads. The first is the
        one whose coordinate system others are converted to.
    images : folder of georeferenced images. With it, shapes in map coordinates become pixels of the image in
        ``image_path``; without that attribute, of the only TIFF in the folder.
    coordinates : ``map``, or ``pixels`` if the files of shapes hold pixels of the images, y downwards.

    Raises
    ------
    PermafrostError : a file cannot be read or has no coordinate system, an image is missing or not georeferenced,
        map coordinates and pixels without `images`.
    """
    files = {name: _file_of(source) for name, source in sources.items()}
    vectors = {name: _read(path) for name, path in files.items() if path is not None}
    tables = {
        name: read_columns(source, name) for name, source in sources.items() if name not in vectors
    }
    remarks: list[str] = []
    if coordinates == PIXELS:
        tables |= {name: _columns(one, files[name], name) for name, one in vectors.items()}
    elif vectors:
        for name, one in vectors.items():
            if one.crs is None:
                raise PermafrostError(
                    "the file has no coordinate system",
                    where=files[name],
                    remedy=f"write it into the file, or {_OR_PIXELS}",
                )
        if images is not None:
            tables |= {
                name: _on_images(one, Path(images), str(files[name]))
                for name, one in vectors.items()
            }
        else:
            _check_all_maps(tables, next(iter(files[name] for name in vectors)))
            placed, remark = _on_map(vectors, files)
            tables, remarks = tables | placed, [remark]
    return Tables({name: tables[name] for name in sources}, remarks)


def _file_of(source) -> Path | None:
    """The path of a source that is a file of shapes."""
    return Path(source) if isinstance(source, str | Path) and is_shapes(str(source)) else None


def _read(path: Path) -> Vectors:
    check_regular(path)
    try:
        found = read_vectors(None, path)
    except (OSError, ValueError) as error:
        raise PermafrostError(
            f"not a readable file of shapes ({first_line(error)})",
            where=path,
            remedy=f"give {FORMATS} with one layer, or a CSV in DeepForest's format",
        ) from error
    # a feature without a shape says that its image has no crowns
    shapes = np.where(shapely.is_missing(found.shapes), shapely.Polygon(), found.shapes)
    return replace(found, shapes=shapes)


def _columns(vectors: Vectors, path: object, name: str, image: str | None = None) -> Columns:
    """The table of a file; `image` is that of all rows if no attribute names one."""
    idle = {*CORNERS, *CENTRE}
    values = {key: list(column) for key, column in vectors.fields.items() if key not in idle}
    if not len(vectors):
        # without features, GeoJSON has no attributes
        values |= {key: [] for key in (IMAGE, "label")}
    if image is not None:
        values[IMAGE] = [image] * len(vectors)
    values[WKT] = list(vectors.shapes)
    return Columns(values, list(range(1, len(vectors) + 1)), str(path or name), "feature")


def _check_all_maps(tables: dict[str, Columns], path: Path | None) -> None:
    if tables:
        name = next(iter(tables))
        raise PermafrostError(
            f"the {name} are in pixels, and {path} is in map coordinates",
            where=tables[name].where,
            remedy=f"{_GIVE_IMAGES}, or {_OR_PIXELS}",
        )


def _on_map(
    vectors: dict[str, Vectors], files: Mapping[str, Path | None]
) -> tuple[dict[str, Columns], str]:
    """The tables in the coordinate system of the first, from a common origin; and a remark that says so."""
    first, *_ = vectors
    crs = str(vectors[first].crs)
    moved = {name: _whole(in_system(one, crs), files[name], crs) for name, one in vectors.items()}
    _check_points(moved, crs, files[first])
    # a file without features has no place
    lows = [shapely.total_bounds(one.shapes)[:2] for one in moved.values() if len(one)]
    # differences of large numbers are inexact; 1 before all shapes, as a point at 0, 0 means an image without crowns
    origin = np.floor(np.nan_to_num(np.nanmin([*lows, (np.inf, np.inf)], axis=0), posinf=0.0)) - 1
    named = all(IMAGE in one.fields for one in moved.values() if len(one))
    placed = {}
    for name, one in moved.items():
        shapes = shapely.transform(one.shapes, lambda points: points - origin)
        image = None if named else Path(str(files[first])).stem
        placed[name] = _columns(replace(one, shapes=shapes), files[name], name, image)
    whole = "" if named else f"; without {IMAGE} in all files, the whole map is one image"
    return placed, f"coordinates and distances are those of {crs[:60]}{whole}"


def _check_points(vectors: dict[str, Vectors], crs: str, path: object) -> None:
    from rasterio.crs import CRS

    points = any((shapely.get_type_id(one.shapes) == 0).any() for one in vectors.values())
    if points and CRS.from_user_input(crs).is_geographic:
        raise PermafrostError(
            "points in degrees have no distances that can be compared",
            where=path,
            remedy=f"write the file in a projected coordinate system, or {_GIVE_IMAGES}",
        )


def _whole(vectors: Vectors, path: object, crs: str) -> Vectors:
    """The shapes in `crs`; raises `PermafrostError` if one has no place there."""
    lost = shapely.is_missing(vectors.shapes)
    if lost.any():
        raise PermafrostError(
            f"the shape has no place in {crs[:60]}",
            where=f"{path}: feature {int(np.flatnonzero(lost)[0]) + 1}",
            remedy="correct the coordinate system of the file",
        )
    return vectors


def _on_images(vectors: Vectors, images: Path, path: str) -> Columns:
    """The table in pixels of its images."""
    if not len(vectors):
        return _columns(vectors, path, path)
    only = None if IMAGE in vectors.fields else _only_image(images, path)
    names = np.array([only] * len(vectors) if only else vectors.fields[IMAGE], object)
    shapes = vectors.shapes.copy()
    for name in dict.fromkeys(names.tolist()):
        if not isinstance(name, str):
            continue  # a blank cell, which the reader of the table names
        place = _place(images, name)
        rows = np.flatnonzero(names == name)
        there = replace(vectors, shapes=shapes[rows])
        moved = _whole(in_system(there, str(place.crs)), path, str(place.crs))
        shapes[rows] = in_pixels(moved.shapes, place)
    return _columns(replace(vectors, shapes=shapes), path, path, only)


def _only_image(folder: Path, path: str) -> str:
    found = sorted(name for name in os.listdir(folder) if name.lower().endswith(_TIFF))
    if len(found) != 1:
        raise PermafrostError(
            f"the file has no attribute {IMAGE}, and {folder} holds {len(found)} TIFF images, not one",
            where=path,
            remedy=f"add {IMAGE}, or leave out --images to compare on the map",
        )
    return found[0]


def _place(folder: Path, name: str) -> Georeference:
    path = folder / name
    if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder)):
        raise PermafrostError(f"the {IMAGE} {name!r} leads out of the folder", where=folder)
    try:
        with readable(), open_raster(path, "GTiff") as raster:
            place = georeference(raster)
    except UnreadableImage as failure:
        raise PermafrostError(
            f"its georeference cannot be read ({failure})", where=path, remedy=_GIVE_IMAGES
        ) from failure
    if place.crs is None or place.transform is None:
        raise PermafrostError(
            "the image has no georeference with a coordinate system, so shapes in map coordinates have no place in it",
            where=path,
            remedy="give georeferenced GeoTIFF",
        )
    return place
