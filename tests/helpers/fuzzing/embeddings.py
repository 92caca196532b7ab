"""Embeddings that others computed: parquet and CSV tables, and rasters, found and read at a place."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from permafrost.data.embeddings.rasters import RasterEmbeddings
from permafrost.data.embeddings.tables import TableEmbeddings

from helpers.backbones import backbone_entry
from helpers.datasets.images import geotiff
from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import sandbox, written
from helpers.stores.places import image_at, point


def _options(**options):
    entry = {"kind": "embeddings", "path": str(sandbox()), **options}
    return backbone_entry(entry).options


def _table(data: bytes) -> None:
    path, by = written(data[1:], "e.parquet"), data[:1]
    if by == b"i":
        given = {"by": "id", "id": "id", "embedding": "embedding"}
    else:
        given = {"by": "nearest", "within_m": 1e9, "embedding": "embedding"}
        given |= {"geometry": "geometry"} if by == b"g" else {"lon": "lon", "lat": "lat"}
    found = TableEmbeddings(str(path), _options(table=given).table, "backbone x")
    row = found.find(point(10, 50, name="a")).row
    if row is not None:
        found.read([row])


def _csv(data: bytes) -> None:
    path = written(data, "e.csv")
    given = {"by": "stem", "id": "id", "embedding": "*"}
    found = TableEmbeddings(str(path), _options(table=given).table, "backbone x")
    row = found.find(point(10, 50, name="x/a.tif")).row
    if row is not None:
        found.read([row])


def _raster(data: bytes) -> None:
    path = written(data, "e.tif")
    found = RasterEmbeddings(
        str(path), _options(rasters={"pattern": "*.tif"}).rasters, "backbone x"
    )
    place = image_at(10.0, 50.0, crs="EPSG:4326", pixel=1e-4)
    found.reason(place)
    found.pooled(place)
    found.mapped(place, 2, 2)


def _tables() -> list[bytes]:
    import shapely

    stream, numbers = io.BytesIO(), np.arange(6, dtype=np.float32).reshape(3, 2)
    columns = {"id": ["a", "b", "c"], "lon": [10.0, 11, 12], "lat": [50.0, 51, 52]}
    wkb = [shapely.to_wkb(shapely.Point(10 + n, 50)) for n in range(3)]
    table = pa.table({**columns, "geometry": wkb, "embedding": list(numbers)})
    pq.write_table(table.replace_schema_metadata({"geo": "{}"}), stream)
    return [kind + stream.getvalue() for kind in (b"i", b"g", b"n")]


def _csvs() -> list[bytes]:
    return [b"id,0,1\na,1,-2e5\nb,3,nan\n", b'\xef\xbb\xbf"id",x\r\n"a.zarr",0.5\r\n']


def _rasters() -> list[bytes]:
    values = np.random.default_rng(0).normal(size=(4, 8, 8)).astype(np.float32)
    return [geotiff(values), geotiff(values.astype(np.int8), compress="deflate", nodata=-128)]


READERS = {
    "embedding-table": Reader(_table, _tables, ("geo", '{"columns": {"geometry": {"crs": null}}}')),
    "embedding-csv": Reader(_csv, _csvs, ("id", ",", '"', ".zarr.zip", "1e39")),
    "embedding-raster": Reader(_raster, _rasters),
}
