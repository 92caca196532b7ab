"""Inspect a sample of images: bands, type, size, location. Reads headers, and the pixels of masks only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.decode import PICTURES
from permafrost.data.files.georeference import georeference
from permafrost.data.files.members import Members
from permafrost.data.files.opening import load_npy, open_picture, open_raster
from permafrost.data.sources.reading import read_member

_MOST = 24
# most images to locate, and most masks to read
_PLACED, _MASKS = 1000, 200
# Pillow's modes that have another number of channels than colours
_COLOURS = {"P": 3, "PA": 3, "RGBA": 3, "LA": 1, "CMYK": 3}


@dataclass(frozen=True)
class Look:
    """Properties of one image.

    Attributes
    ----------
    bands : number of bands, without transparency; of a palette, its colours.
    mode : Pillow's; of a TIFF, ``P`` with a palette, ``RGBA`` with transparency, else None.
    names : band names in the file.
    pixel_m : ground sampling distance in metres, of a projected raster.
    reach_km : length of the diagonal in km; images with centres closer than this may overlap.
    """

    bands: int
    dtype: str
    height: int
    width: int
    mode: str | None = None
    names: tuple[str | None, ...] = ()
    nodata: float | None = None
    crs: str | None = None
    lon: float | None = None
    lat: float | None = None
    pixel_m: float | None = None
    reach_km: float | None = None


def sample(names: Sequence[str], most: int = _MOST) -> list[str]:
    """At most `most` of the names, evenly spread from the first to the last."""
    if len(names) <= most:
        return list(names)
    return [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]


def look_at(members: Members, names: Sequence[str], *, where: object) -> list[Look]:
    """Properties of a sample of the images.

    Raises
    ------
    PermafrostError : there are no images, or one cannot be read.
    """
    if not names:
        raise PermafrostError(
            "holds annotations and no images", where=where, remedy="put the images next to them"
        )
    return [_look(members, name, where) for name in sample(names)]


def _look(members: Members, name: str, where: object) -> Look:
    try:
        if name.lower().endswith((".tif", ".tiff")):
            return _tiff(members.location(name))

        with members.open(name) as stream, open_picture(stream, *PICTURES) as image:
            dtype = "uint16" if image.mode.startswith("I") else "uint8"
            bands = _COLOURS.get(image.mode, len(image.getbands()))
            return Look(bands, dtype, image.height, image.width, mode=image.mode)
    # readers fail on damaged files in many ways
    except Exception as error:
        raise PermafrostError(
            f"the image {name} cannot be read ({first_line(error)})",
            where=where,
            remedy="remove it, or download it again",
        ) from error


def _tiff(location: str) -> Look:
    with open_raster(location, "GTiff") as raster:
        place = georeference(raster)
        pixel = None
        if raster.crs is not None and raster.crs.is_projected:
            pixel = abs(raster.transform.a) * raster.crs.linear_units_factor[1]
        palette = raster.colorinterp[0].name == "palette"
        clear = raster.colorinterp[-1].name == "alpha" and _is_transparency(raster)
        bands = 3 if palette else raster.count - clear
        return Look(
            bands,
            raster.dtypes[0],
            raster.height,
            raster.width,
            "P" if palette else "RGBA" if clear else None,
            tuple(raster.descriptions[:bands]),
            raster.nodata,
            raster.crs.to_string() if raster.crs is not None and place.transform else None,
            place.lon,
            place.lat,
            pixel,
            _reach_km(raster, place.lat),
        )


def _is_transparency(raster) -> bool:
    """Whether a last band marked as transparency is really that: GDAL marks the fourth of any four bands."""
    shape = min(raster.height, 512), min(raster.width, 512)
    values = raster.read(raster.count, out_shape=shape)
    return bool(((values == 0) | (values == values.max())).all())


def _reach_km(raster, lat: float | None) -> float | None:
    if lat is None:
        return None
    a, b, _, d, e, _ = tuple(raster.transform)[:6]
    width, height = math.hypot(a, d) * raster.width, math.hypot(b, e) * raster.height
    if raster.crs.is_projected:
        return math.hypot(width, height) * raster.crs.linear_units_factor[1] / 1000
    # degrees
    return math.hypot(width * math.cos(math.radians(lat)), height) * 111.2


def places_of(members: Members, names: Sequence[str], *, where: object) -> list[Look]:
    """Properties of up to a thousand of the images, for georeferenced rasters."""
    return [
        look
        for name in sample(names, _PLACED)
        if name.lower().endswith((".tif", ".tiff"))
        and (look := _look(members, name, where)).lon is not None
    ]


def pixel_values(members: Members, names: Sequence[str], *, where: object) -> set[int] | None:
    """Values in a sample of masks; None if they are measurements. Raises `PermafrostError` for an unreadable mask."""
    found: set[int] = set()
    for name in sample(names, _MASKS):
        try:
            values = np.unique(_pixels(members, name))
        except Exception as error:
            raise PermafrostError(
                f"the mask {name} cannot be read ({first_line(error)})",
                where=where,
                remedy="remove it, or download it again",
            ) from error
        if values.dtype.kind == "f" or len(values) > 1000:
            return None
        found |= set(values.tolist())
    return found


def _pixels(members: Members, name: str):
    if name.lower().endswith((".tif", ".tiff")):
        with open_raster(members.location(name), "GTiff") as raster:
            return raster.read(1)
    data = read_member(members, name)
    if name.lower().endswith(".npy"):
        return load_npy(data)
    with open_picture(data, "JPEG", "PNG") as image:
        array = np.asarray(image)
    return array if array.ndim == 2 else array[..., 0]
