"""Positions of the tiles of a grid: geometry in whole pixels, without reading files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError
from permafrost.data.files.georeference import Georeference
from permafrost.data.files.windows import Window
from permafrost.data.labels.splits import KM_PER_DEGREE

#: far more tiles than useful: a resolution in the wrong unit produces this many
MOST_TILES = 5_000_000
#: tolerance for pixel borders, as a share of a pixel
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Grid:
    """Pixels of one coordinate system, rows from north to south.

    ``crs``: as `Georeference`. ``left``, ``top``: outer corner of pixel (0, 0). ``step``: width and
    height of a pixel in units of the system, both positive. ``width``, ``height``: in pixels.
    """

    crs: str
    left: float
    top: float
    step: tuple[float, float]
    width: int
    height: int

    @property
    def transform(self) -> tuple[float, ...]:
        """As `Georeference.transform`."""
        return (self.step[0], 0.0, self.left, 0.0, -self.step[1], self.top)

    @property
    def place(self) -> Georeference:
        return Georeference(self.crs, self.transform, size=(self.height, self.width))

    def pixels(self, bounds: Sequence[float]) -> tuple[float, float, float, float]:
        """(xmin, ymin, xmax, ymax) in columns and rows for bounds (left, bottom, right, top) in the system's units."""
        left, bottom, right, top = bounds
        across, down = self.step
        return (
            (left - self.left) / across,
            (self.top - top) / down,
            (right - self.left) / across,
            (self.top - bottom) / down,
        )

    def bounds(self, window: Window) -> tuple[float, float, float, float]:
        """(left, bottom, right, top) of a window in units of the system."""
        x, y, x_end, y_end = window.bounds
        across, down = self.step
        return (
            self.left + x * across,
            self.top - y_end * down,
            self.left + x_end * across,
            self.top - y * down,
        )

    def metres(self) -> tuple[float, float]:
        """Width and height of a pixel in metres; for degrees, at the centre of the grid."""
        from rasterio.crs import CRS

        crs = CRS.from_user_input(self.crs)
        if not crs.is_geographic:
            factor = crs.units_factor[1]
            return self.step[0] * factor, self.step[1] * factor
        latitude = self.top - self.height * self.step[1] / 2
        degree = KM_PER_DEGREE * 1000
        shrunk = max(math.cos(math.radians(latitude)), 1e-6)
        return self.step[0] * degree * shrunk, self.step[1] * degree


@dataclass(frozen=True)
class Axis:
    """Positions of tiles along one axis of a region; no tile crosses a block border.

    Parameters
    ----------
    start, stop : the region, in pixels of the grid.
    size, stride : of tiles, in pixels.
    block : side length of a block in pixels, counted from `start`; None for a single block.
    margin : pixels on each side of a block border that stay empty.
    """

    start: int
    stop: int
    size: int
    stride: int
    block: int | None = None
    margin: int = 0

    def tiles(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """First pixel and block of each tile that overlaps the pixels [low, high)."""
        if low >= high or self.stop - self.start < self.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        side = self.block or self.stop - self.start
        last = -(-(self.stop - self.start) // side) - 1
        begin = int(np.clip((low - self.size - self.start) // side, 0, last))
        end = int(np.clip((high - self.start) // side, 0, last))
        found = [self._of_block(number, side, last, low, high) for number in range(begin, end + 1)]
        starts = np.concatenate(found)
        blocks = np.repeat(np.arange(begin, end + 1), [len(one) for one in found])
        meets = (starts < high) & (starts + self.size > low)
        return starts[meets], blocks[meets]

    def _of_block(self, number: int, side: int, last: int, low: float, high: float) -> np.ndarray:
        """First pixels of the tiles of a block, without most of those outside [low, high)."""
        begin = self.start + number * side + (self.margin if number else 0)
        end = min(self.start + (number + 1) * side, self.stop)
        end -= self.margin if number < last else 0
        begin += max(0, math.floor((low - self.size - begin) / self.stride)) * self.stride
        return np.arange(begin, min(end - self.size + 1, math.ceil(high)), self.stride)


@dataclass(frozen=True)
class Tiles:
    """Tiles of one size: (N, 2) first column and row of each, (N, 2) column and row of its block."""

    corners: np.ndarray
    blocks: np.ndarray
    size: int

    def __len__(self) -> int:
        return len(self.corners)

    def window(self, index: int) -> Window:
        x, y = self.corners[index].tolist()
        return Window(x, y, self.size, self.size)

    def take(self, rows: np.ndarray) -> Tiles:
        return Tiles(self.corners[rows], self.blocks[rows], self.size)

    def boxes(self) -> np.ndarray:
        """(N,) the tiles as shapely polygons, in pixels of the grid."""
        x, y = self.corners.T
        return shapely.box(x, y, x + self.size, y + self.size)

    def meeting(self, shapes: np.ndarray) -> np.ndarray:
        """(N,) bool, whether a tile overlaps one of the shapes."""
        boxes = self.boxes()
        tile, shape = shapely.STRtree(shapes).query(boxes, predicate="intersects")
        shared = ~shapely.touches(boxes[tile], np.asarray(shapes)[shape])
        return np.isin(np.arange(len(self)), tile[shared])

    def inside(self, shape) -> np.ndarray:
        """(N,) bool, whether a tile is completely inside the shape."""
        shapely.prepare(shape)
        return shapely.covers(shape, self.boxes())


def cut(across: Axis, down: Axis, covered: Sequence[Sequence[float]], *, where: object) -> Tiles:
    """The tiles that overlap one of the `covered` boxes (xmin, ymin, xmax, ymax), row by row.

    The boxes may be far apart: the space between them costs nothing.

    Raises
    ------
    PermafrostError : more than `MOST_TILES`.
    """
    found: list[np.ndarray] = []
    count = 0
    for xmin, ymin, xmax, ymax in covered:
        (xs, columns), (ys, rows) = across.tiles(xmin, xmax), down.tiles(ymin, ymax)
        count += len(xs) * len(ys)
        if count > MOST_TILES:
            raise PermafrostError(
                f"the grid has more than {MOST_TILES:,} tiles",
                where=where,
                remedy="check the unit of resolution and of extent, or use larger tiles or a larger stride",
            )
        y, x = np.meshgrid(np.arange(len(ys)), np.arange(len(xs)), indexing="ij")
        pairs = np.stack([ys[y], xs[x], rows[y], columns[x]], axis=-1).reshape(-1, 4)
        found.append(pairs)
    tiles = np.concatenate([np.empty((0, 4), np.int64), *found])
    # keep tiles of several boxes once; sort by row, then column
    tiles = np.unique(tiles, axis=0) if len(found) > 1 else tiles
    return Tiles(tiles[:, [1, 0]], tiles[:, [3, 2]], across.size)


def region(grid: Grid, bounds: Sequence[float]) -> tuple[int, int, int, int]:
    """(xmin, ymin, xmax, ymax) of the whole pixels inside bounds in units of the coordinate system."""
    xmin, ymin, xmax, ymax = grid.pixels(bounds)
    return (
        max(0, math.ceil(xmin - TOLERANCE)),
        max(0, math.ceil(ymin - TOLERANCE)),
        min(grid.width, math.floor(xmax + TOLERANCE)),
        min(grid.height, math.floor(ymax + TOLERANCE)),
    )


def shared_pixels(parts: dict[str, Tiles]) -> tuple[str, str] | None:
    """Names of two parts with tiles that share pixels; None if there are none."""
    names = list(parts)
    for position, name in enumerate(names):
        tree = shapely.STRtree(parts[name].boxes())
        for other in names[position + 1 :]:
            boxes = parts[other].boxes()
            theirs, ours = tree.query(boxes, predicate="intersects")
            if not shapely.touches(boxes[theirs], tree.geometries[ours]).all():
                return name, other
    return None
