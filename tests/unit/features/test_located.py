"""Backbones that are fed no pixels: the same stores as of others, from where images lie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
from helpers.stores.places import PlacedDataset, image_at, point, write_raster
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from rasterio import Affine

ORIGIN = (500_000.0, 5_300_000.0)
GRID = Affine(10, 0, ORIGIN[0], 0, -10, ORIGIN[1])
VALUES = np.random.default_rng(3).normal(size=(5, 80, 80)).astype(np.float32)


def places(kind=image_at) -> dict:
    """Images side by side: 9 of train, 4 of val, 5 of test."""
    found, number = {}, 0
    for split, count in zip(SPLITS, (9, 4, 5), strict=True):
        found[split] = []
        for _ in range(count):
            x, y = ORIGIN[0] + 80 * (number % 8), ORIGIN[1] - 80 * (number // 8)
            found[split].append(image_at(x, y, name=f"image-{number}", day="2020-06-01"))
            number += 1
    return found


def rasters(folder, **options) -> dict:
    write_raster(folder / "embeddings" / "a.tif", VALUES, GRID)
    return {"kind": "embeddings", "path": str(folder / "embeddings"), "rasters": options}


def test_rasters_become_embeddings_with_labels_and_what_they_were_made_of(tmp_path):
    dataset = PlacedDataset(tmp_path, places())
    stores = dataset.extract(rasters(tmp_path))
    number = 0
    for split, store in stores.items():
        for row in store.read("embeddings"):
            top, left = 8 * (number // 8), 8 * (number % 8)
            expected = VALUES[:, top : top + 8, left : left + 8].mean(axis=(1, 2))
            np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-6)
            number += 1
        assert store.samples()["sample_id"].to_pylist()[0] == dataset.places[split][0].sample_id
        assert store.read("labels").tolist() == [i % 3 for i in range(len(store))]
    about = stores["test"].attributes
    assert about["feature_dim"] == 5 and about["gates"] == [] and about["pooling"] == "mean"
    assert about["input"]["kind"] == "embeddings"
    assert about["input"]["images"] == 18 and about["input"]["by_centre_only"] == 0
    assert about["input"]["rasters"]["read"] == {"rasters": 1, "years": []}


def test_maps_on_the_grid_of_the_images_with_zeros_where_nothing_is(tmp_path):
    listed = places()
    listed["test"][0] = image_at(ORIGIN[0] - 40, ORIGIN[1], name="edge")
    dataset = PlacedDataset(tmp_path, listed, masks=True)
    stores = dataset.extract(rasters(tmp_path), maps_dtype="float32")
    train, test = stores["train"], stores["test"]
    assert train.attributes["working_size"] == [8, 8]
    assert train.attributes["layers"][0]["name"] == "embedding"
    assert np.array_equal(train.read("map0")[8], VALUES[:, 8:16, :8])
    assert train.attributes["cells_without_data"] == 0
    edge = test.read("map0")[0]
    assert not edge[:, :, :4].any() and np.array_equal(edge[:, :, 4:], VALUES[:, :8, :4])
    assert test.attributes["cells_without_data"] == 32
    assert np.array_equal(test.read("masks").shape, (5, 8, 8))
    coarse = dataset.extract({**rasters(tmp_path), "input": {"size": 4}}, out="coarse")
    assert coarse["train"].read("map0").shape == (9, 5, 4, 4)


def test_constant_embeddings_get_the_gate(tmp_path):
    entry = rasters(tmp_path)
    write_raster(tmp_path / "embeddings" / "a.tif", np.ones_like(VALUES), GRID)
    stores = PlacedDataset(tmp_path, places()).extract(entry)
    assert stores["train"].attributes["gates"] == ["collapsed_features"]


def test_images_without_an_embedding_are_one_error_and_nothing_is_written(tmp_path):
    listed = places()
    listed["train"][3] = image_at(ORIGIN[0] + 9e4, ORIGIN[1], name="far")
    listed["test"][1] = image_at(ORIGIN[0], ORIGIN[1] + 9e4, name="further")
    dataset = PlacedDataset(tmp_path, listed)
    with pytest.raises(PermafrostError) as error:
        dataset.extract(rasters(tmp_path))
    text = str(error.value)
    assert "2 of 18 images have no embedding: far: no raster has data under it; further:" in text
    assert "backbone tried on tiny" in text
    assert not (tmp_path / "features").exists()


@pytest.mark.parametrize(
    "entry", [{"kind": "coordinates", "encoder": "sines"}, "rasters", "nearest"]
)
def test_dataset_without_places_is_one_error(tmp_path, entry):
    listed = places()
    for number in (0, 4):
        listed["train"][number] = point(None, None, name=f"lost-{number}")
    dataset = PlacedDataset(tmp_path, listed)
    if entry == "rasters":
        entry = rasters(tmp_path)
    elif entry == "nearest":
        entry = table(tmp_path, by="nearest", lon="lon", lat="lat", within_m=1.0)
    with pytest.raises(
        PermafrostError,
        match="on tiny: 2 of 18 samples have no longitude and latitude, first 'lost-0'",
    ):
        dataset.extract(entry)


def table(folder, **options) -> dict:
    listed = [one for some in places().values() for one in some]
    columns = {
        name: [getattr(one, key) for one in listed]
        for name, key in (("id", "sample_id"), ("lon", "lon"), ("lat", "lat"))
    }
    columns["embedding"] = [VALUES[:, i, i] for i in range(len(listed))]
    (folder / "tables").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / "tables" / "a.parquet")
    path = str(folder / "tables")
    return {"kind": "embeddings", "path": path, "table": {"embedding": "embedding", **options}}


@pytest.mark.parametrize(
    "options",
    [{"by": "id", "id": "id"}, {"by": "nearest", "lon": "lon", "lat": "lat", "within_m": 5.0}],
)
def test_tables_by_name_and_by_place_give_the_same(tmp_path, options):
    stores = PlacedDataset(tmp_path, places()).extract(table(tmp_path, **options))
    found = np.concatenate([store.read("embeddings") for store in stores.values()])
    assert np.array_equal(found, VALUES[:, np.arange(18), np.arange(18)].T)
    about = stores["train"].attributes["input"]
    assert about["table"]["by"] == options["by"]
    assert about["table"]["read"] == {"tables": 1, "rows": 18}
    assert about.get("distance_m") == ({"median": 0.0, "max": 0.0} if "lon" in options else None)


def test_table_makes_no_maps(tmp_path):
    dataset = PlacedDataset(tmp_path, places(), masks=True)
    with pytest.raises(PermafrostError, match="a table has one embedding for an image"):
        dataset.extract(table(tmp_path, by="id", id="id"))


def test_maps_of_coordinates_are_those_of_the_centres_of_pixels(tmp_path):
    from permafrost.backbones.coordinates import harmonics

    dataset = PlacedDataset(tmp_path, places(), masks=True)
    entry = {"kind": "coordinates", "encoder": "harmonics", "degree": 4}
    store = dataset.extract(entry, maps_dtype="float32")["train"]
    found = store.read("map0")[1]
    x, y = ORIGIN[0] + 80 + 10 * 2.5, ORIGIN[1] - 10 * 6.5
    (lon,), (lat,) = rasterio.warp.transform("EPSG:32633", "EPSG:4326", [x], [y])
    expected = harmonics(np.array([lon]), np.array([lat]), 4)[0]
    np.testing.assert_allclose(found[:, 6, 2], expected, rtol=1e-5, atol=1e-7)
