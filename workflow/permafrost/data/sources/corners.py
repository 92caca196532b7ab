"""Conventions of object coordinates: pixel edges, pixel centres, outlines, oriented boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.files.opening import UnreadableImage
from permafrost.data.labels.oriented import corners_of, uncrossed
from permafrost.data.labels.rle import runs_of_raster, text_of

EDGES, ZERO_BASED, ONE_BASED = "edges", "zero_based", "one_based"
#: convention -> shifts that turn the first and last corner into edges
_SHIFTS = {EDGES: (0, 0), ZERO_BASED: (0, 1), ONE_BASED: (-1, 0)}


def box_edges(corners: np.ndarray, convention: str) -> np.ndarray:
    """(N, 4) box edges in pixels from the image's outer corner, from box corners.

    Parameters
    ----------
    corners : (N, 4) ``x_min, y_min, x_max, y_max``.
    convention : ``one_based``: the numbers of the first and last pixels that belong to the box,
        counted from 1, as in Pascal VOC; ``zero_based``: the same counted from 0; ``edges``.
    """
    first, last = _SHIFTS[convention]
    return corners + np.array([first, first, last, last], np.float64)


def point_places(points: np.ndarray, convention: str) -> np.ndarray:
    """(N, 2) points in pixels from the image's outer corner.

    Parameters
    ----------
    convention : ``zero_based`` or ``one_based``: numbers of pixels, meaning their centres;
        ``edges``: distances from the outer corner.
    """
    return points + {EDGES: 0.0, ZERO_BASED: 0.5, ONE_BASED: -0.5}[convention]


def outline_of(points: np.ndarray) -> dict:
    """Box, area and polygon of an object from the points (P, 2) of its outline.

    The first point may be repeated at the end. Four points that cross are put in order, so that an
    oriented box is a quadrilateral of eight numbers in every format.
    """
    points = ring_of(points)
    if len(points) == 4 and np.isfinite(points).all():
        points = uncrossed(points[None])[0][0]
    return {
        "box": [*points.min(axis=0).tolist(), *points.max(axis=0).tolist()],
        "area": outline_area(points),
        "polygon": [points.ravel().tolist()],
    }


def masked(raster: np.ndarray, **place) -> dict:
    """Mask and area of an object from the pixels (H, W) that are true in it; `place` as for `runs_of_raster`."""
    runs = runs_of_raster(raster, **place)
    return {"mask": text_of(runs), "area": float(np.count_nonzero(raster))}


def without_holes(polygon) -> list[float]:
    """A polygon of shapely as one ring ``[x0, y0, …]``, in which lines join its holes to the outer ring.

    The ring follows each line twice, so the lines have no area: the parity of crossings, by which
    COCO's masks are drawn, and the signed area of the ring are those of the polygon with its holes.
    """
    import shapely

    if not len(polygon.interiors):
        return ring_of(shapely.get_coordinates(polygon)).ravel().tolist()
    turned = shapely.geometry.polygon.orient(polygon)
    ring = shapely.get_coordinates(turned.exterior)
    for hole in turned.interiors:
        ring = np.concatenate([ring, shapely.get_coordinates(hole), ring[:1]])
    return ring.ravel().tolist()


def turned_box(numbers: Sequence[float], convention: str, which: str) -> np.ndarray:
    """(4, 2) corners of an oriented box in the convention of `oriented.CONVENTIONS`.

    Raises
    ------
    UnreadableImage : a negative side, or radians that must be degrees; names `which`.
    """
    try:
        return corners_of([list(numbers)], convention)[0]
    except PermafrostError as error:
        # the format of the file has one convention, so that none can be named
        remedy = error.remedy and "write the angle in radians, as the format has it"
        raise UnreadableImage(f"{which}: {error.problem}", remedy=remedy) from error


def four_corners(numbers: Sequence[float], which: str) -> np.ndarray:
    """(4, 2) corners from eight numbers; otherwise as `turned_box`."""
    return turned_box(numbers, "corners", which)


def ring_of(points: np.ndarray) -> np.ndarray:
    """The points (P, 2) of an outline without a last one that repeats the first."""
    return points[:-1] if len(points) > 3 and (points[0] == points[-1]).all() else points


def outline_area(outline: np.ndarray) -> float:
    """Area inside the closed, simple polygon through points (P, 2)."""
    # relative to the first point, to keep precision far from the origin
    x, y = (outline - outline[0]).T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
