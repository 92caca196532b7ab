"""Read tables in DeepForest's format into checked `Annotations`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.data.deepforest.annotations import Annotations, empty_shapes
from permafrost.data.deepforest.columns import Columns, WrongRows, read_columns
from permafrost.data.deepforest.shapes import convert, read_shapes, to_numbers
from permafrost.data.labels.geometries import GEOMETRIES, POINT

AUTO = "auto"
INVALID = ("error", "drop")


def read_annotations(
    source, what: str, *, geometry: str = AUTO, invalid: str = "error"
) -> Annotations:
    """Read crowns and check every value.

    Parameters
    ----------
    source : see `columns.read_columns`. Columns ``image_path``, ``label``, and one geometry:
        ``xmin, ymin, xmax, ymax`` (boxes); ``geometry`` (WKT or shapely: polygons or points); or
        ``x, y`` (points). ``score`` is optional, others are ignored.
    what : ``truth`` or ``predictions``. In the truth, a row whose coordinates are all 0 (or whose
        polygon is empty) marks an image that was searched and has no crown, as DeepForest writes
        it. In predictions such a row is a box without area; boxes without area are kept but match
        nothing. In the truth they are refused.
    geometry : ``box``, ``polygon`` or ``point`` selects one kind if a table holds several, or
        converts: boxes to rectangles, polygons to their bounding boxes, both to their centres.
        ``auto`` takes the only kind in the table.
    invalid : ``error`` refuses wrong rows; ``drop`` drops and counts them, also predictions without
        area. An image of the truth whose rows are all dropped stays, without crowns.

    Raises
    ------
    PermafrostError : a column is missing or holds something else; corners in the wrong order; an
        invalid polygon; an image marked as empty that has crowns. Messages name the row.
    """
    look_up((*GEOMETRIES, AUTO), geometry, "there is no geometry named")
    look_up(INVALID, invalid, "invalid cannot be")
    columns = read_columns(source, what)
    for name in ("image_path", "label"):
        need_column(columns, name)
    if invalid == "error":
        return _read(columns, what, geometry, flat=what != "truth")
    return _read_valid(columns, what, geometry)


def _read_valid(columns: Columns, what: str, geometry: str) -> Annotations:
    """The valid rows of a table. Each check reports all the rows that it refuses."""
    dropped: dict[str, int] = {}
    lost: list[str] = []
    while True:
        try:
            found = _read(columns, what, geometry, flat=False)
        except WrongRows as error:
            dropped[f"{error.where}: {error.problem}"] = len(error.rows)
            lost += [columns.values["image_path"][row] for row in error.rows]
            columns = columns.without(error.rows)
            continue
        names = [str(name).strip() for name in lost if what == "truth" and not is_blank(name)]
        names = [name for name in names if names_a_file(name)]
        images = tuple(dict.fromkeys([*found.images, *names]))
        return replace(found, images=images, dropped=dropped)


def _read(columns: Columns, what: str, geometry: str, *, flat: bool) -> Annotations:
    """The table's crowns; raises `WrongRows` if some of its rows are wrong."""
    images = read_texts(columns, "image_path")
    if folders := [row for row, name in enumerate(images) if not names_a_file(name)]:
        columns.refuse(
            folders,
            f"the image_path {images[folders[0]]!r} names a folder, not an image",
            "write the image's file",
        )
    kind, shapes, marks = read_shapes(columns, None if geometry == AUTO else geometry, flat=flat)
    if what != "truth" and marks.any():
        columns.refuse(
            np.flatnonzero(marks),
            "the shape has no area",
            "leave it out: an image without predictions needs no row",
        )
    labels = read_texts(columns, "label", optional=marks)
    names = tuple(dict.fromkeys(images))
    number = {name: place for place, name in enumerate(names)}
    image = np.fromiter((number[name] for name in images), np.intp, len(images))
    _check_marks(columns, image, marks)
    found = Annotations(
        kind=kind,
        images=names,
        image=image,
        label=labels,
        score=_scores(columns),
        shape=shapes,
        row=np.asarray(columns.rows, np.int64),
        where=columns.where,
    ).take(~marks)
    return found if geometry == AUTO or not kind else as_kind(found, geometry)


def names_a_file(name: str) -> bool:
    """Whether a path ends in a file name rather than in ``.``, ``..`` or a slash."""
    return name.replace("\\", "/").rpartition("/")[2] not in ("", ".", "..")


def as_kind(annotations: Annotations, kind: str) -> Annotations:
    """The same crowns as another kind of shape, see `read_annotations`; raises `PermafrostError` for points."""
    if annotations.kind == kind:
        return annotations
    if annotations.kind == POINT and len(annotations):
        raise PermafrostError(f"points have no {kind}", where=annotations.where)
    shape = convert(annotations.shape, annotations.kind, kind) if len(annotations) else None
    return replace(annotations, kind=kind, shape=empty_shapes(kind) if shape is None else shape)


def need_column(columns: Columns, name: str) -> None:
    look_up(columns.values, name, "there is no column", where=columns.where)


def read_texts(columns: Columns, name: str, optional=None) -> np.ndarray:
    """A column of names; blank ones are allowed only in the rows of `optional`."""
    texts = np.empty(len(columns.rows), object)
    blanks = []
    for index, value in enumerate(columns.values[name]):
        blank = is_blank(value)
        if blank and (optional is None or not optional[index]):
            blanks.append(index)
        texts[index] = "" if blank else str(value).strip()
    if blanks:
        columns.refuse(blanks, f"{name} is blank")
    return texts


def is_blank(value) -> bool:
    """Whether a cell holds nothing: None, NaN, or no text."""
    return value is None or value != value or not str(value).strip()


def _scores(columns: Columns) -> np.ndarray:
    if "score" not in columns.values:
        return np.full(len(columns.rows), np.nan)
    return to_numbers(columns, "score")


def _check_marks(columns: Columns, image: np.ndarray, marks: np.ndarray) -> None:
    """Refuse an image that is marked as empty and has crowns."""
    both = np.isin(image, image[marks]) & ~marks
    if both.any():
        columns.refuse(
            np.flatnonzero(both),
            "the image has crowns, and also a row of zeros, which means no crowns",
            "delete one of the two",
            leave_out=np.flatnonzero(np.isin(image, image[both]) & marks),
        )


def read_groups(source, name: str, images: tuple[str, ...]) -> list[str | None]:
    """The group of each image, from a column of the truth; None for an image that the truth lacks.

    Raises
    ------
    PermafrostError : no such column, a blank, an image in two groups.
    """
    found = parts_of_images(read_columns(source, "truth"), name, "groups")
    return [found.get(image) for image in images]


def parts_of_images(columns: Columns, name: str, what: str) -> dict[str, str]:
    """The value of a column for each image; all rows of an image must agree.

    Parameters
    ----------
    what : name of the values (groups, splits, …), for messages.

    Raises
    ------
    PermafrostError : no such column, a blank, or an image with two values.
    """
    need_column(columns, name)
    pairs = list(zip(read_texts(columns, "image_path"), read_texts(columns, name), strict=True))
    found: dict[str, str] = {}
    torn = [i for i, (image, part) in enumerate(pairs) if found.setdefault(image, part) != part]
    if torn:
        image, part = pairs[torn[0]]
        columns.refuse(
            torn,
            f"the image {image!r} is in the {what} {found[image]!r} and {part!r}",
            "name one in all rows of an image",
        )
    return found
