"""Kind ``deepforest``: images with objects in a CSV in DeepForest's format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError
from permafrost.core.options import LeftOut, Text
from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.deepforest.columns import Columns, csv_columns
from permafrost.data.deepforest.reading import parts_of_images, read_annotations
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.members import open_members
from permafrost.data.labels.geometries import BOX, POINT, POLYGON
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import without_holes
from permafrost.data.sources.options import Clipped, FileOrFiles, ObjectFiles
from permafrost.data.sources.places import ImageNames, annotation_bytes, annotation_files

#: kind of shapes to the tasks that they serve, the usual one first
TASKS = {
    BOX: ("detection",),
    POLYGON: ("detection", "oriented_detection", "instance_segmentation"),
    POINT: ("point_detection",),
}


@dataclass(frozen=True, kw_only=True)
class DeepforestOptions(ObjectFiles, Clipped):
    """A CSV in DeepForest's format, with a line per object: image_path and label, and xmin, ymin,
    xmax, ymax of a box, geometry with a polygon or a point in WKT, or x and y of a point. A line of
    zeros or with an empty shape means that the image has no objects.
    """

    table: FileOrFiles
    """A file, or a mapping of split names to files; "<path>/" at the beginning stands for the value of path."""
    # type checkers take no names of constants
    geometry: Literal["auto", BOX, POLYGON, POINT] = "auto"  # type: ignore[valid-type]
    """Kind of shape to use if a table has several, or to convert to: point takes the centres of
    boxes and the centroids of polygons; auto takes the only kind in the table."""
    split: LeftOut[Text] = None
    """Column that names the split."""
    group_column: LeftOut[Text] = None
    """Column of the group; replaces group."""


def open_deepforest(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with boxes, polygons (WKT) or points.

    A row of zeros or with an empty shape means that its image has no objects. Holes of polygons
    belong neither to the area nor to the outline (`without_holes`).
    """
    options: DeepforestOptions = entry.source
    members = open_members(options.path, where=where)
    places = annotation_files(options.table)
    names = ImageNames(members, options.root, splits=places[0][0] is not None, where=where)
    images: list[Annotated] = []
    for split, place in places:
        columns = csv_columns(annotation_bytes(members, place, where), f"{where}: {place}")
        annotations = read_annotations(columns, "truth", geometry=options.geometry)
        _check_task(annotations, entry.task, where)
        images += _images(annotations, columns, options, split, names)
    return ObjectSource(entry, members, images, where=where, clip=options.clip_boxes)


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for two options with the same meaning."""
    options: DeepforestOptions = entry.source
    for one, other, both in (
        ("group", "group_column", options.group and options.group_column),
        ("split", "table", options.split and isinstance(options.table, dict)),
    ):
        if both:
            raise PermafrostError(
                f"both {one} and {other} say what the {one} of an image is",
                where=where,
                remedy="use one of them",
            )


def _check_task(annotations: Annotations, task: str, where: object) -> None:
    if len(annotations) and task not in TASKS[annotations.kind]:
        geometry = " (or set geometry: point for their middles)" if task in TASKS[POINT] else ""
        raise PermafrostError(
            f"{annotations.where} holds shapes of the kind {annotations.kind}, which are for the task"
            f" {' or '.join(TASKS[annotations.kind])}",
            where=where,
            remedy=f"correct the task{geometry}",
        )


def _images(
    annotations: Annotations,
    columns: Columns,
    options: DeepforestOptions,
    split: str | None,
    names: ImageNames,
) -> list[Annotated]:
    """The images of a table in the order of their first occurrence."""
    splits, groups = (
        {} if column is None else parts_of_images(columns, column, what)
        for column, what in ((options.split, "splits"), (options.group_column, "groups"))
    )
    file = Path(annotations.where).name
    found = _found(annotations, file)
    rows_of = annotations.by_image(annotations.images)
    return [
        names.image(
            image, [found[row] for row in rows], splits.get(image, split), group=groups.get(image)
        )
        for image, rows in zip(annotations.images, rows_of, strict=True)
    ]


def _found(annotations: Annotations, file: str) -> list[Found]:
    if not len(annotations):
        return []
    boxes, areas, polygons = _shapes(annotations)
    return [
        Found(label, box, f"{file}: line {line}", area, False, polygon)
        for label, box, line, area, polygon in zip(
            annotations.label, boxes, annotations.row.tolist(), areas, polygons, strict=True
        )
    ]


def _shapes(annotations: Annotations) -> tuple[list, list, list]:
    """Boxes, areas (None: that of the box) and outlines (None: no outline)."""
    shape, nothing = annotations.shape, [None] * len(annotations)
    if annotations.kind == BOX:
        return shape.tolist(), nothing, nothing
    if annotations.kind == POINT:
        return np.tile(shape, 2).tolist(), nothing, nothing

    outlines = [[without_holes(part) for part in shapely.get_parts(one)] for one in shape]
    return shapely.bounds(shape).tolist(), shapely.area(shape).tolist(), outlines
