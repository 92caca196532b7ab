"""Oriented boxes: four corners, and the five numbers by which libraries write them.

An oriented box is four corners (4, 2) in float64: pixels of the whole image, x to the right and y down, with the
origin at the outer corner of the first pixel. `Objects` has its enclosing upright box, and the corners as a polygon
of one ring.

Five numbers are ``cx, cy, w, h, angle``: the centre, the lengths of two sides, and the angle from the x axis to the
side of length w. Where y points down, a positive angle turns clockwise on the screen.

=====================  =======  =================  ================  =========================================
convention             unit     positive           angle             w
=====================  =======  =================  ================  =========================================
``le90``               radians  clockwise          [-90°, 90°)       the longer side
``le135``              radians  clockwise          [-45°, 135°)      the longer side
``oc``                 radians  clockwise          (0°, 90°]         the side at this angle (OpenCV from 4.5.1)
``le90-degrees``       degrees  clockwise          as ``le90``
``le135-degrees``      degrees  clockwise          as ``le135``
``oc-degrees``         degrees  clockwise          as ``oc``; what ``cv2.minAreaRect`` returns
``detectron2``         degrees  counter-clockwise  [-90°, 90°)       the longer side (any side when read)
``corners``            eight numbers x1 y1 … x4 y4, as in DOTA
=====================  =======  =================  ================  =========================================

The first three are MMRotate's. Angles outside these ranges, and sides in the other order, are read as what they say;
what is written keeps to the table. Of a square, the side with its angle in [-45°, 45°) counts as the longer one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, look_up

# relative difference below which two areas or sides count as equal: above rounding, below any pixel
_EQUAL = 1e-9
# larger radians are degrees by mistake
_MOST_RADIANS = 2 * np.pi
# pairs of corners whose direction may be that of the smallest rectangle; the first of equals wins
_DIRECTIONS = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3))


@dataclass(frozen=True)
class Convention:
    """How a library writes an oriented box.

    Attributes
    ----------
    columns : numbers of a box.
    degrees : whether angles are degrees, else radians.
    clockwise : whether positive angles turn clockwise on the screen.
    start : least angle that is written, in radians and in the direction of the convention.
    longest : whether w is the longer side; else angles are those of any side, in (0, 90 degrees].
    """

    columns: int = 5
    degrees: bool = False
    clockwise: bool = True
    start: float = -np.pi / 2
    longest: bool = True


CONVENTIONS = {
    "le90": Convention(),
    "le135": Convention(start=-np.pi / 4),
    "oc": Convention(start=0.0, longest=False),
    "le90-degrees": Convention(degrees=True),
    "le135-degrees": Convention(degrees=True, start=-np.pi / 4),
    "oc-degrees": Convention(degrees=True, start=0.0, longest=False),
    "detectron2": Convention(degrees=True, clockwise=False),
    "corners": Convention(columns=8),
}


def convention_named(name: str) -> Convention:
    """The convention of this name; refuses an unknown one with those that exist."""
    look_up(CONVENTIONS, name, "there is no convention of oriented boxes named")
    return CONVENTIONS[name]


def corners_of(boxes, convention: str, *, where: object = "boxes") -> np.ndarray:
    """Corners of oriented boxes.

    Parameters
    ----------
    boxes : (N, 5) cx, cy, w, h, angle; for ``corners`` (N, 8), or (N, 4, 2).
    convention : a name of `CONVENTIONS`.
    where : what an error names, before the number of the box.

    Returns
    -------
    (N, 4, 2) float64. Of five numbers, clockwise on the screen from the corner at (-w/2, -h/2) of the
    unturned box. Eight numbers keep their order, unless the outline crosses itself, see `uncrossed`.

    Raises
    ------
    PermafrostError : a wrong number of columns, numbers that are not finite, a negative side, radians
        beyond a full turn.
    """
    known = convention_named(convention)
    boxes = np.asarray(boxes, np.float64)
    boxes = boxes.reshape(len(boxes), -1) if boxes.size else np.empty((0, known.columns))
    if boxes.shape[1] != known.columns:
        raise PermafrostError(
            f"an oriented box of the convention {convention} has {known.columns} numbers, not {boxes.shape[1]}",
            where=where,
            remedy=f"name the convention of these boxes: {', '.join(CONVENTIONS)}",
        )
    for bad, problem, remedy in faults(boxes, convention):
        _refuse(bad, problem, where, remedy)
    if known.columns == 8:
        return uncrossed(boxes.reshape(-1, 4, 2))[0]
    return _turned(boxes, known)


def faults(boxes: np.ndarray, convention: str) -> Iterator[tuple[np.ndarray, str, str | None]]:
    """Every problem of (N, 5) or (N, 8) numbers as (N,) bool, in words, and with its remedy."""
    known = convention_named(convention)
    finite = np.isfinite(boxes)
    if not finite.all():
        yield ~finite.all(axis=1), "a number of an oriented box is not finite", None
    if known.columns == 8:
        return
    negative = (boxes[:, 2] < 0) | (boxes[:, 3] < 0)
    yield negative, "a side of an oriented box is negative", None
    if not known.degrees:
        yield (
            np.abs(boxes[:, 4]) > _MOST_RADIANS + _EQUAL,
            "an angle in radians is beyond a full turn",
            f"if these are degrees, name the convention {convention}-degrees",
        )


def _turned(boxes: np.ndarray, known: Convention) -> np.ndarray:
    """(N, 4, 2) corners of (N, 5) numbers."""
    x, y, width, height, angle = np.ascontiguousarray(boxes.T)
    cos, sin = _cos_sin(angle if known.clockwise else -angle, known.degrees)
    along = cos * (width / 2), sin * (width / 2)
    across = -sin * (height / 2), cos * (height / 2)
    out = np.empty((len(boxes), 4, 2))
    for axis, centre in enumerate((x, y)):
        one, other = along[axis] + across[axis], along[axis] - across[axis]
        for place, shift in enumerate((-one, other, one, -other)):
            out[:, place, axis] = centre + shift
    return out


def _cos_sin(angle: np.ndarray, degrees: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine; exact at quarter turns of degrees, so that upright boxes stay upright."""
    if not degrees:
        return np.cos(angle), np.sin(angle)
    quarter = np.round(angle / 90)
    rest = np.deg2rad(angle - quarter * 90)
    cos, sin = np.cos(rest), np.sin(rest)
    turn = quarter.astype(np.int64) % 4
    return np.choose(turn, [cos, -sin, -cos, sin]), np.choose(turn, [sin, cos, -sin, -cos])


def _refuse(bad: np.ndarray, problem: str, where: object, remedy: str | None = None) -> None:
    """Refuse the first bad box."""
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise PermafrostError(problem, where=f"{where}: box {place}", remedy=remedy)


def rotated_of(corners, convention: str) -> np.ndarray:
    """The numbers of the smallest rectangle around each quadrilateral.

    A side of the smallest rectangle lies on an edge of the convex hull (Freeman and Shapira 1975). Of
    rectangles with equal areas (to 1e-9 of the area), that of the first edge counts.

    Parameters
    ----------
    corners : (N, 4, 2).
    convention : a name of `CONVENTIONS`; ``corners`` returns the corners as they are, (N, 8).

    Returns
    -------
    (N, 5) float64 cx, cy, w, h, angle, within the ranges of the convention.
    """
    known = convention_named(convention)
    corners = checked(corners)
    if known.columns == 8:
        return corners.reshape(-1, 8)
    centre, sides, angle = _smallest(corners)
    angle, sides = _in_range(angle * (1.0 if known.clockwise else -1.0), sides, known)
    return np.column_stack([centre, sides, np.rad2deg(angle) if known.degrees else angle])


def _smallest(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, 2) centres and (N, 2) sides of the smallest rectangles, and (N,) clockwise angle of the first side."""
    origin = corners[:, :1]
    local = corners - origin
    towards = np.stack([local[:, b] - local[:, a] for a, b in _DIRECTIONS], axis=1)
    length = np.hypot(towards[..., 0], towards[..., 1])
    unit = towards / np.where(length > 0, length, 1)[..., None]
    # a point has no direction, and is an upright box
    unit[length == 0] = (1.0, 0.0)
    across = np.stack([-unit[..., 1], unit[..., 0]], axis=-1)
    # (N, 6, 4) positions of the corners along and across each direction
    spans = [np.einsum("ndk,nck->ndc", axis, local) for axis in (unit, across)]
    low, high = (
        np.stack([end(axis=2) for end in ends], axis=2)
        for ends in ([each.min for each in spans], [each.max for each in spans])
    )
    area = np.where(length > 0, (high - low).prod(axis=2), np.inf)
    least = area.min(axis=1, keepdims=True)
    best = np.argmax(area <= least * (1 + _EQUAL), axis=1)
    row = np.arange(len(corners))
    low, high, unit, across = low[row, best], high[row, best], unit[row, best], across[row, best]
    middle = (low + high) / 2
    centre = origin[:, 0] + unit * middle[:, :1] + across * middle[:, 1:]
    return centre, high - low, np.arctan2(unit[:, 1], unit[:, 0])


def _in_range(angle: np.ndarray, sides: np.ndarray, known: Convention):
    """Angles in the range of the convention, with the sides in its order."""
    quarter = np.pi / 2
    if known.longest:
        width, height = sides.T
        square = np.abs(width - height) <= _EQUAL * np.maximum(width, height)
        across = _wrapped(angle, -quarter / 2, 2 * quarter) >= quarter / 2
        swap = np.where(square, across, height > width)
        angle = _wrapped(np.where(swap, angle + quarter, angle), known.start, 2 * quarter)
    else:
        # in (-90, 90] degrees; a quarter turn leads from the lower half to the upper
        angle = -_wrapped(-angle, -quarter, 2 * quarter)
        swap = angle <= 0
        angle = np.where(swap, angle + quarter, angle)
    return angle, np.where(swap[:, None], sides[:, ::-1], sides)


def _wrapped(angle: np.ndarray, start: float, period: float) -> np.ndarray:
    """Angles in [start, start + period); the remainder of tiny negative numbers is rounded to the period."""
    out = np.mod(angle - start, period) + start
    return np.where(out >= start + period, start, out)


def enclosing(corners) -> np.ndarray:
    """(N, 4) upright boxes x_min, y_min, x_max, y_max around (N, 4, 2) corners."""
    corners = checked(corners)
    out = np.empty((len(corners), 4))
    # corner by corner: faster in NumPy than a minimum over a short axis
    out[:, :2] = out[:, 2:] = corners[:, 0]
    for place in range(1, 4):
        np.minimum(out[:, :2], corners[:, place], out=out[:, :2])
        np.maximum(out[:, 2:], corners[:, place], out=out[:, 2:])
    return out


def area_of(corners) -> np.ndarray:
    """(N,) areas of quadrilaterals (N, 4, 2) that do not cross themselves: half the cross product of the diagonals."""
    corners = checked(corners)
    first, second = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    return np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]) / 2


def uncrossed(corners) -> tuple[np.ndarray, np.ndarray]:
    """Quadrilaterals whose outline does not cross itself, and which of them did.

    Two edges that cross are the diagonals of the four corners' convex hull, so the same corners in another
    order are that hull. DOTA's annotations contain some. A dent (a corner inside the triangle of the others)
    crosses nothing and stays.

    Returns
    -------
    (N, 4, 2) corners and (N,) bool.
    """
    corners = checked(corners)
    first, second = _cross(corners, (0, 1, 2, 3)), _cross(corners, (1, 2, 3, 0))
    out = corners.copy()
    out[first] = corners[first][:, [0, 2, 1, 3]]
    out[second] = corners[second][:, [0, 1, 3, 2]]
    return out, first | second


def _cross(corners: np.ndarray, edges: tuple[int, int, int, int]) -> np.ndarray:
    """(N,) bool: whether the edges (a, b) and (c, d) have a point inside of both in common."""
    a, b, c, d = (corners[:, place] for place in edges)
    apart = np.sign(_side(a, b, c)) * np.sign(_side(a, b, d)) < 0
    return apart & (np.sign(_side(c, d, a)) * np.sign(_side(c, d, b)) < 0)


def _side(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> np.ndarray:
    """(N,) on which side of the lines the points lie, as a signed area."""
    along, to = end - start, point - start
    return along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0]


def checked(corners, *, where: object = "corners") -> np.ndarray:
    """(N, 4, 2) float64; refuses another shape and numbers that are not finite."""
    corners = np.asarray(corners, np.float64)
    if not corners.size:
        return np.empty((0, 4, 2))
    if corners.ndim != 3 or corners.shape[1:] != (4, 2):
        raise PermafrostError(
            f"corners of oriented boxes have the shape (N, 4, 2), not {corners.shape}", where=where
        )
    finite = np.isfinite(corners)
    if not finite.all():
        _refuse(~finite.all(axis=(1, 2)), "a corner is not finite", where)
    return corners


def polygons_of(corners) -> tuple[list[list[float]], ...]:
    """The corners (N, 4, 2) as `Objects.polygons`: each one ring of eight numbers."""
    return tuple([ring] for ring in checked(corners).reshape(-1, 8).tolist())


def corners_of_polygons(polygons: Sequence, *, where: object = "objects") -> np.ndarray:
    """(N, 4, 2) corners of `Objects.polygons` that `polygons_of` made.

    Raises
    ------
    PermafrostError : an object without a polygon, or with one that is not a ring of four corners.
    """
    rings = []
    for place, polygon in enumerate(polygons):
        if not polygon or len(polygon) != 1 or len(polygon[0]) != 8:
            raise PermafrostError(
                "the object is not an oriented box: its polygon must be one ring of four corners",
                where=f"{where}: object {place}",
            )
        rings.append(polygon[0])
    return checked(np.array(rings, np.float64).reshape(-1, 4, 2), where=where)
