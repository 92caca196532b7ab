"""What a sample of images holds: bands, type, size, place. Reads headers, and of masks the pixels."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.georeference import georeference
from permafrost.data.files.members import Members

_MOST = 24
# images that are asked for their place, and masks for their values
_PLACED, _MASKS = 1000, 200
# Pillow's modes with more or fewer channels than they have colours
_COLOURS = {"P": 3, "PA": 3, "RGBA": 3, "LA": 1, "CMYK": 3}


@dataclass(frozen=True)
class Look:
    """One image.

    Attributes
    ----------
    bands : without transparency, and with the colours of a palette.
    mode : Pillow's; of a TIFF, ``P`` with a palette, ``RGBA`` with transparency, else None.
    names : what the file calls its bands.
    pixel_m : side of a pixel on the ground, of a projected raster.
    reach_km : two such images whose centres are nearer to each other may overlap: the diagonal of the image.
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
    """At most so many of the names, evenly spread from the first to the last."""
    if len(names) <= most:
        return list(names)
    return [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]


def look_at(members: Members, names: Sequence[str], *, where: object) -> list[Look]:
    """What a sample of the images holds.

    Raises
    ------
    PermafrostError : there are none, or one of them cannot be read.
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

        with members.open(name) as stream, Image.open(stream) as image:
            dtype = "uint16" if image.mode.startswith("I") else "uint8"
            bands = _COLOURS.get(image.mode, len(image.getbands()))
            return Look(bands, dtype, image.height, image.width, mode=image.mode)
    # readers fail in many ways on damaged files; each means the same here
    except Exception as error:
        raise PermafrostError(
            f"the image {name} cannot be read ({first_line(error)})",
            where=where,
            remedy="remove it, or download it again",
        ) from error


def _tiff(location: str) -> Look:
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(location) as raster:
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
    """Whether a last band that is marked as transparency is that: GDAL marks the fourth of four bands of any kind."""
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
    """The looks of up to a thousand of the images, where they are rasters that say where they lie."""
    return [
        look
        for name in sample(names, _PLACED)
        if name.lower().endswith((".tif", ".tiff"))
        and (look := _look(members, name, where)).lon is not None
    ]


def pixel_values(members: Members, names: Sequence[str], *, where: object) -> set[int] | None:
    """The values in a sample of masks; None where they are not whole numbers, but measurements."""
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
        import rasterio

        with rasterio.open(members.location(name)) as raster:
            return raster.read(1)
    if name.lower().endswith(".npy"):
        return np.load(io.BytesIO(members.read(name)), allow_pickle=False)

    with Image.open(io.BytesIO(members.read(name))) as image:
        array = np.asarray(image)
    return array if array.ndim == 2 else array[..., 0]
