"""Objects of an aerial view: the highest one at each pixel, as seen from above."""

from __future__ import annotations

import numpy as np

#: side length of a pixel of an aerial view in metres
PIXEL_M = 0.4
GROUND = 0


class Canvas:
    """Heights of a square of ground, and the highest object at each pixel.

    Attributes
    ----------
    height : (size, size) float32, metres above the ground.
    slope : (2, size, size) float32, rise in metres per metre along rows and columns.
    top : (size, size) int32, 1 + the number of the visible object, or `GROUND`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.height = np.zeros((size, size), np.float32)
        self.slope = np.zeros((2, size, size), np.float32)
        self.top = np.full((size, size), GROUND, np.int32)

    def put(self, number: int, y: float, x: float, reach: float, shape) -> int:
        """Draw an object, hiding lower ones and hidden by taller ones.

        Parameters
        ----------
        number : of the object, from 0.
        y, x : its centre in pixels, where pixel i covers [i, i + 1).
        reach : its largest extent from the centre, in metres.
        shape : function of the offsets (dy, dx) from the centre, in metres, that returns height and
            footprint (bool), both of their shape.

        Returns
        -------
        Its number of pixels without occlusion, including those outside the square.
        """
        half = int(np.ceil(reach / PIXEL_M)) + 1
        rows = np.arange(int(y) - half, int(y) + half + 1)
        columns = np.arange(int(x) - half, int(x) + half + 1)
        dy = ((rows + 0.5 - y) * PIXEL_M).astype(np.float32)[:, None]
        dx = ((columns + 0.5 - x) * PIXEL_M).astype(np.float32)[None, :]
        height, inside = shape(dy, dx)
        slope = np.stack(np.gradient(height.astype(np.float32), PIXEL_M))
        here, part = self._overlap(rows, columns)
        wins = inside[part] & (height[part] > self.height[here])
        self.height[here][wins] = height[part][wins]
        self.top[here][wins] = number + 1
        self.slope[(slice(None), *here)][:, wins] = slope[(slice(None), *part)][:, wins]
        return int(inside.sum())

    def _overlap(self, rows: np.ndarray, columns: np.ndarray) -> tuple[tuple, tuple]:
        """Slices of the overlap, in the square and in the patch."""
        here, part = [], []
        for places in (rows, columns):
            start, stop = max(places[0], 0), max(min(places[-1] + 1, self.size), 0)
            here.append(slice(start, stop))
            part.append(slice(start - places[0], max(stop - places[0], 0)))
        return tuple(here), tuple(part)
