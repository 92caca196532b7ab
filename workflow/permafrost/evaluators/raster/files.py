"""Open raster files, and check that two share one grid."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.extras import need
from permafrost.core.inputs import check_regular
from permafrost.data.files.opening import UnreadableImage, open_raster

#: GDAL's names of the formats of given rasters
FORMATS = ("GTiff", "PNG", "JPEG", "JP2OpenJPEG")
# two grids are the same if no corner is further apart than this share of a pixel
SAME_PLACE = 1e-3


@contextlib.contextmanager
def opened(path) -> Iterator:
    """Yield an open rasterio dataset of `FORMATS`, georeferenced or not.

    Raises
    ------
    PermafrostError : rasterio is not installed, or the file cannot be opened.
    """
    need("rasterio")
    from rasterio.errors import RasterioError

    # GDAL would block on a pipe
    if not os.path.isdir(path):
        check_regular(path)
    try:
        dataset = open_raster(path, *FORMATS)
    except UnreadableImage as error:
        raise PermafrostError(str(error), where=path, remedy=error.remedy) from error
    except RasterioError as error:
        raise PermafrostError(
            f"the raster cannot be opened ({first_line(error)})",
            where=path,
            remedy="give a GeoTIFF, PNG, JPEG or JPEG 2000; gdal_translate converts others",
        ) from error
    with dataset:
        yield dataset


def check_same_grid(reference, prediction, *, by_pixel: bool = False) -> None:
    """Refuse two open datasets whose pixels have different locations.

    Parameters
    ----------
    by_pixel : compare sizes only, for a prediction written without its georeference.

    Raises
    ------
    PermafrostError : different sizes; different coordinate systems; shifted, scaled or rotated
        grids; only one of them georeferenced. If one system is local, as on a building site, only
        coordinates are compared.
    """
    where, remedy = prediction.name, "warp the prediction onto the reference's grid (gdalwarp)"
    if reference.shape != prediction.shape:
        raise PermafrostError(
            f"{_size(prediction)} pixels, but the reference has {_size(reference)}",
            where=where,
            remedy=remedy,
        )
    if by_pixel:
        return
    local = _local(reference) or _local(prediction)
    if not local and (reference.crs is None) != (prediction.crs is None):
        which = "reference" if reference.crs is None else "prediction"
        raise PermafrostError(
            f"the {which} has no coordinate system, the other raster has one",
            where=where,
            remedy="write it, or compare pixel by pixel with by_pixel (--by-pixel)",
        )
    if not local and reference.crs != prediction.crs:
        raise PermafrostError(
            f"the coordinate system is {prediction.crs}, the reference's {reference.crs}",
            where=where,
            remedy=remedy,
        )
    if _largest_shift(reference, prediction) > SAME_PLACE:
        raise PermafrostError(
            f"the pixels lie elsewhere (transform {tuple(prediction.transform)[:6]}, the"
            f" reference's {tuple(reference.transform)[:6]})",
            where=where,
            remedy=remedy,
        )


def _local(dataset) -> bool:
    """Whether the coordinate system is not tied to the Earth."""
    crs = dataset.crs
    return crs is not None and not (crs.is_geographic or crs.is_projected)


def _size(dataset) -> str:
    return f"{dataset.width} x {dataset.height}"


def _largest_shift(reference, prediction) -> float:
    """Largest distance between corresponding corners, in pixels of the reference."""
    to_pixel = ~reference.transform
    corners = [(x, y) for x in (0, reference.width) for y in (0, reference.height)]
    moved = (to_pixel @ (prediction.transform @ corner) for corner in corners)
    return max(
        max(abs(a - b) for a, b in zip(place, corner, strict=True))
        for place, corner in zip(moved, corners, strict=True)
    )
