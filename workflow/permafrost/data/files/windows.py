"""Windows over an image that is too large to process at once.

The rule is that of DeepForest's ``split_raster``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError

SIZE, OVERLAP = 400, 0.05


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

    def of(self, image: np.ndarray) -> np.ndarray:
        """The window's part of an image (…, H, W), as a view."""
        return image[..., self.y : self.y + self.height, self.x : self.x + self.width]


def cut_windows(
    width: int, height: int, *, size: int = SIZE, overlap: float = OVERLAP
) -> list[Window]:
    """Windows that cover an image, column by column from its left edge.

    The step is ``size - floor(size * overlap)``. A last window that would pass the edge is moved
    back, so the last two may overlap almost completely: on 400 px, windows of 200 with an overlap
    of 0.05 begin at 0, 190 and 200. An image smaller than `size` is one window.

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


def tile_name(image: str, window: Window) -> str:
    """Name of a window as an image of its own."""
    return f"{image}#{window.x},{window.y}"


def clip_boxes(boxes: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """(N, 4) boxes clipped to (4,) or (N, 4) bounds; without area if they do not intersect."""
    low = np.maximum(boxes[:, :2], bounds[..., :2])
    high = np.minimum(boxes[:, 2:], bounds[..., 2:])
    return np.hstack([low, np.maximum(low, high)])
