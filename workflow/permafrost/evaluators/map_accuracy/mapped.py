"""A map as a raster: its class at every reference point, and the area of each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.opening import UnreadableImage
from permafrost.evaluators.map_accuracy.samples import Samples, read_crs
from permafrost.evaluators.raster.files import opened
from permafrost.evaluators.raster.pixel_areas import pixel_areas

OUTSIDE, NODATA = "lie outside of the map", "lie where the map has no data"
_BLOCK = 1024


@dataclass(frozen=True)
class Mapped:
    """What a raster says.

    Attributes
    ----------
    where : its path.
    code : (n,) code at each point; 0 where `state` is set.
    state : (n,) `OUTSIDE`, `NODATA` or "".
    areas : code -> area in square metres, or in pixels if `pixels`.
    pixels : whether the size of pixels is not known.
    varying : a remark if pixels differ in area, else "".
    """

    where: str
    code: np.ndarray
    state: np.ndarray
    areas: dict[int, float]
    pixels: bool
    varying: str = ""


def read_map(path, samples: Samples, *, band: int | None = None) -> Mapped:
    """Read a raster at the points, and the areas of all its classes, by blocks.

    Points in another coordinate system are transformed. Without one they are taken as in that of the map.

    Raises
    ------
    PermafrostError : the raster cannot be read, holds no whole numbers or has several bands; the points are all
        outside of it, or cannot be transformed; only one of both has a coordinate system.
    """
    with opened(path) as dataset:
        if band is None and dataset.count > 1:
            raise PermafrostError(
                f"{dataset.count} bands where one with classes is needed",
                where=path,
                remedy="choose one (--band)",
            )
        band = band or 1
        if band not in dataset.indexes:
            raise PermafrostError(
                f"there is no band {band}", where=path, remedy=f"it has {dataset.count}"
            )
        column, row = _pixels(dataset, samples)
        inside = (column >= 0) & (row >= 0) & (column < dataset.width) & (row < dataset.height)
        if not inside.any():
            _refuse_elsewhere(dataset, samples)
        return _read_blocks(dataset, band, column, row, inside)


def _pixels(dataset, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """(n,) columns and rows of the points."""
    x, y = samples.numbers("x"), samples.numbers("y")
    if samples.crs is not None:
        if dataset.crs is None:
            raise PermafrostError(
                f"the map has no coordinate system, the samples have {samples.crs}",
                where=dataset.name,
                remedy="write it into the map (gdal_edit.py -a_srs)",
            )
        own = read_crs(samples.crs, samples.where)
        if own != dataset.crs:
            from rasterio.warp import transform

            try:
                x, y = map(np.array, transform(own, dataset.crs, x, y))
            except Exception as error:
                raise PermafrostError(
                    f"the samples cannot be transformed from {samples.crs} to {dataset.crs} ({first_line(error)})",
                    where=samples.where,
                    remedy="check the coordinate system of the samples",
                ) from error
            samples.refuse(
                ~(np.isfinite(x) & np.isfinite(y)),
                f"have no place in {dataset.crs}",
                "check the coordinate system of the samples",
            )
    column, row = ~dataset.transform @ (x, y)
    return np.floor(column).astype(np.int64), np.floor(row).astype(np.int64)


def _refuse_elsewhere(dataset, samples: Samples) -> None:
    x, y = samples.numbers("x"), samples.numbers("y")
    box = ", ".join(f"{each:.6g}" for each in dataset.bounds)
    raise PermafrostError(
        f"all {len(samples)} samples lie outside of the map: x {x.min():.6g} to {x.max():.6g}, y {y.min():.6g} to"
        f" {y.max():.6g}, the map {box} in {dataset.crs or 'no coordinate system'}",
        where=samples.where,
        remedy="give the samples' coordinate system (--crs EPSG:4326); x is the easting or longitude",
    )


def _read_blocks(dataset, band: int, column, row, inside) -> Mapped:
    areas = pixel_areas(dataset)
    size, known = _pixel_size(dataset)
    code, state = np.zeros(len(column), np.int64), np.where(inside, "", OUTSIDE).astype(object)
    block = (row // _BLOCK) * (dataset.width // _BLOCK + 1) + column // _BLOCK
    totals: dict[int, float] = {}
    for top in range(0, dataset.height, _BLOCK):
        for left in range(0, dataset.width, _BLOCK):
            values, valid = _read(dataset, band, left, top)
            height, width = values.shape
            each = areas.window(left, top, width, height)
            weight = (
                np.full(values.shape, size) if each is None else np.broadcast_to(each, values.shape)
            )
            found, place = np.unique(values[valid], return_inverse=True)
            for one, total in zip(
                found.tolist(), np.bincount(place, weight[valid]).tolist(), strict=True
            ):
                totals[one] = totals.get(one, 0.0) + total
            number = (top // _BLOCK) * (dataset.width // _BLOCK + 1) + left // _BLOCK
            own = np.flatnonzero(inside & (block == number))
            here = row[own] - top, column[own] - left
            code[own] = values[here]
            state[own[~valid[here]]] = NODATA
    return Mapped(
        str(dataset.name),
        code,
        state,
        totals,
        pixels=not (known or areas.grid),
        varying="" if areas.grid is None else areas.sentence(),
    )


def _read(dataset, band: int, left: int, top: int) -> tuple[np.ndarray, np.ndarray]:
    """(h, w) int64 codes, and where there are data."""
    from rasterio.errors import RasterioError
    from rasterio.windows import Window

    window = Window(left, top, min(_BLOCK, dataset.width - left), min(_BLOCK, dataset.height - top))
    try:
        values = dataset.read(band, window=window)
    except (UnreadableImage, RasterioError) as error:
        raise PermafrostError(
            f"pixels cannot be read ({first_line(error)})", where=dataset.name
        ) from error
    nodata = dataset.nodatavals[band - 1]
    valid = np.ones(values.shape, bool) if nodata is None else values != nodata
    if values.dtype.kind == "f":
        valid &= ~np.isnan(values)
        if (values[valid] != np.round(values[valid])).any():
            raise PermafrostError(
                "the map holds numbers that are not whole",
                where=dataset.name,
                remedy="give a map of class codes",
            )
    return np.where(valid, values, 0).astype(np.int64), valid


def _pixel_size(dataset) -> tuple[float, bool]:
    """The area of a pixel in square metres, and whether it is known; 1 if not."""
    crs = dataset.crs
    if crs is None or not crs.is_projected:
        return 1.0, False
    return abs(dataset.transform.determinant) * crs.linear_units_factor[1] ** 2, True
