"""Sentinel-2's offset of baseline 04.00: found in all images and in half of them, not seen in bright and dark land."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import Prepared, folder_entry, geotiff, write_folder
from helpers.datasets.sentinel2 import BANDS, WORLDS, world
from permafrost.data.bands.selection import dataset_bands
from permafrost.data.bands.statistics import BandStatistics
from permafrost.data.records import Record
from permafrost.data.store.offset_audit import offset_doubt

RGB = ["B04", "B03", "B02"]
ALL = np.ones(40, bool)
HALF = np.arange(40) >= 20
NONE = ~ALL


def doubt(images, where=None, *, names=BANDS, sensor="sentinel2-l2a", offset=0.0, dates=None):
    """What is found of images (C, H, W) of reflectance, to some of which the offset is added."""
    statistics = BandStatistics(len(names))
    where = np.zeros(len(images), bool) if where is None else where
    for image, has in zip(images, where, strict=True):
        statistics.add(np.round(1e4 * image + 1000 * has).astype(np.int32))
    bands = [
        {**band.as_dict(), "unit": "digital_number", "scale": 1e-4, "offset": offset}
        for band in dataset_bands(names, sensor)
    ]
    records = dates and [Record(str(i), "x", date=day) for i, day in enumerate(dates)]
    return offset_doubt(bands, names, statistics.sample, records)


def of(images, names):
    return [image[[BANDS.index(name) for name in names]] for image in images]


@pytest.mark.parametrize("level", ["l2a", "l1c"])
@pytest.mark.parametrize("kind", WORLDS)
def test_no_world_is_taken_for_shifted(kind, level):
    images, sensor = world(kind, level=level), f"sentinel2-{level}"
    assert doubt(images, sensor=sensor) is None
    # as it should be declared: all have the offset, and it is subtracted
    assert doubt(images, ALL, sensor=sensor, offset=-0.1) is None


@pytest.mark.parametrize("level", ["l2a", "l1c"])
@pytest.mark.parametrize("names", [BANDS, RGB], ids=["12", "rgb"])
@pytest.mark.parametrize("kind", ["land", "dark", "forest", "deserts and forests"])
def test_the_offset_is_found_in_all_and_in_half_of_the_images(kind, names, level):
    images, sensor = of(world(kind, level=level), names), f"sentinel2-{level}"
    found = doubt(images, ALL, names=names, sensor=sensor)
    assert (found["bands"], found["offset"]) == (names, "left in all images")
    found = doubt(images, HALF, names=names, sensor=sensor)
    share = int(found["offset"].removeprefix("left in ").split()[0])
    assert 15 <= share <= 20 and found["offset"].endswith("of 40 images")
    # reflectance as fractions is the same
    assert doubt(images, HALF, names=names, sensor=sensor)["found"] == found["found"]


def test_the_offset_is_found_by_date_where_few_have_it():
    images, few = world("land"), np.arange(40) >= 38
    days = ["2021-06-01"] * 38 + ["2022-02-03", "2022-07"]
    assert doubt(images, few) is None
    found = doubt(images, few, dates=days)
    assert found["offset"] == "left in 2 of 40 images"
    assert "(2022-02-03 to 2022-07)" in found["found"]
    # newer images without it, such as those of a collection that was harmonised
    assert doubt(images, dates=days) is None
    assert doubt(images, few, dates=["June"] * 40) is None


@pytest.mark.parametrize("where", [NONE, HALF])
def test_an_offset_that_is_subtracted_where_there_is_none_is_told(where):
    found = doubt(world("land"), where, offset=-0.1)
    how_many = "all images" if where is NONE else "20 of 40 images"
    assert found["offset"] == f"subtracted without need in {how_many}"


def test_other_sensors_and_other_units_are_not_looked_at():
    images = world("land")
    assert doubt(images, ALL, names=BANDS, sensor=None) is None
    assert doubt(of(images, ["B08", "B11"]), ALL, names=["B08", "B11"]) is None


def test_dates_of_a_series_are_looked_at_one_by_one():
    statistics = BandStatistics(len(BANDS))
    images = world("land")
    for before, after in zip(images[:20], images[20:], strict=True):
        pair = np.round(1e4 * np.stack([before, after + 0.1])).astype(np.int32)
        statistics.add(pair)
    bands = [
        {**band.as_dict(), "unit": "digital_number", "scale": 1e-4, "offset": 0.0}
        for band in dataset_bands(BANDS, "sentinel2-l2a")
    ]
    assert offset_doubt(bands, BANDS, statistics.sample)["offset"] == "left in 20 of 40 images"


def test_a_real_product_that_has_it_and_the_four_beside_it_that_have_not(shared_data):
    import rasterio

    images = {}
    for path in sorted((shared_data / "terramind_examples" / "S2L2A").glob("*.tif")):
        with rasterio.open(path) as file:
            images[path.stem] = file.read() / 1e4
    newer = images.pop("433D_629L_3_1")
    assert doubt(list(images.values())) is None
    assert doubt([newer])["offset"] == "left in all images"


def test_the_card_has_it(tmp_path):
    files = {}
    for number, image in enumerate(world("land", count=16)):
        pixels = np.round(1e4 * image + 1000).astype(np.uint16)
        files[f"{'ab'[number % 2]}/{number}.tif"] = geotiff(pixels)
    entry = folder_entry(
        write_folder(tmp_path / "set", files),
        bands=BANDS,
        sensor="sentinel2-l2a",
        units={"unit": "digital_number", "scale": 1e-4},
    )
    (found,) = Prepared(tmp_path / "with").run(entry)["audit"]["bands"]
    assert found["offset"] == "left in all images"
    entry["units"]["offset"] = -0.1
    assert Prepared(tmp_path / "without").run(entry)["audit"]["bands"] == []
