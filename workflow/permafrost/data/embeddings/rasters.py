"""Embeddings in rasters: the pixels under an image, averaged or sampled on the image's own grid."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from annotated_types import Interval

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.options import LeftOut, Options, Text
from permafrost.data.embeddings.coding import ALPHAEARTH_NODATA, CODINGS, ESD_LEVELS
from permafrost.data.embeddings.files import YEAR, find_files, is_mosaic
from permafrost.data.embeddings.mosaics import open_mosaic
from permafrost.data.embeddings.places import DEGREES, Place, ball, moved
from permafrost.data.files.opening import UnreadableImage, open_raster

if TYPE_CHECKING:
    from affine import Affine
    from rasterio import DatasetReader

#: rasters open at once
OPEN = 32
#: allowance for curved borders when comparing an image with a raster, in Earth radii (600 m)
NEARBY = 1e-4


@dataclass(frozen=True, kw_only=True)
class RasterOptions(Options):
    """GeoTIFFs with one number of the embedding per band, or VRT mosaics of GeoTIFFs in the same folder."""

    pattern: Text = "*.tif"
    """Files in the folder; * stands for any characters, {year} for the year of an image, which
    selects the raster. If several rasters have data at a place, the first by name counts."""
    year: LeftOut[Annotated[int, Interval(ge=1900, le=2200)]] = None
    """The year for all images, instead of the years of their dates."""
    coding: LeftOut[Literal["alphaearth", "esd"]] = None
    """Coding of the file: AlphaEarth's signed bytes, or codes of Embedded Seamless Data."""
    scale: float = 1.0
    """Embedding = stored (or decoded) * scale + offset."""
    offset: float = 0.0
    nodata: LeftOut[float] = None
    """Stored value of pixels without data, in addition to nodata values of the file."""
    scales: LeftOut[Text] = None
    """Ending of the name of a second raster (_scales), with one band or as many, whose values
    multiply the stored ones."""
    pool: Literal["mean", "mean_std"] = "mean"
    """How the pixels under an image become its features."""
    resampling: Literal["nearest", "bilinear"] = "nearest"
    """Resampling of maps."""


@dataclass
class _Window:
    """A part of a raster: ``values`` (C, h, w) float32, NaN where there is no data."""

    tile: Tile
    row: int
    column: int
    values: np.ndarray
    valid: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.valid = np.isfinite(self.values).all(axis=0)

    def has(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Which of these raster pixels are in the window and have data."""
        row, column = row - self.row, column - self.column
        height, width = self.valid.shape
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        found = np.zeros(row.shape, bool)
        found[inside] = self.valid[row[inside].astype(int), column[inside].astype(int)]
        return found

    def at(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """(C, n) values of raster pixels in the window."""
        return self.values[:, (row - self.row).astype(int), (column - self.column).astype(int)]


@dataclass(frozen=True)
class Tile:
    """One raster: file, year and grid."""

    name: str
    path: Path
    year: int | None
    crs: str
    transform: Affine
    height: int
    width: int

    def pixels(self, crs: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and column, with fractions, of points in another coordinate system."""
        x, y = moved(crs, self.crs, x, y)
        column, row = _applied(~self.transform, x, y)
        # a point on the border of two pixels must belong to one of them despite rounding
        return np.round(row, 6), np.round(column, 6)

    def outline(self, steps: int = 16) -> tuple[np.ndarray, np.ndarray]:
        """x and y of points on its border, and of its centre."""
        way = np.linspace(0, 1, steps + 1)
        zero, one = np.zeros_like(way), np.ones_like(way)
        row = np.concatenate([zero, one, way, way, [0.5]]) * self.height
        column = np.concatenate([way, way, zero, one, [0.5]]) * self.width
        return _applied(self.transform, column, row)

    def centres(self, row: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _applied(self.transform, column + 0.5, row + 0.5)


class RasterEmbeddings:
    """Mosaic of rasters of embeddings: where several have data, the first by name counts.

    Parameters
    ----------
    path : file or folder.
    where : name of the backbone, for errors.
    """

    def __init__(self, path: str, options: RasterOptions, where: str) -> None:
        self._path, self._options, self._where = path, options, where
        self._open: OrderedDict[Path, DatasetReader] = OrderedDict()
        found = find_files(path, options.pattern, f"{where}: path")
        if options.scales:
            found = [one for one in found if not one[1].stem.endswith(options.scales)]
        self.tiles = [self._tile(*one) for one in found]
        self.dated = YEAR in options.pattern
        balls = [ball(tile.crs, *tile.outline()) for tile in self.tiles]
        self._centres = np.array([centre for centre, _ in balls])
        self._radii = np.array([radius for _, radius in balls])
        self.bands = {self._dataset(tile.path).count for tile in self.tiles}
        if len(self.bands) > 1:
            raise PermafrostError(
                f"the rasters have {' and '.join(map(str, sorted(self.bands)))} bands",
                where=where,
                remedy="let `pattern` name the rasters of one kind of embeddings",
            )

    def describe(self) -> dict:
        return {"rasters": len(self.tiles), "years": sorted({t.year for t in self.tiles} - {None})}

    def reason(self, place: Place) -> str:
        """Why a place has no embedding."""
        if self.dated and self._year(place) is None:
            return "its year is not known"
        year = f" of {self._year(place)}" if self.dated else ""
        return f"no raster{year} has data under it"

    def pooled(self, place: Place) -> np.ndarray | None:
        """(K,) mean, or mean and standard deviation, of the pixels whose centre is in the image; None without data.

        If the image holds no pixel centre, or only its own centre is known, the pixel under its
        centre counts.
        """
        values = self._under(place) if place.footprint else np.empty((0, 0))
        if not values.shape[1]:
            x, y = self._centre(place)
            values = self._sampled(place, x, y, smooth=False)
            values = values[:, np.isfinite(values).all(axis=0)]
        if not values.shape[1]:
            return None
        mean = values.mean(axis=1, dtype=np.float64)
        if self._options.pool == "mean_std":
            mean = np.concatenate([mean, values.std(axis=1, dtype=np.float64)])
        return mean.astype(np.float32)

    def mapped(self, place: Place, rows: int, columns: int) -> np.ndarray:
        """(C, rows, columns) float32 on a grid over the image, NaN without data."""
        smooth = self._options.resampling == "bilinear"
        values = self._sampled(place, *place.cells(rows, columns), smooth=smooth)
        return values.reshape(-1, rows, columns)

    # --- which pixels --------------------------------------------------------------------------

    def _under(self, place: Place) -> np.ndarray:
        """(C, n) of all pixels whose centre is in the image."""
        windows: list[_Window]
        windows, parts = [], [np.empty((self.channels, 0), np.float32)]
        for window in self._windows(place, *place.outline(), margin=1):
            height, width = window.valid.shape
            row, column = (
                one.ravel()
                for one in np.mgrid[
                    window.row : window.row + height, window.column : window.column + width
                ]
            )
            x, y = window.tile.centres(row, column)
            kept = _inside(place, *moved(window.tile.crs, place.crs, x, y))
            kept &= window.has(row, column)
            for earlier in windows:
                # skip pixels that an earlier raster provides
                there = earlier.tile.pixels(window.tile.crs, x[kept], y[kept])
                kept[kept] = ~earlier.has(*map(np.floor, there))
            parts.append(window.at(row[kept], column[kept]))
            windows.append(window)
        return np.concatenate(parts, axis=1)

    def _sampled(self, place: Place, x: np.ndarray, y: np.ndarray, *, smooth: bool) -> np.ndarray:
        """(C, n) at points of the image's coordinate system, NaN without data."""
        found = np.full((self.channels, len(x)), np.nan, np.float32)
        lacking = np.ones(len(x), bool)
        for window in self._windows(place, x, y, margin=1):
            row, column = window.tile.pixels(place.crs or DEGREES, x, y)
            here = window.has(np.floor(row), np.floor(column)) & lacking
            row, column = row[here], column[here]
            if smooth:
                found[:, here] = _interpolated(window, row - 0.5, column - 0.5)
            else:
                found[:, here] = window.at(np.floor(row), np.floor(column))
            lacking &= ~here
            if not lacking.any():
                break
        return found

    def _windows(self, place: Place, x, y, *, margin: int) -> Iterator[_Window]:
        """For each raster of the year, the part around these points of the image's coordinate system."""
        year = self._year(place)
        # points far away may have invalid or misleading coordinates in a raster's system
        centre, radius = ball(place.crs or DEGREES, *place.outline())
        near = np.linalg.norm(self._centres - centre, axis=1) <= self._radii + radius + NEARBY
        for number in np.flatnonzero(near):
            tile = self.tiles[number]
            if self.dated and tile.year != year:
                continue
            row, column = tile.pixels(place.crs or DEGREES, x, y)
            reached = np.isfinite(row) & np.isfinite(column)
            if not reached.any():
                continue
            top, bottom = _span(row[reached], tile.height, margin)
            left, right = _span(column[reached], tile.width, margin)
            if top < bottom and left < right:
                yield _Window(tile, top, left, self._read(tile, top, bottom, left, right))

    def _year(self, place: Place) -> int | None:
        return self._options.year or place.year

    @staticmethod
    def _centre(place: Place) -> tuple[np.ndarray, np.ndarray]:
        if place.footprint:
            return place.at(np.array([place.height / 2]), np.array([place.width / 2]))
        return np.array([place.lon]), np.array([place.lat])

    # --- files ---------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        """Length of an embedding."""
        (bands,) = self.bands
        return bands * len(ESD_LEVELS) if self._options.coding == "esd" else bands

    def _tile(self, name: str, path: Path, year: int | None) -> Tile:
        dataset = self._dataset(path)
        if dataset.crs is None or dataset.transform.is_identity:
            raise PermafrostError(
                "the raster has no georeference", where=path, remedy="add a georeference"
            )
        crs = dataset.crs.to_string()
        return Tile(name, path, year, crs, dataset.transform, dataset.height, dataset.width)

    def _dataset(self, path: Path):
        """The open raster; the most recently used ones stay open."""
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        with _naming(path, "get the file again, or let `pattern` leave it out"):
            self._open[path] = (
                open_mosaic(path, self._path) if is_mosaic(path) else open_raster(path, "GTiff")
            )
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()
        return self._open[path]

    def _read(self, tile: Tile, top: int, bottom: int, left: int, right: int) -> np.ndarray:
        from rasterio.windows import Window

        options, window = self._options, Window(left, top, right - left, bottom - top)
        stored = self._pixels(tile.path, window)
        values, gone = np.ma.getdata(stored), np.ma.getmaskarray(stored).all(axis=0)
        nodata = options.nodata
        if nodata is None and options.coding == "alphaearth":
            nodata = ALPHAEARTH_NODATA
        if nodata is not None:
            gone |= (values == nodata).all(axis=0)
        if options.coding is not None:
            values = CODINGS[options.coding](values)
        values = values.astype(np.float32)
        if options.scales:
            path = tile.path.with_name(f"{tile.path.stem}{options.scales}{tile.path.suffix}")
            values = values * np.ma.filled(self._pixels(path, window).astype(np.float32), np.nan)
        values = values * np.float32(options.scale) + np.float32(options.offset)
        values[:, gone] = np.nan
        return values

    def _pixels(self, path: Path, window) -> np.ma.MaskedArray:
        with _naming(path, "get the file again"):
            return self._dataset(path).read(window=window, masked=True)


@contextlib.contextmanager
def _naming(path: Path, remedy: str) -> Iterator[None]:
    """Name the raster in errors of its reader."""
    from rasterio.errors import RasterioError

    try:
        yield
    except UnreadableImage as error:
        raise PermafrostError(str(error), where=path, remedy=error.remedy or remedy) from error
    except (RasterioError, OSError) as error:
        raise PermafrostError(
            f"the raster cannot be read ({first_line(error)})", where=path, remedy=remedy
        ) from error


def _inside(place: Place, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which points of the image's coordinate system are in the image."""
    from rasterio import Affine

    column, row = (np.round(one, 6) for one in _applied(~Affine(*place.transform), x, y))
    return (row >= 0) & (row < place.height) & (column >= 0) & (column < place.width)


def _applied(affine, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return affine.a * x + affine.b * y + affine.c, affine.d * x + affine.e * y + affine.f


def _span(positions: np.ndarray, size: int, margin: int) -> tuple[int, int]:
    """First pixel and end of the range around these positions on an axis."""
    first = int(np.clip(np.floor(positions.min()) - margin, 0, size))
    return first, int(np.clip(np.floor(positions.max()) + 1 + margin, 0, size))


def _interpolated(window: _Window, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """(C, n) bilinear interpolation over pixels with data; `row`, `column` count from a pixel centre."""
    total = np.zeros((len(window.values), len(row)), np.float64)
    weights = np.zeros(len(row))
    for below in (0, 1):
        for right in (0, 1):
            near_row, near_column = np.floor(row) + below, np.floor(column) + right
            weight = (1 - np.abs(row - near_row)) * (1 - np.abs(column - near_column))
            there = window.has(near_row, near_column) & (weight > 0)
            total[:, there] += weight[there] * window.at(near_row[there], near_column[there])
            weights += weight * there
    return (total / weights).astype(np.float32)
