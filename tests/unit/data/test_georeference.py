"""Where pixels lie is kept with the samples, exactly, so that masks can be written back."""

import numpy as np
import pytest
from affine import Affine
from helpers.datasets.images import Prepared, encode, geotiff, mask, pair_entry, photo, write_folder
from permafrost.data.decode import tiff_place
from permafrost.data.georeference import NOWHERE
from permafrost.data.image_store import SAMPLES_SCHEMA, ImageStore

UTM = {"crs": "EPSG:32633", "transform": Affine(0.5, 0, 500_000, 0, -0.5, 5_000_000)}


def image(number: int, **place) -> bytes:
    return geotiff(photo(number).transpose(2, 0, 1), **place)


def test_crs_and_transform_are_those_of_the_file():
    place = tiff_place(image(0, **UTM))
    assert place.crs == "EPSG:32633"
    assert place.transform == (0.5, 0.0, 500_000.0, 0.0, -0.5, 5_000_000.0)
    assert place.size == (24, 32)
    x, y = Affine(*place.transform) @ (16, 12)
    assert (x, y) == (500_008, 4_999_994)
    assert place.lon == pytest.approx(15, abs=1e-3)


def test_a_crs_without_a_number_is_kept_as_text():
    import rasterio

    own = "+proj=laea +lat_0=12.3 +lon_0=45.6 +datum=WGS84 +units=m"
    place = tiff_place(image(0, crs=own, transform=Affine(30, 0, 0, 0, -30, 0)))
    assert rasterio.CRS.from_string(place.crs) == rasterio.CRS.from_string(own)


def test_a_transform_without_a_crs_is_kept_and_a_plain_tiff_lies_nowhere():
    place = tiff_place(image(0, crs=None, transform=Affine(2, 0, 10, 0, -2, 20)))
    assert (place.crs, place.lon) == (None, None) and place.transform[2] == 10
    assert tiff_place(encode(photo(0), "tiff")) == NOWHERE


def pairs(places: list[dict | None]) -> dict[str, bytes]:
    files = {}
    for number, place in enumerate(places):
        if place is None:
            files[f"images/{number:02d}.png"] = encode(photo(number))
        else:
            files[f"images/{number:02d}.tif"] = image(number, **place)
        files[f"masks/{number:02d}.tif"] = geotiff(mask(number)[None], **(place or {}))
    return files


def test_the_samples_of_all_splits_say_where_they_lie_or_that_they_do_not(tmp_path):
    places = [
        None if i == 5 else {**UTM, "transform": Affine(1, 0, i, 0, -1, 9)} for i in range(12)
    ]
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", pairs(places))))
    seen = {}
    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split])
        assert store.samples.schema.names == [*SAMPLES_SCHEMA.names, "crs", "transform"]
        assert store.read().masks.shape[1:] == (24, 32)
        for row in store.samples.to_pylist():
            seen[row["sample_id"]] = (row["crs"], row["transform"])
    assert seen.pop("images/05.png") == (None, None)
    for name, (crs, transform) in seen.items():
        assert crs == "EPSG:32633"
        assert transform == [1, 0, int(name[len("images/") : -len(".tif")]), 0, -1, 9]


def test_without_any_place_there_are_no_such_columns(tmp_path):
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", pairs([None] * 12))))
    assert ImageStore(out.outputs["train"]).samples.schema.equals(SAMPLES_SCHEMA)


def test_pixels_and_masks_of_geotiffs_are_exact(tmp_path):
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", pairs([UTM] * 12))))
    store = ImageStore(out.outputs["val"])
    for name, pixels, truth in zip(
        store.samples["sample_id"].to_pylist(), store.read().images, store.read().masks, strict=True
    ):
        number = int(name[len("images/") : -len(".tif")])
        np.testing.assert_array_equal(pixels, photo(number).transpose(2, 0, 1))
        np.testing.assert_array_equal(truth, mask(number))
