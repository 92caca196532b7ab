"""Rasters of numbers that cannot be right give one clear error that names file, entry and remedy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import Prepared, encode, geotiff, photo, write_folder, write_table
from helpers.datasets.rasters import heights, npy, raster_entry, raster_files
from permafrost.core.errors import PermafrostError
from permafrost.plan.validation import validate


@pytest.fixture
def out(tmp_path):
    return Prepared(tmp_path / "out")


def refused(out, entry, *messages):
    with pytest.raises(PermafrostError) as caught:
        out.run(entry)
    text = str(caught.value)
    assert text.startswith("dataset set") and caught.value.remedy
    for message in messages:
        assert message in text
    assert out.leftovers() == []


def broken(tmp_path, data: bytes, name="targets/05.tif"):
    """A folder of pairs in which one file is another."""
    return write_folder(tmp_path / "set", {**raster_files(), name: data})


def of(array, **profile) -> bytes:
    return geotiff(np.asarray(array)[None], **profile)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (of(heights(5, (32, 24))), "is 32 x 24 pixels, the image 24 x 32"),
        (of(np.where(heights(5) > 5, np.inf, 1).astype(np.float32)), "values that are infinite"),
        (of(np.full((24, 32), 1e300)), "768 values that are infinite, or beyond"),
        (of(np.full((24, 32), -1, np.int16), nodata=-1), "marks -1 as nodata and holds it"),
        (geotiff(np.zeros((2, 24, 32), np.float32)), "has 2 channels, not one"),
        (of(np.zeros((24, 32), np.complex64)), "complex64 values"),
        (b"", "empty"),
        (b"II*\0garbage", "targets/05.tif"),
        (of(heights(5))[:900], "targets/05.tif"),
        (encode(photo(5), "jpeg"), "a JPEG, whose losses change values"),
        (encode(photo(5)), "has 3 channels, not one"),
        (encode(photo(5)[..., 0], "png", mode="P"), "has a palette"),
        (of(np.zeros((24, 32), np.uint8), colormap={0: (1, 2, 3)}), "has a palette"),
        (b"GIF89a", "neither TIFF, PNG nor npy"),
        (npy(np.zeros((24, 32), bool)), "bool values"),
        (npy(np.zeros((2, 24, 32))), "has shape (2, 24, 32)"),
        (npy(np.zeros((24, 32)))[:300], "not a readable npy"),
    ],
)
def test_one_raster_that_cannot_be_used(out, tmp_path, data, message):
    refused(
        out,
        raster_entry(broken(tmp_path, data)),
        "1 of 12 images cannot be used",
        "images/05.png: its target targets/05.tif",
        message,
    )


def test_pickles_are_never_run(out, tmp_path):
    data = npy(np.array([[print]], dtype=object))
    refused(out, raster_entry(broken(tmp_path, data)), "not a readable npy")


def test_an_image_without_a_raster_and_the_reverse(out, tmp_path):
    files = raster_files()
    del files["targets/05.tif"], files["images/07.png"]
    place = write_folder(tmp_path / "set", files)
    refused(
        out,
        raster_entry(place),
        "images without a target: images/05.png",
        "targets without an image: targets/07.tif",
    )


def test_a_raster_that_a_table_names_is_missing(out, tmp_path):
    place = write_folder(tmp_path / "set", raster_files())
    rows = [{"image": f"images/{i:02d}.png", "raster": f"targets/{i:02d}.tif"} for i in range(12)]
    rows[4]["raster"] = "targets/99.tif"
    table = write_table(tmp_path / "t.csv", rows)
    source = {"kind": "table", "table": str(table), "images": str(place), "path": "image"}
    entry = raster_entry(place)
    refused(out, {**entry, "source": {**source, "targets": "raster"}}, "1 of 12 targets", "99.tif")
    refused(out, {**entry, "source": source}, "the task pixel_regression needs targets in source")


def only(*kept: int) -> dict:
    """Rasters without data but for some."""
    files = raster_files()
    for number in range(12):
        if number not in kept:
            files[f"targets/{number:02d}.tif"] = of(np.full((24, 32), np.nan, np.float32))
    return files


def test_a_split_without_any_data(out, tmp_path):
    place = write_folder(tmp_path / "set", only(0))
    refused(out, raster_entry(place), "no pixel of", "has a target", "target.nodata")


def test_train_targets_that_are_all_the_same(out, tmp_path):
    files = raster_files(store=lambda target: of(np.full(target.shape, 7.5, np.float32)))
    refused(
        out, raster_entry(write_folder(tmp_path / "set", files)), "all targets of train are 7.5"
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"classes": ["low", "high"]}, "classes has no meaning here"),
        ({"ignore_index": 255}, "ignore_index has no meaning here"),
        ({"mask_values": {"1": "x"}}, "mask_values has no meaning here"),
        ({"tiles": {"size": 8}}, "tiles has no meaning"),
    ],
)
def test_options_of_other_tasks(out, tmp_path, more, message):
    refused(out, raster_entry(write_folder(tmp_path / "set", raster_files()), **more), message)


def test_masks_are_no_targets(out, tmp_path):
    place = write_folder(tmp_path / "set", raster_files())
    refused(out, raster_entry(place, {"masks": "targets"}), "masks in source have no meaning")
    entry = raster_entry(place, {"targets": "targets"}, task="segmentation", classes=["a", "b"])
    refused(out, entry, "targets in source have no meaning")
    entry = raster_entry(place, {"targets": "targets"}, task="classification")
    refused(out, entry, "targets in source have no meaning for the task classification")


@pytest.mark.parametrize("key", ["nodata", "scale", "offset"])
def test_how_rasters_store_numbers_is_nothing_for_others(out, tmp_path, key):
    table = write_table(
        tmp_path / "t.csv", [{"image": f"images/{i:02d}.png", "height": i} for i in range(12)]
    )
    place = write_folder(tmp_path / "set", raster_files())
    entry = raster_entry(place, task="regression", target={key: 2})
    entry["source"] = {
        "kind": "table",
        "table": str(table),
        "images": str(place),
        "path": "image",
        "target": "height",
    }
    refused(out, entry, f"target.{key} has no meaning here")
    refused(
        out,
        {"task": "pixel_regression", "source": {"kind": "demo"}, "target": {key: 2}},
        f"target.{key} has no meaning here",
    )


@pytest.mark.parametrize("target", [{"scale": 0}, {"nodata": "nan"}, {"nodata": []}, {"fill": 0}])
def test_targets_that_mean_nothing_are_refused_by_the_schema(tmp_path, target):
    with pytest.raises(PermafrostError):
        validate(raster_entry(tmp_path, target=target), "dataset", where="test")
