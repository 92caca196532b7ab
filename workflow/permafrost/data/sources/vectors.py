"""Kind ``vectors``: georeferenced images with objects in files of shapes, one per image or one for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.options import LeftOut, Text
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.georeference import Georeference
from permafrost.data.files.members import Members, folder_prefix, open_members
from permafrost.data.files.vectors import (
    FORMATS,
    Vectors,
    footprint,
    in_pixels,
    in_system,
    is_shapes,
    parts_of_shapefiles,
    read_vectors,
)
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.common import Rename, renamed
from permafrost.data.sources.corners import without_holes
from permafrost.data.sources.options import Clipped, PairedObjects, Renamed
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import member_place, member_size

SHAPES = Companions("shapes", "file of shapes", ("geojson", "gpkg", "shp", "fgb"))
_POLYGONS = (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)
_POINTS = (shapely.GeometryType.POINT, shapely.GeometryType.MULTIPOINT)
_NO_SYSTEM = "write the coordinate system into the file, or set coordinates: pixels in source if its numbers are pixels"


@dataclass(frozen=True, kw_only=True)
class VectorsOptions(PairedObjects, Clipped, Renamed):
    """Polygons or points in GeoPackages, GeoJSON, Shapefiles or FlatGeobuf, in map coordinates of any
    coordinate system, on georeferenced images.
    """

    images: Text = "images"
    """Location of the images, as for voc."""
    shapes: Text = "shapes"
    """Location of the files, as in images; or one file whose shapes lie on all images, such as
    crowns.gpkg. Of one file, an image has the shapes that overlap it."""
    layer: LeftOut[Text] = None
    """Layer to read of a file with several."""
    attribute: LeftOut[Text] = None
    """Attribute with the class. Without it, all objects have the only class of classes."""
    coordinates: Literal["map", "pixels"] = "map"
    """map: coordinates of the file's coordinate system, which are converted to that of each image.
    pixels: distances from the outer corner of the image, y downwards."""


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for objects without a class, or one file of pixels for all images."""
    options: VectorsOptions = entry.source
    if options.attribute is None and len(entry.classes or ()) != 1:
        raise PermafrostError(
            "the class of the shapes is undefined",
            where=where,
            remedy="name the attribute with attribute in source, or list one class under classes",
        )
    if options.coordinates == "pixels" and _is_one_file(options):
        raise PermafrostError(
            f"{options.shapes} holds the shapes of all images, so its coordinates cannot be pixels",
            where=where,
            remedy="give a file for each image, or map coordinates",
        )


def open_vectors(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with polygons, or points for point_detection.

    For a polygon with holes, the area excludes them, and lines join them to the outer ring of the outline. Invalid
    polygons are repaired, as for tiles.
    """
    options: VectorsOptions = entry.source
    members = open_members(options.path, where=where)
    one_file = folder_prefix(options.root) + options.shapes if _is_one_file(options) else None
    pairs = pair_files(
        members,
        options,
        None if one_file else SHAPES,
        optional=options.missing == "empty",
        known={*parts_of_shapefiles(members.names), one_file},
        where=where,
    )
    reader = _Reader(members, entry, one_file, where)
    images = [reader.image(pair) for pair in pairs]
    if one_file and pairs and not any(image.found or image.problems for image in images):
        raise PermafrostError(
            f"no shape of {one_file} lies on an image",
            where=where,
            remedy="correct its coordinate system, or that of the images",
        )
    return ObjectSource(entry, members, images, where=where, clip=options.clip_boxes)


def _is_one_file(options: VectorsOptions) -> bool:
    return "<" not in options.shapes and is_shapes(options.shapes)


class _Placed(NamedTuple):
    """Features of a file that lie on an image: their numbers from 0, and shapes in its pixels."""

    vectors: Vectors
    rows: np.ndarray
    shapes: np.ndarray


class _Reader:
    """Reads the objects of images.

    Parameters
    ----------
    one_file : the file of all images; None if each has its own.
    """

    def __init__(
        self, members: Members, entry: DatasetEntry, one_file: str | None, where: object
    ) -> None:
        self._members, self._options, self._one_file = members, entry.source, one_file
        self._convert = entry.convert
        self._points = targets_of(entry.task).points
        self._only = (entry.classes or [""])[0]
        self._rename: Rename = renamed(self._options.label_values)
        self._near: Callable[[str], tuple[Vectors, shapely.STRtree]] = cache(self._indexed)
        if one_file:
            try:
                self._shared = self._read(one_file)
            except UnreadableImage as failure:
                raise PermafrostError(
                    f"{one_file} {failure}", where=where, remedy=failure.remedy
                ) from failure

    def image(self, pair: Pair) -> Annotated:
        """The objects of an image."""
        split, name = pair.parts.get("split"), pair.image
        try:
            size = member_size(self._members, name, self._convert)
            file = self._one_file or pair.companion
            if file is None:
                return Annotated(name, [], size, split)
            place = self._place(name, size)
            name = name if self._one_file else file
            placed = self._overlapping(place) if self._one_file else self._own(file, place)
            found = self._found(file, placed)
        except UnreadableImage as failure:
            return Annotated(
                pair.image, [], split=split, problems=[f"{name}: {failure}"], remedy=failure.remedy
            )
        return Annotated(pair.image, found, size, split)

    def _place(self, name: str, size: tuple[int, int]) -> Georeference:
        if self._options.coordinates == "pixels":
            return Georeference(transform=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0), size=size)
        place = member_place(self._members, name)
        if place.transform is None or place.crs is None:
            raise UnreadableImage(
                "has no georeference with a coordinate system, so shapes in map coordinates have no place in it",
                remedy="give georeferenced TIFF, or set coordinates: pixels in source if the shapes are in pixels",
            )
        return place

    def _read(self, file: str) -> Vectors:
        """A file with usable shapes: of the kind of the task, repaired, in a known coordinate system."""
        try:
            vectors = read_vectors(self._members, file, self._options.layer)
        except ValueError as error:
            raise UnreadableImage(
                f"is not a readable file of shapes ({first_line(error)})",
                remedy=f"give {FORMATS} with one layer, or name one with layer in source",
            ) from error
        in_map = self._options.coordinates == "map"
        if in_map and vectors.crs is None:
            raise UnreadableImage("has no coordinate system", remedy=_NO_SYSTEM)
        attribute = self._options.attribute
        # without features, GeoJSON has no attributes
        if attribute is not None and len(vectors) and attribute not in vectors.fields:
            known = ", ".join(vectors.fields) or "none"
            raise UnreadableImage(
                f"has no attribute {attribute!r}, only {known}",
                remedy="correct attribute in source",
            )
        return replace(vectors, shapes=self._usable(vectors))

    def _usable(self, vectors: Vectors) -> np.ndarray:
        """The shapes, repaired; None for features without one, a point for polygons without area."""
        shapes = np.where(shapely.is_empty(vectors.shapes), None, vectors.shapes)
        wanted = _POINTS if self._points else _POLYGONS
        odd = ~np.isin(shapely.get_type_id(shapes), wanted) & ~shapely.is_missing(shapes)
        if odd.any():
            row = int(np.flatnonzero(odd)[0])
            what = "points" if self._points else "polygons"
            raise UnreadableImage(
                f"feature {row + 1} is a {shapes[row].geom_type}, and the task needs {what}",
                remedy="correct the task; or give polygons, such as points and lines with a buffer"
                if not self._points
                else "correct the task; or give points, such as the centroids of polygons",
            )
        broken = ~shapely.is_valid(shapes) & ~shapely.is_missing(shapes)
        given = shapes.copy()
        shapes[broken] = shapely.make_valid(
            shapes[broken], method="structure", keep_collapsed=False
        )
        for row in np.flatnonzero(shapely.is_empty(shapes)):
            shapes[row] = shapely.points(shapely.get_coordinates(given[row])[0])
        return shapes

    def _own(self, file: str, place: Georeference) -> _Placed:
        """The shapes of the file of an image."""
        vectors = self._read(file)
        there = np.flatnonzero(~shapely.is_missing(vectors.shapes))
        if self._options.coordinates == "map":
            moved = in_system(vectors, str(place.crs))
            lost = shapely.is_missing(moved.shapes[there])
            if lost.any():
                row = int(there[lost][0])
                raise UnreadableImage(
                    f"feature {row + 1} has no place in {str(place.crs)[:60]}, the coordinate system of its image",
                    remedy=f"correct the coordinate system of the file, {str(vectors.crs)[:60]}",
                )
            vectors = moved
        return _Placed(vectors, there, in_pixels(vectors.shapes[there], place))

    def _indexed(self, crs: str) -> tuple[Vectors, shapely.STRtree]:
        vectors = in_system(self._shared, crs)
        return vectors, shapely.STRtree(vectors.shapes)

    def _overlapping(self, place: Georeference) -> _Placed:
        """The shapes of the one file that overlap an image; points on its far edges belong to the next."""
        vectors, tree = self._near(str(place.crs))
        rows = np.sort(tree.query(footprint(place)))
        shapes = in_pixels(vectors.shapes[rows], place)
        height, width = place.size
        if self._points:
            inside = [_any_inside(one, width, height) for one in shapes]
        else:
            frame = shapely.box(0, 0, width, height)
            inside = shapely.area(shapely.intersection(shapes, frame)) > 0
        kept = np.asarray(inside, bool)
        return _Placed(vectors, rows[kept], shapes[kept])

    def _found(self, file: str, placed: _Placed) -> list[Found]:
        attribute = self._options.attribute
        make = _point_shapes if self._points else _polygon_shapes
        found = []
        for row, shape in zip(placed.rows.tolist(), placed.shapes, strict=True):
            which = f"feature {row + 1}"
            stated = self._only
            if attribute is not None:
                stated = _text(placed.vectors.fields[attribute][row], attribute, which)
            label = self._rename(stated, which)
            if label is not None:
                where = f"{file}: {which}"
                found += [Found(label=label, where=where, **one) for one in make(shape)]
        return found


def _text(value, attribute: str, which: str) -> str:
    if value is None or value != value or not str(value).strip():
        raise UnreadableImage(f"{which} has no {attribute}", remedy="complete the attribute")
    # files keep whole numbers with empty cells as floats
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value).strip()


def _any_inside(shape, width: int, height: int) -> bool:
    points = shapely.get_coordinates(shape)
    return bool(((points >= 0) & (points < (width, height))).all(axis=1).any())


def _point_shapes(shape) -> Sequence[dict]:
    return [{"box": [*point, *point]} for point in shapely.get_coordinates(shape).tolist()]


def _polygon_shapes(shape) -> Sequence[dict]:
    """Box, area and rings of a polygon of one part or several; a box without area for a point."""
    if shape.geom_type == "Point":
        return _point_shapes(shape)
    rings = [without_holes(part) for part in shapely.get_parts(shape)]
    box = shapely.bounds(shape).tolist()
    return [{"box": box, "area": float(shapely.area(shape)), "polygon": rings}]
