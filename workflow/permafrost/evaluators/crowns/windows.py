"""The crowns that belong to each window of an image too large to take at once.

The rules are those of DeepForest's ``split_raster``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import Annotations, concatenate
from permafrost.data.geometries import BOX, POINT, POLYGON
from permafrost.data.windows import OVERLAP, SIZE, Window, clip_boxes, cut_windows, tile_name
from permafrost.metrics.objects.overlaps import areas
from permafrost.metrics.ratios import divide

# a crown belongs to a window that shows more than this share of it
VISIBLE = 0.5


def clip_to_window(annotations: Annotations, window: Window) -> tuple[Annotations, np.ndarray]:
    """The crowns that a window shows, in its coordinates.

    Boxes and polygons are cut at the window and kept if more than half of their area remains;
    points, and predictions without area, are kept if they lie in it, edges included (so on a shared edge in both).

    Returns
    -------
    The crowns, and their indices in `annotations`.
    """
    xmin, ymin, xmax, ymax = window.bounds
    shape, origin = annotations.shape, np.array([xmin, ymin], np.float64)
    if annotations.kind == POINT:
        kept = ((shape >= (xmin, ymin)) & (shape <= (xmax, ymax))).all(axis=1)
        moved = shape[kept] - origin
    elif annotations.kind == POLYGON:
        import shapely

        clipped = shapely.intersection(shape, shapely.box(*window.bounds))
        flat = _flat_inside(areas(POLYGON, shape), shapely.bounds(shape), window)
        clipped = np.where(flat, shape, clipped)
        kept = flat | (divide(shapely.area(clipped), areas(POLYGON, shape)) > VISIBLE)
        moved = shapely.transform(clipped[kept], lambda corners: corners - origin)
    else:
        clipped = clip_boxes(shape, np.array(window.bounds, np.float64))
        kept = divide(areas(BOX, clipped), areas(BOX, shape)) > VISIBLE
        kept |= _flat_inside(areas(BOX, shape), shape, window)
        moved = clipped[kept] - np.tile(origin, 2)
    rows = np.flatnonzero(kept)
    return replace(annotations.take(rows), shape=moved), rows


def _flat_inside(area: np.ndarray, bounds: np.ndarray, window: Window) -> np.ndarray:
    """(N,) bool: shapes without area that lie in the window."""
    xmin, ymin, xmax, ymax = window.bounds
    inside = (bounds[:, :2] >= (xmin, ymin)) & (bounds[:, 2:] <= (xmax, ymax))
    return (area == 0) & inside.all(axis=1)


def cut_annotations(
    annotations: Annotations,
    sizes: dict[str, tuple[int, int]],
    *,
    size: int = SIZE,
    overlap: float = OVERLAP,
) -> tuple[Annotations, np.ndarray]:
    """Crowns of whole images to crowns of windows; each window becomes an image of its own.

    Parameters
    ----------
    sizes : width and height of every image.

    Returns
    -------
    The crowns of all windows, as images named by `tile_name` (windows without crowns too), and (M,)
    which crown of `annotations` each of them is: a crown may be in many windows, or in none.
    """
    names, parts, sources = [], [], []
    for image, rows in zip(
        annotations.images, annotations.by_image(annotations.images), strict=True
    ):
        if image not in sizes:
            raise PermafrostError(f"the size of the image {image!r} is not known")
        for window in cut_windows(*sizes[image], size=size, overlap=overlap):
            part, kept = clip_to_window(annotations.take(rows), window)
            parts.append(replace(part, image=np.full(len(part), len(names), np.intp)))
            sources.append(rows[kept])
            names.append(tile_name(image, window))
    found = replace(concatenate(parts, annotations), images=tuple(names))
    return found, np.concatenate(sources) if sources else np.empty(0, np.intp)
