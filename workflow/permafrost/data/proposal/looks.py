"""What a sample of images holds: bands, type, size, place. Reads headers, and of masks the pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files import Members
from permafrost.data.georeference import georeference

_MOST = 24
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
    pixel_m : side of a pixel on the ground.
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


def sample(names: Sequence[str], most: int = _MOST) -> list[str]:
    """At most so many of the names, evenly spread from the first to the last."""
    if len(names) <= most:
        return list(names)
    return [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]


def look_at(members: Members, names: Sequence[str], *, where: object) -> list[Look]:
    """What a sample of the images holds.

    Raises
    ------
    PermafrostError : one of them cannot be read.
    """
    return [_look(members, name, where) for name in sample(names)]


def _look(members: Members, name: str, where: object) -> Look:
    try:
        if name.lower().endswith((".tif", ".tiff")):
            return _tiff(members.location(name))
        from PIL import Image

        with members.open(name) as stream, Image.open(stream) as image:
            dtype = "uint16" if image.mode.startswith("I") else "uint8"
            bands = _COLOURS.get(image.mode, len(image.getbands()))
            return Look(bands, dtype, image.height, image.width, mode=image.mode)
    # readers fail in many ways on damaged files; each means the same here
    except Exception as error:
        raise PermafrostError(
            f"the image {name} cannot be read ({first_line(error)})",
            where=where,
            remedy="remove it, or get it again",
        ) from error


def _tiff(location: str) -> Look:
    import warnings

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
            clear = raster.colorinterp[-1].name == "alpha"
            bands = 3 if palette else raster.count - clear
            return Look(
                bands,
                raster.dtypes[0],
                raster.height,
                raster.width,
                "P" if palette else "RGBA" if clear else None,
                tuple(raster.descriptions[:bands]),
                raster.nodata,
                place.crs,
                place.lon,
                place.lat,
                pixel,
            )


def pixel_values(members: Members, names: Sequence[str], *, where: object) -> set[int] | None:
    """The values in a sample of masks; None where they are not whole numbers, but measurements."""
    import numpy as np

    found: set[int] = set()
    for name in sample(names):
        try:
            values = np.unique(_pixels(members, name))
        except Exception as error:
            raise PermafrostError(
                f"the mask {name} cannot be read ({first_line(error)})",
                where=where,
                remedy="remove it, or get it again",
            ) from error
        if values.dtype.kind == "f" or len(values) > 1000:
            return None
        found |= set(values.tolist())
    return found


def _pixels(members: Members, name: str):
    import io

    import numpy as np

    if name.lower().endswith((".tif", ".tiff")):
        import rasterio

        with rasterio.open(members.location(name)) as raster:
            return raster.read(1)
    if name.lower().endswith(".npy"):
        return np.load(io.BytesIO(members.read(name)), allow_pickle=False)
    from PIL import Image

    with Image.open(io.BytesIO(members.read(name))) as image:
        array = np.asarray(image)
    return array if array.ndim == 2 else array[..., 0]


def extent_km(looks: Sequence[Look]) -> float | None:
    """The longer side of the ground that the images' centres span; None without places."""
    placed = [look for look in looks if look.lon is not None]
    if not placed:
        return None
    lons, lats = [look.lon for look in placed], [look.lat for look in placed]
    north = (max(lats) - min(lats)) * 111.2
    east = (max(lons) - min(lons)) * 111.2 * math.cos(math.radians(sum(lats) / len(lats)))
    return max(north, east)
