"""Georeference of an image: read from its file, kept to write masks back."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from permafrost.data.files.windows import Window

_ELSEWHERE = re.compile(r"\s*(?:/|\.|[a-z][a-z0-9+.-]*://)", re.IGNORECASE)


@dataclass(frozen=True)
class Georeference:
    """Georeference of a file; None for what it lacks, or what does not lead to the ground.

    ``crs``: ``EPSG:…`` or WKT. ``transform``: (a, b, c, d, e, f) with x = a·column + b·row + c and
    y = d·column + e·row + f, for the upper left corner of a pixel. ``lon``, ``lat``: the centre of
    the image in degrees (WGS 84). ``size``: height and width that the transform refers to.
    """

    crs: str | None = None
    transform: tuple[float, ...] | None = None
    lon: float | None = None
    lat: float | None = None
    size: tuple[int, int] | None = None

    def of(self, window: Window) -> Georeference:
        """Georeference of a window of the image; empty without a transform."""
        if self.transform is None:
            return NOWHERE
        a, b, c, d, e, f = self.transform
        x, y = window.x, window.y
        transform = (a, b, a * x + b * y + c, d, e, d * x + e * y + f)
        return _placed(self.crs, transform, (window.height, window.width))


NOWHERE = Georeference()


def georeference(dataset) -> Georeference:
    """The georeference of an open rasterio dataset.

    Transforms that are degenerate or not finite are dropped. A coordinate system that cannot be
    converted to longitude and latitude, such as a local one of a building site, is dropped but the
    transform is kept.
    """
    transform = tuple(float(value) for value in tuple(dataset.transform)[:6])
    a, b, _, d, e, _ = transform
    if dataset.transform.is_identity or not all(map(math.isfinite, transform)) or a * e == b * d:
        return NOWHERE
    size = (dataset.height, dataset.width)
    return _placed(None if dataset.crs is None else dataset.crs.to_string(), transform, size)


def check_crs(crs) -> None:
    """Raise rasterio's `CRSError` for the text of an address or a path: GDAL would get it from there."""
    from rasterio.errors import CRSError

    if isinstance(crs, str) and _ELSEWHERE.match(crs):
        raise CRSError(f"{crs[:60]!r} is an address or a path, not a coordinate system")


def moved(source, target, x, y) -> np.ndarray:
    """(2, N) coordinates in another system, NaN where it has none.

    Parameters
    ----------
    source, target : coordinate systems as rasterio takes them.
    x, y : (N,).
    """
    from rasterio._err import CPLE_BaseError, CPLE_NotSupportedError
    from rasterio.errors import CRSError, RasterioError
    from rasterio.warp import transform

    try:
        check_crs(source)
        found = np.array(transform(source, target, x, y)[:2], np.float64)
        return np.where(np.isfinite(found), found, np.nan)
    # no conversion between the two systems
    except (CPLE_NotSupportedError, CRSError):
        return np.full((2, len(x)), np.nan)
    except (CPLE_BaseError, RasterioError):
        if len(x) <= 1:
            return np.full((2, len(x)), np.nan)
    # rasterio converts all points or none, so search for those that fail
    middle = len(x) // 2
    halves = (moved(source, target, x[s], y[s]) for s in (slice(middle), slice(middle, None)))
    return np.concatenate(list(halves), axis=1)


def degrees(crs, x, y) -> np.ndarray:
    """(2, N) longitudes and latitudes (WGS 84); NaN for points that are not on Earth."""
    lon, lat = moved(crs, "EPSG:4326", x, y)
    there = (lon >= -180) & (lon <= 360) & (np.abs(lat) <= 90)
    return np.where(there, [lon, lat], np.nan)


def _placed(crs: str | None, transform: tuple[float, ...], size: tuple[int, int]) -> Georeference:
    """A georeference with lon and lat of the centre, if the coordinate system allows it."""
    if crs is None:
        return Georeference(transform=transform, size=size)
    a, b, c, d, e, f = transform
    height, width = size
    x, y = a * width / 2 + b * height / 2 + c, d * width / 2 + e * height / 2 + f
    lon, lat = degrees(crs, [x], [y])[:, 0].tolist()
    if math.isnan(lon):
        return Georeference(transform=transform, size=size)
    return Georeference(crs, transform, lon, lat, size)
