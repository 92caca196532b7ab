"""Tables of embeddings: the row that belongs to an image, by its name or by its place."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from helpers.backbones import backbone_entry
from helpers.stores.places import point
from permafrost.core.errors import PermafrostError
from permafrost.data.embeddings.tables import TableEmbeddings

ROWS = 300
GENERATOR = np.random.default_rng(5)
LON = GENERATOR.uniform(-180, 180, ROWS)
LAT = np.degrees(np.arcsin(GENERATOR.uniform(-1, 1, ROWS)))
VECTORS = GENERATOR.normal(size=(ROWS, 6)).astype(np.float32)
NEAREST = {"by": "nearest", "lon": "lon", "lat": "lat", "embedding": "embedding"}


def write(path, *, rows=slice(None), group=50, **columns):
    """A table with ids, places and embeddings, cut into groups of rows."""
    known = {
        "id": [f"row-{i}" for i in range(ROWS)][rows],
        "lon": LON[rows],
        "lat": LAT[rows],
        "embedding": list(VECTORS[rows]),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**known, **columns}), path, row_group_size=group)
    return path


def opened(path, **table) -> TableEmbeddings:
    entry = {"kind": "embeddings", "path": str(path), "table": table}
    return TableEmbeddings(str(path), backbone_entry(entry).options.table, "backbone x")


def haversine_m(lon, lat, lons, lats) -> np.ndarray:
    lon, lat, lons, lats = map(np.radians, (lon, lat, lons, lats))
    half = np.sin((lats - lat) / 2) ** 2
    half += np.cos(lat) * np.cos(lats) * np.sin((lons - lon) / 2) ** 2
    return 2 * 6_371_008.8 * np.arcsin(np.sqrt(half))


@pytest.mark.parametrize("seed", range(3))
def test_nearest_is_that_of_all_great_circles(tmp_path, seed):
    source = opened(write(tmp_path / "a.parquet"), **NEAREST, within_m=1e6)
    generator = np.random.default_rng(seed)
    matched = 0
    for _ in range(100):
        lon, lat = generator.uniform(-180, 180), generator.uniform(-90, 90)
        apart = haversine_m(lon, lat, LON, LAT)
        found = source.find(point(lon, lat))
        assert found.distance_m == pytest.approx(apart.min(), rel=1e-6)
        if apart.min() <= 1e6:
            matched += 1
            assert found.row == apart.argmin()
        else:
            assert found.row is None and "over 1e+06 m" in found.reason
    assert 20 < matched < 100


def test_nearest_across_the_antimeridian_and_at_the_pole(tmp_path):
    lon, lat = np.array([179.99, -170.0, 10.0]), np.array([5.0, 5.0, 89.99])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"lon": lon, "lat": lat, "embedding": list(VECTORS[:3])}), path)
    source = opened(path, **NEAREST, within_m=5000)
    assert source.find(point(-179.99, 5.0)).row == 0
    assert source.find(point(180.0, 5.0)).row == source.find(point(-180.0, 5.0)).row == 0
    assert source.find(point(-170.0, 89.99)).row == 2
    assert source.find(point(359.99 - 180, 5.0)).row == 0


def test_rows_are_read_from_all_files_and_groups_in_the_order_asked(tmp_path):
    write(tmp_path / "1.parquet", rows=slice(0, 120), group=7)
    write(tmp_path / "2.parquet", rows=slice(120, None), group=100)
    source = opened(tmp_path, by="id", id="id", embedding="embedding")
    rows = np.random.default_rng(0).permutation(ROWS)
    assert [source.find(point(0, 0, name=f"row-{i}")).row for i in rows] == rows.tolist()
    assert np.array_equal(source.read(rows), VECTORS[rows])
    assert source.find(point(0, 0, name="row-999")).reason == "no row has its name"


@pytest.mark.parametrize("wanted", ["emb_*", [f"emb_{i}" for i in range(12)]])
def test_embedding_in_many_columns_in_the_order_of_their_numbers(tmp_path, wanted):
    wide = np.random.default_rng(0).normal(size=(4, 12))
    columns = {f"emb_{i}": wide[:, i] for i in sorted(range(12), key=str)}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": list("abcd"), **columns}), path)
    source = opened(path, by="id", id="id", embedding=wanted)
    assert np.array_equal(source.read([2, 0]), wide[[2, 0]].astype(np.float32))


def test_geometry_counts_by_its_centroid(tmp_path):
    boxes = shapely.box(LON - 0.1, LAT - 0.05, LON + 0.1, LAT + 0.05)
    path = write(tmp_path / "a.parquet", geometry=shapely.to_wkb(boxes))
    options = {"by": "nearest", "geometry": "geometry", "embedding": "embedding", "within_m": 1}
    source = opened(path, **options)
    assert [source.find(point(LON[i], LAT[i])).row for i in range(5)] == list(range(5))
    table = pq.read_table(path)
    geo = {"columns": {"geometry": {"crs": "EPSG:32633"}}}
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    with pytest.raises(PermafrostError, match="in EPSG:32633, not in degrees"):
        opened(path, **options)


@pytest.mark.parametrize("as_text", [True, False])
def test_rows_of_the_year_and_of_the_nearest_day(tmp_path, as_text):
    days = ["2019-01-01", "2020-03-01", "2020-09-01", "2021-05-05"]
    columns = {"lon": [8.0] * 4, "lat": [47.0] * 4, "embedding": list(VECTORS[:4])}
    columns["day"] = days if as_text else pa.array(np.array(days, "datetime64[us]"))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    source = opened(path, **NEAREST, within_m=10, date="day")
    found = {
        day: source.find(point(8.0, 47.0, day=day)).row
        for day in ("2019-12-31", "2020-05-01", "2020-07-01", "2021-01-01")
    }
    assert found == {"2019-12-31": 0, "2020-05-01": 1, "2020-07-01": 2, "2021-01-01": 3}
    assert source.find(point(8.0, 47.0, day="2018-01-01")).reason == "no row is of 2018"
    assert source.find(point(8.0, 47.0)).reason == "its year is not known"


@pytest.mark.parametrize("options", [{**NEAREST, "within_m": 10}, {"by": "id", "id": "id"}])
def test_rows_that_belong_to_an_image_equally_are_refused(tmp_path, options):
    columns = {"id": ["a", "b", "a"], "lon": [1.0, 2.0, 1.0], "lat": [1.0, 2.0, 1.0]}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**columns, "embedding": list(VECTORS[:3])}), path)
    source = opened(path, **{"embedding": "embedding", **options})
    assert source.find(point(2.0, 2.0, name="b")).row == 1
    with pytest.raises(PermafrostError, match=r"2 rows match sample 'a' equally well \(rows 1, 3"):
        source.find(point(1.0, 1.0, name="a"))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({**NEAREST}, "needs `within_m`"),
        ({"by": "nearest", "lon": "lon", "within_m": 1.0}, "needs the columns"),
        ({"by": "id"}, "needs the name of the column"),
        ({"by": "id", "id": "id", "within_m": 1.0}, "uses neither within_m"),
        ({"by": "id", "id": "name"}, "no column 'name', "),
        ({**NEAREST, "within_m": 1.0, "id": "id"}, "does not use `id`"),
    ],
)
def test_options_that_tell_no_row_are_refused(tmp_path, table, problem):
    write(tmp_path / "a.parquet")
    with pytest.raises(PermafrostError, match=problem):
        opened(tmp_path / "a.parquet", **{"embedding": "embedding", **table})


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no table")
    with pytest.raises(PermafrostError, match=r"a\.parquet: .*the table cannot be read"):
        opened(tmp_path, by="id", id="id", embedding="embedding")
    write(tmp_path / "a.parquet")
    source = opened(tmp_path, by="id", id="id", embedding="vector")
    with pytest.raises(PermafrostError, match="no column of embeddings 'vector'"):
        source.read([0])
