"""Smallest rectangles around polygons and other sets of points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely

# rectangles whose areas differ by less, as a share, count as equal
_EQUAL = 1e-9


def rectangle_around(points) -> np.ndarray:
    """(4, 2) corners of the smallest rectangle around (P, 2) points, P >= 1.

    One side lies on an edge of the convex hull (Freeman and Shapira 1975). Of equally small ones, that on the
    hull's first edge counts. Points on one line, or in one place, give a rectangle without area.
    """
    points = np.asarray(points, np.float64).reshape(-1, 2)
    origin = points[0]
    hull = shapely.get_coordinates(shapely.convex_hull(shapely.multipoints(points - origin)))
    edges = np.diff(hull, axis=0)
    lengths = np.hypot(*edges.T)
    along = edges[lengths > 0] / lengths[lengths > 0, None]
    if not len(along):
        along = np.array([[1.0, 0.0]])
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    spans = [hull @ axes.T for axes in (along, across)]
    (left, right), (low, high) = ((each.min(axis=0), each.max(axis=0)) for each in spans)
    area = (right - left) * (high - low)
    best = int(np.argmax(area <= area.min() * (1 + _EQUAL)))
    ends = [(left, low), (right, low), (right, high), (left, high)]
    corners = [a[best] * along[best] + b[best] * across[best] for a, b in ends]
    return origin + np.array(corners)


def rectangle_of_polygon(polygon: Sequence[Sequence[float]]) -> list[list[float]]:
    """The smallest rectangle around a polygon's rings ``[x0, y0, x1, y1, …]``, as one ring of eight numbers.

    A ring of eight numbers that is a rectangle up to 0.1 pixels keeps its corners.
    """
    points = np.concatenate([np.asarray(ring, np.float64).reshape(-1, 2) for ring in polygon])
    found = rectangle_around(points)
    if len(points) == 4 and all(np.hypot(*(found - point).T).min() < 0.1 for point in points):
        return [points.reshape(-1).tolist()]
    return [found.reshape(-1).tolist()]
