"""Windows over an image too large to take at once, and the crowns that belong to each.

The rules are those of DeepForest's ``split_raster``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError

from .annotations import BOX, POINT, POLYGON, Annotations, concatenate
from .overlaps import areas

SIZE, OVERLAP = 400, 0.05
# a crown belongs to a window that shows more than this share of it
VISIBLE = 0.5


@dataclass(frozen=True)
class Window:
    """A part of an image, in whole pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """xmin, ymin, xmax, ymax."""
        return self.x, self.y, self.x + self.width, self.y + self.height


def cut_windows(
    width: int, height: int, *, size: int = SIZE, overlap: float = OVERLAP
) -> list[Window]:
    """Windows that cover an image, column by column from its left edge.

    The step is ``size - floor(size * overlap)``. Where the last window would pass the edge it is
    moved back, so the last two may share nearly everything: 400 px in windows of 200 with an
    overlap of 0.05 begin at 0, 190 and 200. An image smaller than `size` is one window.

    Raises
    ------
    PermafrostError : a size below 1, an overlap outside [0, 1).
    """
    if size < 1 or not 0 <= overlap < 1 or min(width, height) < 1:
        raise PermafrostError(
            f"cannot cut {width} x {height} pixels into windows of {size} with an overlap of {overlap}",
            remedy="give a size of at least 1 pixel and an overlap of at least 0 and below 1",
        )
    return [
        Window(x, y, min(size, width), min(size, height))
        for x in _offsets(width, min(size, width), overlap)
        for y in _offsets(height, min(size, height), overlap)
    ]


def _offsets(length: int, size: int, overlap: float) -> list[int]:
    step = size - math.floor(size * overlap)
    offsets = list(range(0, length - size + 1, step))
    return offsets if offsets[-1] == length - size else [*offsets, length - size]


def clip_to_window(annotations: Annotations, window: Window) -> tuple[Annotations, np.ndarray]:
    """The crowns that a window shows, in its coordinates.

    Boxes and polygons are cut at the window and kept if more than half of their area remains;
    points are kept if they lie in it, edges included (so on a shared edge in both).

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
        kept = shapely.area(clipped) / areas(POLYGON, shape) > VISIBLE
        moved = shapely.transform(clipped[kept], lambda corners: corners - origin)
    else:
        clipped = clip_boxes(shape, np.array(window.bounds, np.float64))
        kept = areas(BOX, clipped) / areas(BOX, shape) > VISIBLE
        moved = clipped[kept] - np.tile(origin, 2)
    rows = np.flatnonzero(kept)
    return replace(annotations.take(rows), shape=moved), rows


def clip_boxes(boxes: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """(N, 4) boxes cut to (4,) or (N, 4) bounds; without area where they do not meet."""
    low = np.maximum(boxes[:, :2], bounds[..., :2])
    high = np.minimum(boxes[:, 2:], bounds[..., 2:])
    return np.hstack([low, np.maximum(low, high)])


def tile_name(image: str, window: Window) -> str:
    """What a window is called as an image of its own."""
    return f"{image}#{window.x},{window.y}"


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
    The crowns of all windows, as images named by `tile_name` (windows without crowns too), and (M,) which crown of `annotations` each of them is: a crown may be in several windows, or in
    none.
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
