"""Location and date of images, as far as an image store knows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from permafrost.data.files.georeference import check_crs

if TYPE_CHECKING:
    from permafrost.data.store.image_store import ImageStore

DEGREES = "EPSG:4326"


@dataclass(frozen=True)
class Place:
    """Location of one image, or of one date of a series.

    Attributes
    ----------
    lon, lat : of its centre in degrees (WGS 84).
    day : date as ISO 8601; None if unknown.
    crs, transform : of its pixels, see `image_store.GEOREFERENCE`; None if only the centre is
        known.
    height, width : in pixels.
    """

    sample_id: str
    lon: float | None
    lat: float | None
    day: str | None
    crs: str | None
    transform: tuple[float, ...] | None
    height: int
    width: int

    @property
    def known(self) -> bool:
        return self.lon is not None and self.lat is not None

    @property
    def footprint(self) -> bool:
        """Whether the location of every pixel is known."""
        return self.crs is not None and self.transform is not None

    @property
    def year(self) -> int | None:
        text = (self.day or "")[:4]
        return int(text) if len(text) == 4 and text.isdigit() else None

    def ordinal(self) -> int | None:
        """The day as days since year 1; None if no complete date is known."""
        return ordinal(self.day)

    def cells(self, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """x and y, (rows · columns) each, of the cell centres of a grid over the image, in its coordinate system."""
        row = (np.arange(rows) + 0.5) * self.height / rows
        column = (np.arange(columns) + 0.5) * self.width / columns
        return self.at(*(one.ravel() for one in np.meshgrid(row, column, indexing="ij")))

    def at(self, row: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x and y of positions in the image, in pixels from its upper left corner."""
        a, b, c, d, e, f = self.transform
        return a * column + b * row + c, d * column + e * row + f

    def outline(self, steps: int = 16) -> tuple[np.ndarray, np.ndarray]:
        """x and y of points on its border, which other coordinate systems bend; of its centre if no more is known."""
        if not self.footprint:
            return np.array([self.lon]), np.array([self.lat])
        way = np.linspace(0, 1, steps + 1)
        zero, one = np.zeros_like(way), np.ones_like(way)
        row = np.concatenate([zero, one, way, way]) * self.height
        column = np.concatenate([way, way, zero, one]) * self.width
        return self.at(row, column)


def ordinal(day: str | None) -> int | None:
    """Days since year 1 of an ISO 8601 date; None for other texts."""
    try:
        return date.fromisoformat((day or "")[:10]).toordinal()
    except ValueError:
        return None


def places_of(store: ImageStore) -> tuple[list[Place], np.ndarray | None]:
    """Places of all images of a store, and the number of dates of each sample; None for single images.

    Every date of a series is a place of its own; the samples follow each other.
    """
    series = next((one for one in store.modalities if one.dates is not None), None)
    column = None if series is None else series.dates
    places = [place for dates in places_in(store.samples, column) for place in dates]
    return places, None if series is None else store.date_counts(series)


def places_in(samples: pa.Table, series: str | None) -> list[list[Place]]:
    """The places of the dates of each sample.

    Parameters
    ----------
    samples : an image store's table of samples.
    series : column with the dates of each sample; None if a sample is one image.
    """
    column = "date" if series is None else series
    rows = samples.select(
        [
            name
            for name in ("sample_id", "lon", "lat", "crs", "transform", "height", "width", column)
            if name in samples.column_names
        ]
    ).to_pylist()
    places = []
    for row in rows:
        days = row.get(column) if series is not None else [row.get(column)]
        known = row.get("crs") is not None and row.get("transform") is not None
        places.append(
            [
                Place(
                    row["sample_id"],
                    row.get("lon"),
                    row.get("lat"),
                    day,
                    row["crs"] if known else None,
                    tuple(row["transform"]) if known else None,
                    row["height"],
                    row["width"],
                )
                for day in days
            ]
        )
    return places


def moved(source: str, target: str, x, y) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in another system; infinite where it has none for them."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if source == target or not len(x):
        return x, y
    from rasterio._err import CPLE_BaseError
    from rasterio.warp import transform

    check_crs(source)
    try:
        found = transform(source, target, x.tolist(), y.tolist())
    except CPLE_BaseError:
        # such as a point on the other side of the Earth from a UTM zone
        return np.full(x.shape, np.inf), np.full(x.shape, np.inf)
    return np.array(found[0]), np.array(found[1])


def unit_vectors(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """(n, 3) points on the unit sphere, from degrees; 180° and -180° give the same points."""
    lon, lat = np.radians(lon), np.radians(lat)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def ball(crs: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre (3,) and radius of a ball that holds these points on the unit sphere.

    It holds the whole sphere if a point has no longitude and latitude.
    """
    places = unit_vectors(*moved(crs, DEGREES, x, y))
    if not np.isfinite(places).all():
        return np.zeros(3), 2.0
    centre = places.mean(axis=0)
    return centre, float(np.linalg.norm(places - centre, axis=1).max())
