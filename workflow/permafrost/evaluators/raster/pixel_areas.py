"""True areas of a raster's pixels.

Pixels of equal size in degrees, or in metres of Web Mercator, differ in size on the ground: at a
latitude of 60° a pixel of a geographic raster covers half of what it covers at the equator. Corners
of pixels are converted to equal-area coordinates of the ellipsoid,

    u = longitude,   v = b^2/2 [sin(lat) / (1 - e^2 sin(lat)^2) + artanh(e sin(lat)) / e],

in which u times v is area, with the semi-minor axis b and the eccentricity e. The area of a pixel
between two parallels and two meridians is exact; that of other pixels, whose edges are nearly
straight, is nearly exact.
Source: Snyder, Map Projections: A Working Manual (1987), equations 3-12 and 10-13.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import first_line
from permafrost.data.files.georeference import moved

if TYPE_CHECKING:
    from affine import Affine

# relative differences below this are ignored: they include UTM zones, and equal-area maps that
# treat the ellipsoid as a sphere
SAME_AREA = 0.02
# positions per side at which areas are compared
_PLACES = 5
# step in pixels between computed areas of projected rasters: areas vary smoothly
_STEP = 16
# metres within which a projection's curvature is negligible
_WIDEST = 1000.0
_SPHEROID = re.compile(r'(?:SPHEROID|ELLIPSOID)\["[^"]*",\s*([\d.eE+]+),\s*([\d.eE+]+)')


@dataclass(frozen=True)
class PixelAreas:
    """The areas of a raster's pixels, as far as they are known.

    Attributes
    ----------
    grid : computes the areas; None if all are equal or unknown.
    bounds : the smallest and largest area in square metres, if there is a grid.
    name : of the coordinate system.
    problem : why pixels may differ in area although there is no grid; empty if they do not.
    """

    grid: Grid | None = None
    bounds: tuple[float, float] = (1.0, 1.0)
    name: str = ""
    problem: str = ""

    def window(self, left: int, top: int, width: int, height: int) -> np.ndarray | None:
        """(height, width) areas in square metres, (height, 1) if columns are equal, or None."""
        return None if self.grid is None else self.grid.areas(left, top, width, height)

    def sentence(self) -> str:
        """A remark on the areas; empty if pixels are equal."""
        if self.problem:
            return f"No area-weighted estimates: {self.problem}."
        if self.grid is None:
            return ""
        smallest, largest = (
            f"{bound:,.3g}" if bound < 100 else f"{bound:,.0f}" for bound in self.bounds
        )
        return (
            f"A pixel covers {smallest} to {largest} m² ({self.name}): all figures count pixels, whatever"
            " their area, but for the area-weighted estimates, which take the true areas."
        )


def pixel_areas(dataset) -> PixelAreas:
    """The areas of an open rasterio dataset's pixels.

    Areas in a projected system count as equal if they differ by less than `SAME_AREA`. So do those
    of a raster without coordinates or with a local system. Coordinates that look like degrees but
    have no named system are a problem.
    """
    crs, shape = dataset.crs, (dataset.width, dataset.height)
    if crs is None:
        return PixelAreas(problem=_suspicion(dataset.transform, shape))
    ellipsoid = _SPHEROID.search(crs.to_wkt())
    if ellipsoid is None:  # a local system
        return PixelAreas()
    try:
        grid = Grid.of(crs, dataset.transform, float(ellipsoid[1]), float(ellipsoid[2]))
        smallest, largest = grid.bounds(*shape)
    except ValueError as error:
        return PixelAreas(problem=f"the areas of pixels are not known ({error})")
    if not crs.is_geographic and largest <= (1 + SAME_AREA) * smallest:
        return PixelAreas()
    return PixelAreas(grid, (smallest, largest), crs.to_string()[:40])


@dataclass(frozen=True)
class Grid:
    """Pixels on an ellipsoid.

    Attributes
    ----------
    transform : affine, from column and row to coordinates.
    radians : radians per unit of geographic coordinates.
    crs, geodetic : the projected system, and the geographic system that it is based on.
    axis, flattening : of the ellipsoid: semi-major axis in metres, and 1 / f (0 for a sphere).
    side : approximate side of a projected pixel, in metres.
    """

    transform: Affine
    radians: float
    axis: float
    flattening: float
    side: float = 0.0
    crs: object = field(default=None, repr=False)
    geodetic: object = field(default=None, repr=False)

    @classmethod
    def of(cls, crs, transform, axis: float, flattening: float) -> Grid:
        """The grid of a rasterio CRS; ValueError if no geographic system belongs to it."""
        from rasterio.errors import RasterioError

        try:
            geodetic = crs if crs.is_geographic else crs.geodetic_crs
            _, radians = geodetic.units_factor
        except (RasterioError, SystemError) as error:
            raise ValueError(first_line(error)) from error
        if crs.is_geographic:
            return cls(transform, radians, axis, flattening)
        side = abs(transform.determinant) ** 0.5 * crs.units_factor[1]
        return cls(transform, radians, axis, flattening, side, crs, geodetic)

    def areas(self, left: int, top: int, width: int, height: int) -> np.ndarray:
        """(height, width) areas in square metres; (height, 1) if the rows are parallels.

        For a projected raster, only some pixels are computed and the others interpolated.
        """
        if self.crs is None:
            if self.transform.b == self.transform.d == 0:
                width = 1
            columns = np.arange(left, left + width + 1)
            rows = np.arange(top, top + height + 1)[:, None]
            return _quads(*self._equal_area(columns, rows))
        columns, rows = _places(left, width), _places(top, height)
        # the middle represents a huge pixel, whose edges may be curved, as near a pole
        part = min(1.0, _WIDEST / max(self.side, 1.0))
        # both edges of each of these squares, hence every second quad
        corners = self._equal_area(_edges(columns, part), _edges(rows, part)[:, None])
        known = _quads(*corners)[::2, ::2] / part**2
        outside = ~np.isfinite(known)
        if outside.all():
            return np.zeros((height, width))
        # the empty corners of a world map have no data, but need a finite area
        known[outside] = known[~outside].mean()
        across = np.stack([np.interp(np.arange(width), columns - left, row) for row in known])
        return np.stack(
            [np.interp(np.arange(height), rows - top, column) for column in across.T], axis=1
        )

    def bounds(self, width: int, height: int) -> tuple[float, float]:
        """The smallest and the largest area at positions that are on the ellipsoid."""
        columns = np.unique(np.linspace(0, width - 1, _PLACES).astype(int))
        rows = np.unique(np.linspace(0, height - 1, _PLACES).astype(int))
        found = [self.areas(int(x), int(y), 1, 1)[0, 0] for y in rows for x in columns]
        found = [float(area) for area in found if area > 0]
        if not found:
            raise ValueError("the raster is outside the valid area of its coordinate system")
        return min(found), max(found)

    def _equal_area(self, columns: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b, c, d, e, f = tuple(self.transform)[:6]
        x, y = np.broadcast_arrays(a * columns + b * rows + c, d * columns + e * rows + f)
        if self.crs is not None:
            x, y = self._unproject(x, y)
        # a global raster may extend half a pixel beyond the poles
        latitude = np.clip(y * self.radians, -np.pi / 2, np.pi / 2)
        return x * self.radians, self._height(np.sin(latitude))

    def _unproject(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Longitudes and latitudes; NaN outside the projection's domain."""
        found = moved(self.crs, self.geodetic, x.ravel(), y.ravel())
        return tuple(values.reshape(x.shape) for values in found)

    def _height(self, sine: np.ndarray) -> np.ndarray:
        """The coordinate v of the module's docstring."""
        flat = 1 / self.flattening if self.flattening else 0.0
        squared = flat * (2 - flat)
        minor = self.axis * (1 - flat)
        if not squared:
            return minor**2 * sine
        e = np.sqrt(squared)
        return minor**2 / 2 * (sine / (1 - squared * sine**2) + np.arctanh(e * sine) / e)


def _places(start: int, count: int) -> np.ndarray:
    """The first, the last and every `_STEP`-th of `count` pixels."""
    return np.unique([*range(start, start + count, _STEP), start + count - 1])


def _edges(pixels: np.ndarray, part: float) -> np.ndarray:
    """Both edges of the central `part` of each pixel, alternating."""
    return np.stack([pixels + 0.5 - part / 2, pixels + 0.5 + part / 2], axis=1).ravel()


def _quads(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Areas between (h + 1, w + 1) corners: half the cross product of the diagonals."""
    across = _turned(u[1:, 1:] - u[:-1, :-1]), v[1:, 1:] - v[:-1, :-1]
    back = _turned(u[1:, :-1] - u[:-1, 1:]), v[1:, :-1] - v[:-1, 1:]
    return np.abs(across[0] * back[1] - back[0] * across[1]) / 2


def _turned(angle: np.ndarray) -> np.ndarray:
    """Differences of longitudes along the shorter direction."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def _suspicion(transform, shape: tuple[int, int]) -> str:
    """Why coordinates without a system may be degrees; empty if they are not."""
    a, b, c, d, e, f = tuple(transform)[:6]
    corners = [(a * x + b * y + c, d * x + e * y + f) for x in (0, shape[0]) for y in (0, shape[1])]
    fine = max(abs(a), abs(b), abs(d), abs(e)) < 1
    inside = all(-180 <= x <= 360 and -90 <= y <= 90 for x, y in corners)
    if not (fine and inside):
        return ""
    return (
        "the rasters name no coordinate system, but their coordinates look like degrees, in which pixels"
        " differ in area; name the system (gdal_edit.py -a_srs EPSG:4326) in both"
    )
