"""Tiles of several sensors on one ground are the windows of each, with what each of them misses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.grids import grid_entry, windows, write_pair, write_raster
from helpers.datasets.images import Prepared, open_source
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore

MODALITIES = {
    "optical": {"sensor": "rgb", "bands": ["red", "green", "blue"], "units": {"unit": "uint8"}},
    "radar": {"sensor": "sentinel1", "bands": ["VV", "VH"], "units": {"unit": "db"}},
}


def of_sensors(folder, images=None, **more) -> dict:
    """An entry of two sensors on one ground: ``image.tif`` and ``radar.tif``."""
    images = images or {"radar": "radar.tif", "optical": "image.tif"}
    entry = grid_entry(folder, {"images": images}, modalities=MODALITIES, **more)
    return {key: value for key, value in entry.items() if key not in ("bands", "sensor", "units")}


def write_sensors(folder, **radar) -> tuple[np.ndarray, np.ndarray]:
    image, _ = write_pair(folder)
    echo = np.random.default_rng(5).normal(-12, 3, (2, 96, 128)).astype(np.float32)
    write_raster(folder / "radar.tif", echo, **radar)
    return image, echo


def test_a_tile_of_several_sensors_is_the_window_of_each(tmp_path):
    image, echo = write_sensors(tmp_path)
    source = open_source(of_sensors(tmp_path))
    # in the order of the modalities
    assert [band.name for band in source.bands] == ["red", "green", "blue", "VV", "VH"]
    for index, (x, y) in enumerate(windows(source)):
        decoded = source.decode(index)
        part = np.s_[:, y : y + 16, x : x + 16]
        np.testing.assert_array_equal(decoded.image, image[part])
        (radar,) = decoded.further
        np.testing.assert_array_equal(radar, echo[part])
        assert radar.dtype == np.float32 and decoded.image.dtype == np.uint8


def test_bands_of_a_sensor_in_files_of_their_own(tmp_path):
    _, echo = write_sensors(tmp_path)
    for number, name in enumerate(("VV", "VH")):
        write_raster(tmp_path / f"{name}.tif", echo[number : number + 1])
    images = {"optical": "image.tif", "radar": {"VV": "VV.tif", "VH": "VH.tif"}}
    whole, parts = open_source(of_sensors(tmp_path)), open_source(of_sensors(tmp_path, images))
    assert len(whole.records()) == len(parts.records()) > 4
    for index in range(4):
        np.testing.assert_array_equal(
            whole.decode(index).further[0], parts.decode(index).further[0]
        )


def test_each_sensor_has_its_own_missing_pixels(tmp_path):
    image, _ = write_pair(tmp_path)
    echo = np.full((2, 96, 128), -9.0, np.float32)
    echo[:, :, :40] = np.nan
    write_raster(tmp_path / "radar.tif", echo)
    radar = {**MODALITIES["radar"], "nodata": {"value": "nan", "fill": 0}}
    entry = of_sensors(tmp_path) | {"modalities": {**MODALITIES, "radar": radar}}
    entry |= {"ignore_index": 255, "nodata": {"value": 255, "fill": 0}}
    entry["source"] |= {"ignore_nodata": True, "min_valid": 0.4}
    source = open_source(entry)
    places = windows(source)
    # of the third column of tiles, half is missing
    assert (
        min(x for x, _ in places) == 32
        and source.choice["grid"]["left_out"]["too little data"] == 12
    )
    decoded = source.decode(places.index((32, 0)))
    assert (
        np.isnan(decoded.further[0][:, :, :8]).all()
        and not np.isnan(decoded.further[0][:, :, 8:]).any()
    )
    assert (decoded.mask[:, :8] == 255).all() and (decoded.mask[:, 8:] < 3).all()
    np.testing.assert_array_equal(decoded.image, image[:, :16, 32:48])


def test_tiles_of_several_sensors_are_stored_side_by_side(tmp_path):
    _, echo = write_sensors(tmp_path)
    out = Prepared(tmp_path / "out")
    card = out.run(of_sensors(tmp_path))
    assert [one["name"] for one in card["modalities"]] == ["optical", "radar"]
    source = open_source(of_sensors(tmp_path))
    by_name = {record.sample_id: index for index, record in enumerate(source.records())}
    store = ImageStore(out.outputs["test"])
    names = store.samples["sample_id"].to_pylist()
    arrays = {one.name: store.store.read(one.array) for one in store.modalities}
    for row, name in enumerate(names):
        decoded = source.decode(by_name[name])
        np.testing.assert_array_equal(arrays["optical"][row], decoded.image)
        np.testing.assert_array_equal(arrays["radar"][row], decoded.further[0])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"images": "image.tif"}, "images names files for no modality, the modalities are optical"),
        ({"images": {"optical": "image.tif", "sar": "radar.tif"}}, "files for optical, sar"),
        (
            {"images": {"optical": "image.tif", "radar": "image.tif"}},
            "has 3 bands, the entry declares 2",
        ),
        (
            {"images": {"optical": "image.tif", "radar": {"VH": "radar.tif", "VV": "radar.tif"}}},
            "files for VH, VV, the bands are VV, VH",
        ),
    ],
)
def test_files_that_do_not_fit_the_modalities_are_named(tmp_path, change, problem):
    write_sensors(tmp_path)
    with pytest.raises(PermafrostError, match=problem):
        open_source(of_sensors(tmp_path, **change))


def test_a_sensor_on_another_grid_is_refused_or_resampled(tmp_path):
    write_pair(tmp_path)
    coarse = np.random.default_rng(5).normal(-12, 3, (2, 48, 64)).astype(np.float32)
    write_raster(tmp_path / "radar.tif", coarse, step=20.0)
    with pytest.raises(PermafrostError, match=r"radar\.tif does not lie on the pixels of the grid"):
        open_source(of_sensors(tmp_path))
    entry = of_sensors(tmp_path)
    entry["source"] |= {"resolution": 10.0, "resampling": "nearest"}
    source = open_source(entry)
    (x, y) = windows(source)[0]
    whole = np.kron(coarse, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(source.decode(0).further[0], whole[:, y : y + 16, x : x + 16])


def test_dates_of_a_grid_are_refused(tmp_path):
    write_pair(tmp_path)
    with pytest.raises(PermafrostError, match="a grid has one image per location"):
        open_source(grid_entry(tmp_path, dates="series"))
