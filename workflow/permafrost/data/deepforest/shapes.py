"""Read boxes, polygons and points from table columns, and convert one kind to another."""

from __future__ import annotations

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.deepforest.annotations import empty_shapes
from permafrost.data.deepforest.columns import Columns
from permafrost.data.labels.geometries import BOX, POINT, POLYGON

CORNERS = ("xmin", "ymin", "xmax", "ymax")
CENTRE = ("x", "y")
WKT = "geometry"
FARTHEST = 1e7


def read_shapes(
    columns: Columns, wanted: str | None, *, flat: bool = False
) -> tuple[str, np.ndarray, np.ndarray]:
    """The kind of shapes in a table, the shapes, and (N,) bool, True for rows that mark an empty image.

    A row with a blank geometry has the box of its corners. A row with four blank corners has the
    bounding box of its geometry. Both occur if tables of two tools were joined.

    Parameters
    ----------
    wanted : the kind to take if a table holds several; with None there must be one, or all must
        agree. A table that holds only another kind is read as that kind. For boxes, the geometry of
        rows with corners is ignored.
    flat : allow boxes without width or height; a row of zeros then is such a box, not a mark.

    Returns
    -------
    The kind is an empty text for a table without rows whose columns leave it open.

    Raises
    ------
    PermafrostError : no columns of shapes, several kinds, or an invalid value.
    """
    found = _held(columns, wanted, flat)
    if not found:
        raise PermafrostError(
            "there are no columns with shapes",
            where=columns.where,
            remedy="give xmin, ymin, xmax, ymax of boxes, or geometry with WKT, or x, y of points",
        )
    if len(found) > 1 and wanted in found:
        found = {wanted: found[wanted]}
    kind = _only(found, columns)
    shapes, marks = found[kind] if kind else (empty_shapes(BOX), np.zeros(0, bool))
    check_shapes(columns, kind, shapes, marks, flat=flat)
    return kind, shapes, marks


def _held(
    columns: Columns, wanted: str | None, flat: bool
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All kinds of shapes in the table that `wanted` allows, each with its shapes and marks."""
    found = {}
    rows = len(columns.rows)
    drawn = ~_blank(columns, WKT) if WKT in columns.values else np.zeros(rows, bool)
    cornered = np.zeros(rows, bool)
    if set(CORNERS) <= set(columns.values):
        cornered = ~(np.all([_blank(columns, name) for name in CORNERS], axis=0) & drawn)
        boxes, marks = _stacked(columns, CORNERS, cornered)
        found[BOX] = boxes, marks & ~np.bool(flat)
    by_corners = wanted == BOX and BOX in found
    if by_corners and cornered.all():
        return found
    if set(CENTRE) <= set(columns.values):
        found[POINT] = _stacked(columns, CENTRE, np.ones(rows, bool))
    # a blank column of geometry counts only if no other column holds shapes
    if WKT in columns.values and (drawn.any() or not found or not rows):
        boxes = np.flatnonzero(cornered if by_corners else cornered & ~drawn)
        kind, shapes, marks = _from_geometry(columns, boxes, found)
        if BOX in found and not cornered.all():
            _fill_corners(columns, found[BOX], ~cornered, kind, shapes)
        if kind in found:
            _agree(columns, found[kind][0], shapes)
        else:
            found[kind] = (shapes, marks)
    return found


def _only(found: dict, columns: Columns) -> str:
    """The kind to take from a table that holds one kind, or one kind in two forms."""
    if len(found) > 1:
        found = {kind: held for kind, held in found.items() if kind}  # no rows: columns tell
    if set(found) == {BOX, POLYGON} and _are_rectangles(*found[BOX], *found[POLYGON]):
        return BOX
    if len(found) > 1:
        raise PermafrostError(
            f"the table holds several kinds of shapes ({', '.join(sorted(found))})",
            where=columns.where,
            remedy="choose one with geometry (--geometry box, polygon or point)",
        )
    return next(iter(found))


def _blank(columns: Columns, name: str) -> np.ndarray:
    """(N,) bool, True for cells that are None, NaN or empty text."""
    return np.fromiter(
        (
            value is None or not value.strip() if isinstance(value, str | None) else value != value
            for value in columns.values[name]
        ),
        bool,
        len(columns.rows),
    )


def _stacked(
    columns: Columns, names: tuple[str, ...], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shapes and marks of the rows where the (N,) bool `rows` is True; zeros elsewhere."""
    shapes = np.stack([to_numbers(columns, name, rows) for name in names], axis=1)
    return shapes, (shapes == 0).all(axis=1)


def _fill_corners(columns: Columns, held, rows: np.ndarray, kind: str, shapes) -> None:
    """Give `rows` without corners the bounds of their geometry."""
    if kind == POINT:
        columns.refuse(np.flatnonzero(rows), "a point among boxes", "put them into two tables")
    boxes, marks = held
    boxes[rows] = np.nan_to_num(
        shapely.bounds(shapes[rows])
    )  # NaN of an empty one, which is a mark
    marks[rows] = shapely.is_empty(shapes[rows])


def to_numbers(columns: Columns, name: str, rows: np.ndarray | None = None) -> np.ndarray:
    """A column as (N,) float64; only rows where the (N,) bool `rows` is True are read, others are 0.

    Raises
    ------
    PermafrostError : a value is not a finite number; names the row.
    """
    values = columns.values[name]
    try:
        numbers = np.asarray(values, np.float64).reshape(len(values))
    except (ValueError, TypeError):
        numbers = np.array([_number(value) for value in values])
    if rows is not None:
        numbers = np.where(rows, numbers, 0.0)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        columns.refuse(wrong, f"{name} is {values[int(wrong[0])]!r}, not a finite number")
    return numbers


def _number(value) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return float("nan")


def _from_geometry(
    columns: Columns, boxes: np.ndarray, found: dict
) -> tuple[str, np.ndarray, np.ndarray]:
    """Kind, shapes and marks of a column of geometries; the rows at the indices `boxes` use their corners instead."""
    values = columns.values[WKT]
    shapes = np.empty(len(values), object)
    if len(boxes):
        corners, marks = found[BOX]
        check_shapes(
            columns, BOX, corners, ~np.isin(np.arange(len(values)), boxes) | marks, flat=True
        )
        shapes[boxes] = np.where(marks[boxes], shapely.Polygon(), shapely.box(*corners[boxes].T))
    wrong: dict[int, str] = {}
    for index, value in enumerate(values):
        if shapes[index] is not None:
            continue
        try:
            shapes[index] = shapely.from_wkt(value) if isinstance(value, str) else value
            shapely.is_empty(shapes[index])
        except (shapely.errors.ShapelyError, TypeError) as error:
            wrong[index] = f"geometry is not WKT ({first_line(error)})"
            continue
        if not isinstance(shapes[index], shapely.Geometry):
            wrong[index] = "geometry is missing"
    if wrong:
        columns.refuse(wrong, next(iter(wrong.values())))
    marks = shapely.is_empty(shapes)
    types = shapely.get_type_id(shapes)
    points = types == shapely.GeometryType.POINT
    areas = np.isin(types, (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON))
    odd = ~(points | areas | marks)
    if odd.any():
        rows = np.flatnonzero(odd)
        kind = shapes[int(rows[0])].geom_type
        columns.refuse(rows, f"a {kind} is not a crown", "give polygons or points")
    points, areas = points & ~marks, areas & ~marks
    if points.any() and areas.any():
        raise PermafrostError(
            "polygons and points in one column",
            where=columns.place(int(np.flatnonzero(points)[0])),
            remedy="put them into two tables",
        )
    if points.any():
        xy = np.zeros((len(shapes), 2))
        xy[points] = shapely.get_coordinates(shapes[points])
        return POINT, xy, marks | (xy == 0).all(axis=1)
    return (POLYGON if len(shapes) else ""), shapes, marks


def check_shapes(
    columns: Columns, kind: str, shapes: np.ndarray, marks: np.ndarray, *, flat: bool = False
) -> None:
    """Check that coordinates fit an image, that box corners are in order and that polygons are valid.

    With `flat`, boxes may have no area, and so may polygons whose bounding box has none.
    """
    _check_extent(columns, kind, shapes, marks)
    if kind == BOX:
        extent = shapes[:, 2:] - shapes[:, :2]
        wrong = (extent < 0 if flat else extent <= 0).any(axis=1) & ~marks
        if wrong.any():
            rows = np.flatnonzero(wrong)
            columns.refuse(
                rows,
                f"the box {shapes[int(rows[0])].tolist()} has no area or its corners are in the"
                " wrong order",
                "give xmin < xmax and ymin < ymax (not a width and a height)",
            )
    elif kind == POLYGON:
        # an infinite corner makes a polygon invalid too
        wrong = ~(shapely.is_valid(shapes) & (shapely.area(shapes) > 0)) & ~marks
        if flat:
            bounds = shapely.bounds(shapes)
            wrong &= (bounds[:, 2:] > bounds[:, :2]).all(axis=1)
        if wrong.any():
            rows = np.flatnonzero(wrong)
            columns.refuse(
                rows,
                f"the polygon {_fault(shapes[int(rows[0])])}",
                "repair it, for example with shapely.make_valid",
            )


def _fault(polygon) -> str:
    if shapely.is_valid(polygon):
        return "has no area"
    return f"is invalid ({shapely.is_valid_reason(polygon)})"


def _check_extent(columns: Columns, kind: str, shapes: np.ndarray, marks: np.ndarray) -> None:
    """Refuse large coordinates, whose areas would be inexact or infinite."""
    coordinates = shapes
    if kind == POLYGON:
        coordinates = shapely.bounds(shapes)
    far = np.abs(coordinates) > FARTHEST
    wrong = np.flatnonzero(far.any(axis=1) & ~marks)
    if wrong.size:
        columns.refuse(
            wrong,
            f"a coordinate exceeds {FARTHEST:g}, the limit of image coordinates",
            "give pixels of the image, not map coordinates",
        )


def _agree(columns: Columns, stated: np.ndarray, shapes: np.ndarray) -> None:
    """Check that x, y and a geometry of points agree."""
    differ = np.flatnonzero((stated != shapes).any(axis=1))
    if differ.size:
        raise PermafrostError(
            "x, y and geometry name different points", where=columns.place(int(differ[0]))
        )


def _are_rectangles(boxes, box_marks, polygons, polygon_marks) -> bool:
    """Whether the polygons only repeat the boxes, as in DeepForest's predictions."""
    used = ~(box_marks | polygon_marks)
    bounds = shapely.bounds(polygons[used])
    areas = np.prod(bounds[:, 2:] - bounds[:, :2], axis=1)
    return bool(
        np.array_equal(bounds, boxes[used]) and np.allclose(shapely.area(polygons[used]), areas)
    )


def convert(shapes: np.ndarray, kind: str, wanted: str) -> np.ndarray:
    """Convert boxes to rectangles, polygons to bounding boxes, or either to centres (a polygon's centroid)."""
    if wanted == POLYGON:
        return shapely.box(*shapes.T)
    if wanted == BOX:
        return shapely.bounds(shapes)
    if kind == BOX:
        return (shapes[:, :2] + shapes[:, 2:]) / 2
    return shapely.get_coordinates(shapely.centroid(shapes))
