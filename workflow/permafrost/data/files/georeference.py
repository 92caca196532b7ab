"""Where the pixels of an image lie: taken from its file, kept so that masks can be written back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.data.files.windows import Window


@dataclass(frozen=True)
class Georeference:
    """What a file says about its place; None where it says nothing, or nothing that leads to the ground.

    ``crs``: ``EPSG:…`` or WKT. ``transform``: (a, b, c, d, e, f) with x = a·column + b·row + c and
    y = d·column + e·row + f, for the upper left corner of a pixel. ``lon``, ``lat``: the centre of the
    image in degrees (WGS 84). ``size``: height and width that the transform belongs to.
    """

    crs: str | None = None
    transform: tuple[float, ...] | None = None
    lon: float | None = None
    lat: float | None = None
    size: tuple[int, int] | None = None

    def of(self, window: Window) -> Georeference:
        """Where a window of the image lies: nothing, unless the transform says it."""
        if self.transform is None:
            return NOWHERE
        a, b, c, d, e, f = self.transform
        x, y = window.x, window.y
        transform = (a, b, a * x + b * y + c, d, e, d * x + e * y + f)
        return _placed(self.crs, transform, (window.height, window.width))


NOWHERE = Georeference()


def georeference(dataset) -> Georeference:
    """The georeference of an open rasterio dataset.

    A transform without area or with numbers that are not finite is none. A coordinate system that leads to no longitude
    and latitude, as the local one of a building site, is none either; the transform is kept.
    """
    transform = tuple(float(value) for value in tuple(dataset.transform)[:6])
    a, b, _, d, e, _ = transform
    if dataset.transform.is_identity or not all(map(math.isfinite, transform)) or a * e == b * d:
        return NOWHERE
    size = (dataset.height, dataset.width)
    return _placed(None if dataset.crs is None else dataset.crs.to_string(), transform, size)


def moved(source, target, x, y) -> np.ndarray:
    """(2, N) coordinates in another system, NaN of places that have none there.

    Parameters
    ----------
    source, target : coordinate systems as rasterio takes them.
    x, y : (N,).
    """
    from rasterio._err import CPLE_BaseError, CPLE_NotSupportedError
    from rasterio.errors import CRSError, RasterioError
    from rasterio.warp import transform

    try:
        found = np.array(transform(source, target, x, y)[:2], np.float64)
        return np.where(np.isfinite(found), found, np.nan)
    # no way between the two systems
    except (CPLE_NotSupportedError, CRSError):
        return np.full((2, len(x)), np.nan)
    except (CPLE_BaseError, RasterioError):
        if len(x) <= 1:
            return np.full((2, len(x)), np.nan)
    # rasterio transforms all places or none, so those it cannot are looked for
    middle = len(x) // 2
    halves = (moved(source, target, x[s], y[s]) for s in (slice(middle), slice(middle, None)))
    return np.concatenate(list(halves), axis=1)


def degrees(crs, x, y) -> np.ndarray:
    """(2, N) longitudes and latitudes (WGS 84) of places, NaN where there are none on Earth."""
    lon, lat = moved(crs, "EPSG:4326", x, y)
    there = (lon >= -180) & (lon <= 360) & (np.abs(lat) <= 90)
    return np.where(there, [lon, lat], np.nan)


def _placed(crs: str | None, transform: tuple[float, ...], size: tuple[int, int]) -> Georeference:
    """With lon and lat of the centre, where the coordinate system leads there."""
    if crs is None:
        return Georeference(transform=transform, size=size)
    a, b, c, d, e, f = transform
    height, width = size
    x, y = a * width / 2 + b * height / 2 + c, d * width / 2 + e * height / 2 + f
    lon, lat = degrees(crs, [x], [y])[:, 0].tolist()
    if math.isnan(lon):
        return Georeference(transform=transform, size=size)
    return Georeference(crs, transform, lon, lat, size)
