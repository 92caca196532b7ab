"""Precomputed embeddings: rasters read at an image's footprint, or tables joined by name or location."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.options import LeftOut, Options, Text
from permafrost.data.embeddings.places import Place
from permafrost.data.embeddings.rasters import RasterEmbeddings, RasterOptions
from permafrost.data.embeddings.tables import TableEmbeddings, TableOptions


@dataclass(frozen=True, kw_only=True)
class EmbeddingsOptions(Options):
    """Precomputed embeddings."""

    RULES = {"oneOf": [{"required": ["rasters"]}, {"required": ["table"]}]}

    path: Text
    """A file, or a folder whose files `pattern` chooses."""
    unmatched: Literal["error", "drop"] = "error"
    """How to treat images without an embedding: an error that names them, or drop them from the dataset for all
    backbones, so that all are compared on the same images."""
    rasters: LeftOut[RasterOptions] = None
    """GeoTIFFs whose bands are the components of an embedding."""
    table: LeftOut[TableOptions] = None
    """Parquet, GeoParquet or CSV files with one embedding per row."""


class _Rasters:
    """Implements `Located`."""

    needs_place, layer, parameters = True, "embedding", 0
    weights_sha256, packages = None, ("rasterio",)

    def __init__(self, options: EmbeddingsOptions, where: str) -> None:
        self._options = options.rasters
        self._source = RasterEmbeddings(options.path, options.rasters, where)
        self._images = self._centres = 0
        self.pooling = options.rasters.pool

    def features(self, places: Sequence[Place]) -> tuple[np.ndarray, dict[int, str]]:
        width = self._source.channels * (2 if self._options.pool == "mean_std" else 1)
        rows, reasons = np.zeros((len(places), width), np.float32), {}
        for number, place in enumerate(places):
            found = self._source.pooled(place)
            if found is None:
                reasons[number] = self._source.reason(place)
            else:
                rows[number] = found
            self._centres += not place.footprint
        self._images += len(places)
        return rows, reasons

    def maps(self, place: Place, rows: int, columns: int) -> np.ndarray:
        return self._source.mapped(place, rows, columns)

    def describe(self) -> dict:
        return {
            "rasters": {**_given(self._options), "read": self._source.describe()},
            "images": self._images,
            "by_centre_only": self._centres,
        }


class _Table:
    """Implements `Located`."""

    layer, pooling, parameters = None, "none", 0
    weights_sha256, packages = None, ("pyarrow",)

    def __init__(self, options: EmbeddingsOptions, where: str) -> None:
        self._options = options.table
        self._source = TableEmbeddings(options.path, options.table, where)
        self.needs_place = options.table.by == "nearest"
        self._distances: list[float]
        self._images, self._distances = 0, []

    def features(self, places: Sequence[Place]) -> tuple[np.ndarray, dict[int, str]]:
        found = [self._source.find(place) for place in places]
        reasons = {number: one.reason for number, one in enumerate(found) if one.row is None}
        rows = [one.row for one in found if one.row is not None]
        self._images += len(places)
        if reasons:
            return np.empty((len(places), 0), np.float32), reasons
        self._distances += [one.distance_m for one in found if one.distance_m is not None]
        return self._source.read(rows), {}

    def maps(self, place: Place, rows: int, columns: int) -> np.ndarray:
        raise TypeError("a table has one embedding for an image, and no maps")

    def describe(self) -> dict:
        about = {
            "table": {**_given(self._options), "read": self._source.describe()},
            "images": self._images,
        }
        if self._distances:
            apart = np.array(self._distances)
            about["distance_m"] = {
                "median": round(float(np.median(apart)), 3),
                "max": round(float(apart.max()), 3),
            }
        return about


def _given(options) -> dict:
    return {key: value for key, value in asdict(options).items() if value is not None}


def locate(options: EmbeddingsOptions, where: str, **_) -> _Rasters | _Table:
    """Open the embeddings of an entry; `weights_folder` is ignored.

    Raises
    ------
    PermafrostError : not exactly one of `rasters` and `table`, or the files cannot be read.
    """
    if (options.rasters is None) == (options.table is None):
        raise PermafrostError(
            "embeddings are in rasters or in a table, not both",
            where=where,
            remedy="give either `rasters` or `table`",
        )
    return (_Table if options.rasters is None else _Rasters)(options, where)
