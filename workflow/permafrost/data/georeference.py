"""Where the pixels of an image lie: taken from its file, kept so that masks can be written back."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.data.windows import Window


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
    """The georeference of an open rasterio dataset."""
    if dataset.transform.is_identity:
        return NOWHERE
    transform = tuple(float(value) for value in tuple(dataset.transform)[:6])
    size = (dataset.height, dataset.width)
    return _placed(None if dataset.crs is None else dataset.crs.to_string(), transform, size)


def _placed(crs: str | None, transform: tuple[float, ...], size: tuple[int, int]) -> Georeference:
    """With lon and lat of the centre, where the coordinate system is known."""
    if crs is None:
        return Georeference(transform=transform, size=size)
    from rasterio.warp import transform as reproject

    a, b, c, d, e, f = transform
    height, width = size
    x, y = a * width / 2 + b * height / 2 + c, d * width / 2 + e * height / 2 + f
    (lon,), (lat,) = reproject(crs, "EPSG:4326", [x], [y])
    return Georeference(crs, transform, float(lon), float(lat), size)
