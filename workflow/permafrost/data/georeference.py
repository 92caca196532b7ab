"""Where the pixels of an image lie: taken from its file, kept so that masks can be written back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Georeference:
    """What a file says about its place; None where it says nothing.

    ``crs``: ``EPSG:…`` or WKT. ``transform``: (a, b, c, d, e, f) with x = a·column + b·row + c and
    y = d·column + e·row + f, for the upper left corner of a pixel. ``lon``, ``lat``: the centre of the
    image in degrees (WGS 84). ``size``: height and width that the transform belongs to.
    """

    crs: str | None = None
    transform: tuple[float, ...] | None = None
    lon: float | None = None
    lat: float | None = None
    size: tuple[int, int] | None = None


NOWHERE = Georeference()


def georeference(dataset) -> Georeference:
    """The georeference of an open rasterio dataset."""
    if dataset.transform.is_identity:
        return NOWHERE
    transform = tuple(float(value) for value in tuple(dataset.transform)[:6])
    size = (dataset.height, dataset.width)
    if dataset.crs is None:
        return Georeference(transform=transform, size=size)
    from rasterio.warp import transform as reproject

    x, y = dataset.transform @ (dataset.width / 2, dataset.height / 2)
    (lon,), (lat,) = reproject(dataset.crs, "EPSG:4326", [x], [y])
    return Georeference(dataset.crs.to_string(), transform, float(lon), float(lat), size)
