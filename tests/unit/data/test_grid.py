"""Tiles of rasters are the rasters' own windows, resampled ones those of the whole; splits share no pixel."""

import tracemalloc

import numpy as np
import pytest
import rasterio
from helpers.datasets.grids import (
    CLASSES,
    LEFT,
    STEP,
    TOP,
    UTM,
    classes,
    grid_entry,
    pixels,
    sparse_raster,
    windows,
    write_pair,
    write_raster,
)
from helpers.datasets.images import Prepared, open_source, write_zip
from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.sources.grid_rasters import Layer
from permafrost.data.sources.grid_scenes import CACHE_BYTES
from rasterio.enums import Resampling
from rasterio.env import get_gdal_config
from rasterio.transform import from_origin
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform_bounds
from rasterio.windows import Window


def test_a_tile_is_the_window_of_its_raster_bit_for_bit(tmp_path):
    write_pair(tmp_path)
    source = open_source(grid_entry(tmp_path, {"size": 24, "stride": 20}))
    assert len(source.records()) == 4 * 5
    with (
        rasterio.open(tmp_path / "image.tif") as image,
        rasterio.open(tmp_path / "mask.tif") as mask,
    ):
        for index, (x, y) in enumerate(windows(source)):
            decoded = source.decode(index)
            part = Window(x, y, 24, 24)
            np.testing.assert_array_equal(decoded.image, image.read(window=part))
            np.testing.assert_array_equal(decoded.mask, mask.read(1, window=part))
            assert decoded.place.transform == tuple(image.window_transform(part))[:6]


def test_rasters_of_a_local_system_are_cut_and_tiles_have_no_place(tmp_path):
    site = 'LOCAL_CS["site",UNIT["metre",1]]'
    image, _ = write_pair(tmp_path, crs=site)
    write_raster(tmp_path / "mask.tif", classes(96, 128), crs=site)
    blocks = {"metres": 320}
    source = open_source(grid_entry(tmp_path, {"blocks": blocks}))
    assert len(source.records()) == 6 * 8 and len({r.group_id for r in source.records()}) == 12
    assert {(record.lon, record.lat) for record in source.records()} == {(None, None)}
    decoded = source.decode(0)
    np.testing.assert_array_equal(decoded.image, image[:, :16, :16])
    assert decoded.place.lon is None and source.locate(0) == (None, None)
    card = Prepared(tmp_path / "out").run(grid_entry(tmp_path, {"blocks": blocks}))
    assert sum(split["without_place"] for split in card["splits"].values()) == 48


def test_neighbouring_scenes_are_one_mosaic_in_which_the_first_with_data_counts(tmp_path):
    one, two = pixels(64, 64, seed=1), pixels(64, 80, seed=2)
    one[:, :, 60:62] = 0
    write_raster(tmp_path / "scenes/a.tif", one, nodata=0)
    write_raster(tmp_path / "scenes/b.tif", two, column=48, row=8, nodata=0)
    write_raster(tmp_path / "mask.tif", classes(72, 128))
    whole = np.zeros((3, 72, 128), np.uint8)
    whole[:, 8:, 48:] = two
    whole[:, :64, :64] = np.where(one == 0, whole[:, :64, :64], one)
    nodata = {"value": 0, "fill": 0}
    source = open_source(grid_entry(tmp_path, {"images": "scenes/*.tif"}, nodata=nodata))
    assert source.grid.width == 128 and source.grid.height == 72
    for index, (x, y) in enumerate(windows(source)):
        np.testing.assert_array_equal(source.decode(index).image, whole[:, y : y + 16, x : x + 16])


@pytest.mark.parametrize(
    ("method", "dtype"), [("bilinear", "uint8"), ("nearest", "int16"), ("cubic", "float32")]
)
def test_a_reprojected_tile_is_that_of_the_whole_reprojected_raster(tmp_path, method, dtype):
    image, mask = write_pair(tmp_path, 200, 260)
    write_raster(tmp_path / "image.tif", image.astype(dtype))
    write_raster(tmp_path / "mask.tif", mask.astype("uint8" if dtype == "uint8" else "int16"))
    target = {"crs": "EPSG:3857", "resolution": 12.5, "resampling": method, "min_valid": 1}
    source = open_source(grid_entry(tmp_path, {**target, "stride": 11}))
    grid = source.grid
    shape = {
        "crs": "EPSG:3857",
        "transform": from_origin(grid.left, grid.top, 12.5, 12.5),
        "width": grid.width,
        "height": grid.height,
        "add_alpha": True,
    }
    with (
        rasterio.open(tmp_path / "image.tif") as image,
        rasterio.open(tmp_path / "mask.tif") as mask,
    ):
        pixels_of = WarpedVRT(image, resampling=Resampling[method], **shape).read()
        labels_of = WarpedVRT(mask, resampling=Resampling.nearest, **shape).read(1)
    assert len(source.records()) > 100 and source.left_out["too little data"] > 10
    assert (grid.left / 12.5) % 1 == 0 == (grid.top / 12.5) % 1
    for index, (x, y) in enumerate(windows(source)):
        decoded, part = source.decode(index), np.s_[..., y : y + 16, x : x + 16]
        np.testing.assert_array_equal(decoded.image, pixels_of[part][:3])
        np.testing.assert_array_equal(decoded.mask, labels_of[part])
        assert (pixels_of[part][3] > 0).all()


def test_scenes_count_in_the_order_in_which_they_are_listed(tmp_path):
    write_pair(tmp_path)
    write_raster(tmp_path / "above.tif", np.full((3, 32, 32), 9, np.uint8))
    for images, first in ((["image.tif", "above.tif"], False), (["above.tif", "image*"], True)):
        source = open_source(grid_entry(tmp_path, {"images": images}))
        assert (source.decode(0).image == 9).all() == first


def test_scenes_of_two_zones_are_one_mosaic_and_the_first_zone_stays_as_it_is(tmp_path):
    west, east = pixels(64, 64, seed=1), pixels(64, 64, seed=2)
    write_raster(tmp_path / "scenes/east.tif", east)
    # the same place in the zone to the east: 3° E lies at 27 668 m there
    with rasterio.open(tmp_path / "scenes/east.tif") as scene:
        left, bottom, _, _ = transform_bounds(scene.crs, "EPSG:32632", *scene.bounds)
    corner = from_origin(left - 400, bottom + 640, STEP, STEP)
    write_raster(tmp_path / "scenes/west.tif", west, crs="EPSG:32632", transform=corner)
    write_raster(tmp_path / "mask.tif", classes(300, 300), column=-150, row=-150)
    images = {"images": ["scenes/*.tif"], "min_valid": 1}
    with pytest.raises(PermafrostError, match="west.tif has the coordinate system EPSG:32632"):
        open_source(grid_entry(tmp_path, images))
    source = open_source(grid_entry(tmp_path, {**images, "crs": UTM}))
    assert source.grid.width > 100
    inside = outside = 0
    for index, (x, y) in enumerate(windows(source)):
        x, y = (
            x + round((source.grid.left - LEFT) / STEP),
            y - round((source.grid.top - TOP) / STEP),
        )
        if 0 <= x <= 48 and 0 <= y <= 48:
            np.testing.assert_array_equal(
                source.decode(index).image, east[:, y : y + 16, x : x + 16]
            )
            inside += 1
        outside += x + 16 <= 0
    assert inside and outside


def test_a_coarser_mask_is_brought_to_the_declared_resolution(tmp_path):
    write_raster(tmp_path / "image.tif", pixels(96, 128))
    mask = classes(24, 32)
    write_raster(tmp_path / "mask.tif", mask, step=4 * STEP)
    with pytest.raises(
        PermafrostError, match=r"mask.tif does not lie on the pixels .* resolution: 10"
    ):
        open_source(grid_entry(tmp_path))
    source = open_source(grid_entry(tmp_path, {"resolution": 10}))
    fine = np.kron(mask[0], np.ones((4, 4), np.uint8))
    for index, (x, y) in enumerate(windows(source)):
        np.testing.assert_array_equal(source.decode(index).mask, fine[y : y + 16, x : x + 16])


def test_a_part_of_a_pixel_off_is_not_on_the_grid_unless_the_entry_declares_one(tmp_path):
    write_raster(tmp_path / "image.tif", pixels(96, 128))
    mask = classes(96, 128)
    mask[:, :8, :8] = 0
    write_raster(tmp_path / "mask.tif", mask, column=0.75, nodata=0)
    with pytest.raises(PermafrostError, match="mask.tif does not lie on the pixels of the grid"):
        open_source(grid_entry(tmp_path))
    entry = grid_entry(tmp_path, {"resolution": 10}, ignore_index=255)
    decoded = open_source(entry).decode(0)
    by_mode = grid_entry(tmp_path, {"resolution": 10, "label_resampling": "mode"}, ignore_index=255)
    assert (open_source(by_mode).decode(0).mask[:7, 1:7] == 0).all()
    # the middles of the first column lie before the mask; what it marks as nodata is a value like any other
    assert (decoded.mask[:, 0] == 255).all()
    np.testing.assert_array_equal(decoded.mask[:, 1:], mask[0, :16, :15])


def test_bands_in_files_of_their_own_are_stacked_in_the_order_of_the_entry(tmp_path):
    image, _ = write_pair(tmp_path)
    names = ["red", "green", "blue"]
    for name, band in zip(names, image, strict=True):
        write_raster(tmp_path / f"scene_{name}.tif", band[None])
    files = {name: f"*_{name}.tif" for name in names}
    source = open_source(grid_entry(tmp_path, {"images": files}))
    x, y = windows(source)[7]
    np.testing.assert_array_equal(source.decode(7).image, image[:, y : y + 16, x : x + 16])
    files = {name: files[name] for name in reversed(names)}
    with pytest.raises(
        PermafrostError, match="files for blue, green, red, the bands are red, green"
    ):
        open_source(grid_entry(tmp_path, {"images": files}))


def test_jpeg_2000_is_read_as_it_is(tmp_path):
    write_pair(tmp_path)
    with rasterio.open(tmp_path / "image.tif") as image:
        profile = {**image.profile, "driver": "JP2OpenJPEG", "QUALITY": "100", "REVERSIBLE": "YES"}
        profile = {key: value for key, value in profile.items() if "block" not in key}
        with rasterio.open(tmp_path / "image.jp2", "w", **profile) as copy:
            copy.write(image.read())
    one = open_source(grid_entry(tmp_path))
    other = open_source(grid_entry(tmp_path, {"images": "image.jp2"}))
    np.testing.assert_array_equal(one.decode(9).image, other.decode(9).image)


def test_an_archive_is_read_in_place(tmp_path):
    write_pair(tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in ("image.tif", "mask.tif")}
    write_zip(tmp_path / "data.zip", files)
    inside = open_source(grid_entry(tmp_path / "data.zip"))
    outside = open_source(grid_entry(tmp_path))
    assert inside.records() == outside.records()
    np.testing.assert_array_equal(inside.decode(3).image, outside.decode(3).image)


@pytest.mark.parametrize(
    ("source", "share"),
    [({"stride": 5, "blocks": {"tiles": 3}}, 0), ({"blocks": {"metres": 400, "buffer_m": 70}}, 7)],
)
def test_no_pixel_is_in_two_splits_and_a_buffer_keeps_them_apart(tmp_path, source, share):
    write_pair(tmp_path, 256, 320)
    out = Prepared(tmp_path / "out")
    card = out.run(grid_entry(tmp_path, source))
    owner = np.zeros((256, 320), np.uint8)
    for number, split in enumerate(("train", "val", "test"), start=1):
        samples = out.store(split).samples()
        assert len(samples) == card["splits"][split]["count"] >= 4
        for transform in samples["transform"].to_pylist():
            x, y = round((transform[2] - LEFT) / STEP), round((TOP - transform[5]) / STEP)
            part = owner[y : y + 16, x : x + 16]
            assert ((part == 0) | (part == number)).all()
            part[:] = number
    for distance in range(1, share + 1):
        for one, other in (
            (owner[:, :-distance], owner[:, distance:]),
            (owner[:-distance], owner[distance:]),
        ):
            assert ((one == other) | (one == 0) | (other == 0)).all()
    assert not card["spatially_random"]
    assert card["choice"]["grid"]["buffer_m"] == 10 * share


def test_tiles_have_the_place_that_the_raster_gives_them(tmp_path):
    write_pair(tmp_path)
    source = open_source(grid_entry(tmp_path))
    for index in (0, 5, 40):
        record, place = source.records()[index], source.decode(index).place
        assert source.locate(index) == (record.lon, record.lat)
        assert (place.lon, place.lat) == pytest.approx((record.lon, record.lat), abs=1e-9)
        assert place.crs == UTM and place.size == (16, 16)


def test_extents_may_give_the_splits(tmp_path):
    write_pair(tmp_path)
    right = LEFT + 128 * STEP
    low = TOP - 96 * STEP
    extent = {
        "train": [LEFT, low, LEFT + 640, TOP],
        "val": [LEFT + 640, low, LEFT + 960, TOP],
        "test": [LEFT + 960, low, right, TOP],
    }
    entry = {"extent": extent, "blocks": None}
    out = Prepared(tmp_path / "out")
    card = out.run(grid_entry(tmp_path, entry, splits=None))
    counts = [card["splits"][split]["count"] for split in ("train", "val", "test")]
    assert counts == [24, 12, 12] and card["split_method"] == "given"
    extent["val"][0] -= 10
    with pytest.raises(PermafrostError, match="tiles of train and val share pixels"):
        open_source(grid_entry(tmp_path, entry, splits=None))


def test_nodata_is_filled_ignored_or_left_out_and_never_passed_over(tmp_path):
    image, mask = write_pair(tmp_path, nodata=0)
    image[:, :20, :40] = 0
    image[0, 90, 120] = 0
    write_raster(tmp_path / "image.tif", image, nodata=0)
    source = open_source(grid_entry(tmp_path))
    with pytest.raises(UnreadableImage, match="256 of its 256 pixels have no data"):
        source.decode(0)
    # a pixel of which one band is marked is no pixel to rely on either
    with pytest.raises(UnreadableImage, match="1 of its 256 pixels"):
        source.decode(len(source.records()) - 1)

    out = Prepared(tmp_path / "out")
    options = {"ignore_nodata": True, "min_valid": 0.5}
    filled = {"nodata": {"value": 0, "fill": 7}, "ignore_index": 255}
    card = out.run(grid_entry(tmp_path, options, **filled))
    assert card["choice"]["grid"]["left_out"] == {"too little data": 2, "too few labels": 0}
    assert sum(split["count"] for split in card["splits"].values()) == 48 - 2
    ignored = sum(split["ignored_pixels"] for split in card["splits"].values())
    assert ignored == 20 * 40 - 2 * 256
    kept = open_source(grid_entry(tmp_path, options, **filled))
    x, y = windows(kept)[0]
    decoded = kept.decode(0)
    gone = (image[:, y : y + 16, x : x + 16] == 0).all(axis=0)
    assert gone.any()
    np.testing.assert_array_equal(decoded.mask == 255, gone)

    as_stored = open_source(grid_entry(tmp_path, nodata="keep"))
    np.testing.assert_array_equal(as_stored.decode(0).image, image[:, :16, :16])


@pytest.mark.parametrize("target", [{}, {"crs": "EPSG:3857", "resolution": 12}])
@pytest.mark.parametrize("hidden_by", ["transparency", "mask", "nan"])
def test_what_a_raster_hides_is_missing_however_it_says_so(tmp_path, hidden_by, target):
    image, _ = write_pair(tmp_path)
    shown = np.full((1, 96, 128), 255, np.uint8)
    shown[:, :8, :8] = 0
    value = 0
    if hidden_by == "transparency":
        whole = np.concatenate([image, shown])
        write_raster(tmp_path / "image.tif", whole, photometric="RGB", alpha="yes")
    elif hidden_by == "mask":
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
            path = write_raster(tmp_path / "image.tif", image)
            with rasterio.open(path, "r+") as dataset:
                dataset.write_mask(shown[0])
    else:
        value = "nan"
        whole = np.where(shown == 0, np.nan, image).astype(np.float32)
        write_raster(tmp_path / "image.tif", whole, nodata=np.nan)
    nodata = {"value": value, "fill": 0}
    source = open_source(
        grid_entry(tmp_path, {**target, "ignore_nodata": True}, nodata=nodata, ignore_index=255)
    )
    missing = source.decode(0).mask == 255
    assert missing[:4, :4].all() and not missing[12:, 12:].any()
    if not target:
        np.testing.assert_array_equal(missing, shown[0, :16, :16] == 0)


def test_a_share_of_data_is_known_without_reading_where_nothing_is_marked(tmp_path, monkeypatch):
    write_raster(tmp_path / "image.tif", pixels(96, 120))
    write_raster(tmp_path / "further.tif", pixels(40, 16), column=120)
    write_raster(tmp_path / "mask.tif", classes(96, 136))
    monkeypatch.setattr(Layer, "read", None)
    entry = grid_entry(tmp_path, {"images": ["image.tif", "further.tif"], "min_valid": 1})
    source = open_source(entry)
    # of the last two columns, (112, y) up to row 40 and (120, ...) of the second scene
    assert source.left_out["too little data"] == 4
    assert len(source.records()) == 6 * 7 + 2


def test_four_hundred_million_pixels_are_listed_in_little_memory_and_none_of_them_is_read(
    tmp_path, monkeypatch
):
    sparse_raster(tmp_path / "image.tif", 20_000)
    sparse_raster(tmp_path / "mask.tif", 20_000, bands=1)
    entry = grid_entry(tmp_path, {"size": 256, "blocks": {"tiles": 4}})
    open_source(grid_entry(tmp_path, {"size": 10_000, "blocks": {"tiles": 1}}))
    tracemalloc.start()
    with monkeypatch.context() as patch:
        patch.setattr(Layer, "read", None)
        source = open_source(entry)
    _, peak = tracemalloc.get_traced_memory()
    assert len(source.records()) == 78 * 78
    assert source.decode(3000).image.shape == (3, 256, 256)
    tracemalloc.stop()
    assert peak < 30e6
    # what GDAL remembers is no part of this; by itself it takes a share of the machine's memory
    assert get_gdal_config("GDAL_CACHEMAX") == CACHE_BYTES


def test_threads_may_read_the_same_raster(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    write_pair(tmp_path, 400, 520, compress="deflate")
    source = open_source(grid_entry(tmp_path, {"crs": "EPSG:32632", "min_valid": 1}))
    alone = [source.decode(index).image for index in range(len(source.records()))]
    fresh = open_source(grid_entry(tmp_path, {"crs": "EPSG:32632", "min_valid": 1}))
    with ThreadPoolExecutor(8) as executor:
        together = list(executor.map(fresh.decode, range(len(alone))))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other.image)
    assert source.classes == CLASSES
