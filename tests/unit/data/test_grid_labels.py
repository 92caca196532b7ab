"""Polygons as labels of tiles, and one clear error for what is wrong with files or entries."""

import json
import shutil

import numpy as np
import pytest
import shapely
from helpers.datasets.grids import (
    LEFT,
    STEP,
    TOP,
    UTM,
    classes,
    grid_entry,
    pixels,
    write_pair,
    write_raster,
)
from helpers.datasets.images import Prepared, open_source, validated
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.entry_checks import entry_mistakes
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.sources import read_entry


def outlines(count: int = 12, *, seed=0) -> np.ndarray:
    """(N,) polygons of the tests' rasters, in metres; they overlap, and some have a hole."""
    rng = np.random.default_rng(seed)
    centres = np.stack([LEFT + rng.uniform(0, 1280, count), TOP - rng.uniform(0, 960, count)], 1)
    discs = shapely.buffer(shapely.points(centres), rng.uniform(60, 260, count))
    holes = shapely.buffer(shapely.points(centres), np.where(np.arange(count) % 3, 0, 40))
    return shapely.difference(discs, holes)


def write_shapes(path, polygons, values, *, crs=UTM, name="kind"):
    import pyogrio

    pyogrio.raw.write(
        path,
        geometry=shapely.to_wkb(polygons),
        field_data=[np.array(values)],
        fields=[name],
        geometry_type="Polygon",
        crs=crs,
        # an index would put the polygons into an order of its own
        **({"SPATIAL_INDEX": "NO"} if path.suffix == ".fgb" else {}),
    )
    return path


def burnt(polygons, ids, background, shape=(96, 128)) -> np.ndarray:
    from rasterio.features import rasterize
    from rasterio.transform import from_origin

    return rasterize(
        list(zip(polygons, ids, strict=True)),
        out_shape=shape,
        transform=from_origin(LEFT, TOP, STEP, STEP),
        fill=background,
        dtype=np.int32,
    )


def shown(source) -> np.ndarray:
    """(H, W) the masks of all tiles, put back where they lie."""
    grid = source.grid
    whole = np.full((grid.height, grid.width), -1)
    for index in range(len(source.records())):
        decoded = source.decode(index)
        transform = decoded.place.transform
        x, y = round((transform[2] - grid.left) / STEP), round((grid.top - transform[5]) / STEP)
        whole[y : y + 16, x : x + 16] = decoded.mask
    return whole


@pytest.mark.parametrize("ending", ["gpkg", "geojson", "shp", "fgb"])
def test_polygons_are_burnt_as_rasterio_burns_the_whole(tmp_path, ending):
    write_pair(tmp_path)
    polygons = outlines()
    names = np.array(["land", "sea", "town"])[np.arange(12) % 3]
    write_shapes(tmp_path / f"fields.{ending}", polygons, names)
    polygon_source = {"masks": f"fields.{ending}", "attribute": "kind"}
    source = open_source(grid_entry(tmp_path, polygon_source, ignore_index=255))
    expected = burnt(polygons, np.arange(12) % 3, 255)
    # geojson keeps seven digits of a metre
    assert (shown(source) != expected).sum() <= (3 if ending == "geojson" else 0)
    source = open_source(grid_entry(tmp_path, {**polygon_source, "background": "town"}))
    assert set(np.unique(shown(source))) == {0, 1, 2}


def test_values_of_an_attribute_may_mean_classes_or_no_label(tmp_path):
    write_pair(tmp_path)
    polygons = outlines()
    write_shapes(tmp_path / "fields.gpkg", polygons, (np.arange(12) % 4).astype(float))
    values = {"0": "sea", "1": "sea", "2": "town", "3": None}
    options = {"masks": "fields.gpkg", "attribute": "kind", "background": "land"}
    entry = grid_entry(tmp_path, {**options, "label_values": values}, ignore_index=255)
    expected = burnt(polygons, np.array([1, 1, 2, 255])[np.arange(12) % 4], 0)
    np.testing.assert_array_equal(shown(open_source(entry)), expected)
    del values["2"]
    with pytest.raises(
        PermafrostError, match=r"fields.gpkg has kind 2: known: 0, 1, 3.*label_values"
    ):
        open_source(entry)


def test_polygons_of_another_system_and_of_one_class_need_no_more_words(tmp_path):
    import geopandas

    write_pair(tmp_path)
    polygons = outlines(5)
    geopandas.GeoSeries(polygons, crs=UTM).to_crs("EPSG:4326").to_file(tmp_path / "sea.gpkg")
    options = {"masks": "sea.gpkg", "background": "land"}
    source = open_source(grid_entry(tmp_path, options, classes=["land", "sea"]))
    expected = burnt(polygons, [1] * 5, 0)
    assert 0 < (expected == 1).mean() < 1
    np.testing.assert_array_equal(shown(source), expected)


def test_tiles_lie_wholly_in_the_polygons_of_an_extent(tmp_path):
    write_pair(tmp_path)
    area = shapely.Polygon([(LEFT, TOP), (LEFT + 1280, TOP), (LEFT, TOP - 960)])
    write_shapes(tmp_path / "area.gpkg", [area], ["a"])
    source = open_source(grid_entry(tmp_path, {"extent": "area.gpkg"}))
    inside = shown(source) >= 0
    assert len(source.records()) == 18
    rows, columns = np.nonzero(inside)
    assert (columns / 128 + rows / 96 < 1).all()


def test_files_that_are_no_shapes_are_refused_before_a_driver_sees_them(tmp_path):
    write_pair(tmp_path)
    (tmp_path / "fields.geojson").write_text("<OGRVRTDataSource></OGRVRTDataSource>")
    entry = grid_entry(tmp_path, {"masks": "fields.geojson", "attribute": "kind"}, ignore_index=255)
    with pytest.raises(PermafrostError, match="does not begin as .geojson does"):
        open_source(entry)
    feature = {
        "type": "Feature",
        "properties": {},
        "geometry": {"type": "Point", "coordinates": [3, 45]},
    }
    text = json.dumps({"type": "FeatureCollection", "features": [feature]})
    (tmp_path / "fields.geojson").write_text(text)
    entry["source"].pop("attribute")
    entry["source"]["background"] = "land"
    entry["classes"] = ["land", "sea"]
    with pytest.raises(PermafrostError, match="shapes that are not polygons"):
        open_source(entry)


def spoil(folder, what: str) -> None:
    image = pixels(96, 128)
    path = folder / "image.tif"
    if what == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif what == "text":
        path.write_text("no raster")
    elif what == "crs":
        write_raster(path, image, crs=None)
    elif what == "place":
        write_raster(path, image, transform=None)
    elif what == "far":
        write_raster(path, image, column=4000)
    elif what == "zone":
        write_raster(folder / "mask.tif", classes(96, 128), crs="EPSG:32632")
    elif what == "turned":
        from rasterio.transform import Affine

        write_raster(path, image, transform=Affine(8, 3, LEFT, 3, -8, TOP))
    elif what == "bands":
        write_raster(path, image[:2])
    elif what == "kinds":
        write_raster(folder / "image2.tif", image.astype(np.uint16), column=128)
    elif what == "channels":
        write_raster(folder / "mask.tif", image)


@pytest.mark.parametrize(
    ("what", "source", "message"),
    [
        ("cut", {}, "image.tif is not a readable raster"),
        ("text", {}, "image.tif is not a readable raster"),
        ("crs", {}, "image.tif has no coordinate system.*gdal_edit"),
        ("place", {}, "image.tif has no place"),
        ("far", {}, "no tile is inside the images, the labels and the extent"),
        (
            "zone",
            {},
            "mask.tif has the coordinate system EPSG:32632, the grid EPSG:32631.*crs: EPSG:32631",
        ),
        ("turned", {}, "is not north-up.*declare crs and resolution"),
        ("bands", {}, "image.tif has 2 bands, the entry declares 3"),
        ("kinds", {"images": "image*.tif"}, "image2.tif has uint16, image.tif uint8"),
        ("channels", {}, "mask.tif has 3 channels.*label_channel"),
        (None, {"images": "imge.tif"}, "no file 'imge.tif'; did you mean 'image.tif'"),
        (None, {"crs": "EPSG:1"}, "crs 'EPSG:1' is not a coordinate system"),
        (None, {"size": 97}, "tiles of 97 pixels do not fit into 128 x 96 pixels"),
        (
            None,
            {"blocks": {"metres": 100}},
            "tiles of 16 pixels do not fit into blocks of 10 x 10 pixels",
        ),
        (None, {"resolution": 0.0001}, "has more than 5,000,000 tiles.*unit of resolution"),
        (
            None,
            {"extent": [0, 0, 100, 100]},
            r"do not fit into 0 x 0 pixels \(width x height\) of the extent",
        ),
        (None, {"extent": "image.tif"}, "image.tif is not a readable file of shapes.*GeoPackage"),
        (None, {"min_labelled": 1}, "no tiles are left: 48 have too few labels"),
    ],
)
def test_what_is_wrong_with_the_files_is_one_sentence(tmp_path, what, source, message):
    write_pair(tmp_path)
    if source.get("min_labelled"):
        write_raster(tmp_path / "mask.tif", np.full((1, 96, 128), 255, np.uint8))
    if what:
        spoil(tmp_path, what)
    with pytest.raises(PermafrostError, match=message):
        open_source(grid_entry(tmp_path, source, ignore_index=255))


def test_a_turned_raster_can_be_resampled_onto_a_grid(tmp_path):
    write_pair(tmp_path)
    spoil(tmp_path, "turned")
    source = {"crs": UTM, "resolution": 10, "min_valid": 1, "min_labelled": 1}
    assert open_source(grid_entry(tmp_path, source, ignore_index=255)).decode(0).image.all()


def test_a_raster_that_breaks_off_later_is_named_where_it_is_read(tmp_path):
    image = np.random.default_rng(0).integers(0, 255, (3, 96, 128)).astype(np.uint8)
    write_pair(tmp_path)
    path = write_raster(tmp_path / "image.tif", image, compress="deflate")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(data)
    with pytest.raises(PermafrostError, match="of 48 images cannot be used: image#.*image.tif"):
        Prepared(tmp_path / "out").run(grid_entry(tmp_path))
    assert not Prepared(tmp_path / "out").leftovers()


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        ({"masks": None}, {}, "needs images and masks, no masks is given"),
        ({"targets": "mask.tif"}, {}, "targets has no meaning for it"),
        ({"torchgeo": {"image": {"name": "NAIP"}}}, {}, "images and masks beside torchgeo"),
        ({"label_resampling": "average"}, {}, "average interpolates between classes"),
        ({"ignore_nodata": True}, {}, "add ignore_index: 255"),
        ({"min_labelled": 0.5}, {}, "min_labelled needs a value for pixels without a label"),
        ({"dtype": "uint8"}, {}, "dtype is for torchgeo's images"),
        ({"attribute": "kind"}, {}, "only masks in a file of polygons need attribute"),
        (
            {"masks": "a.gpkg", "attribute": "kind"},
            {},
            "class of pixels outside of the polygons is undefined",
        ),
        ({"masks": "a.gpkg", "background": "land"}, {}, "class of polygons is undefined"),
        ({"masks": "a.gpkg", "background": "lnd"}, {}, "lnd in source is no class"),
        ({}, {"splits": None}, "the split of tiles into train"),
        ({"extent": {"train": "a.gpkg"}}, {}, "names the splits already"),
        ({"blocks": None}, {}, "splits by group need blocks"),
        ({}, {"splits": {"method": "random"}}, "would divide blocks"),
        (
            {"blocks": None, "stride": 8},
            {"splits": {"method": "block", "block_km": 1}},
            "tiles of 16 pixels every 8 share pixels",
        ),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused_before_its_data_are_there(
    source, more, message
):
    entry = {key: value for key, value in grid_entry("/nowhere", source, **more).items() if value}
    mistakes = entry_mistakes(read_entry(validated(entry), where="set"), where="set")
    assert any(message in str(mistake) for mistake in mistakes), mistakes


def test_a_stride_of_nothing_is_no_entry(tmp_path):
    with pytest.raises(PermafrostError, match="stride"):
        validated(grid_entry(tmp_path, {"stride": 0}))


def test_only_the_files_that_an_entry_names_are_part_of_its_identity(tmp_path):
    write_pair(tmp_path)
    write_shapes(tmp_path / "fields.shp", outlines(3), ["a", "b", "c"])
    entries = [
        validated(grid_entry(tmp_path)),
        validated(
            grid_entry(tmp_path, {"masks": "fields.shp", "attribute": "kind"}, ignore_index=255)
        ),
    ]
    before = [source_digest(entry) for entry in entries]
    (tmp_path / "notes.txt").write_text("mine")
    assert [source_digest(entry) for entry in entries] == before
    (tmp_path / "fields.dbf").write_bytes(b"other")
    after = [source_digest(entry) for entry in entries]
    assert after[0] == before[0] and after[1] != before[1]
    shutil.copy(tmp_path / "mask.tif", tmp_path / "image.tif")
    assert all(source_digest(entry) != old for entry, old in zip(entries, after, strict=True))


def test_tiles_with_few_labels_are_left_out_and_counted(tmp_path):
    write_raster(tmp_path / "image.tif", pixels(96, 128))
    write_raster(tmp_path / "mask.tif", classes(96, 40))
    entry = grid_entry(tmp_path, {"min_labelled": 0.6}, ignore_index=255)
    source = open_source(entry)
    # the third column of tiles is half labelled; further ones do not meet the mask
    assert len(source.records()) == 12 and source.left_out["too few labels"] == 6
    entry = grid_entry(tmp_path, ignore_index=255)
    assert (open_source(entry).decode(2).mask[:, 8:] == 255).all()
    with pytest.raises(UnreadableImage, match="128 of its pixels lie outside of all masks"):
        open_source(grid_entry(tmp_path)).decode(2)


def test_numbers_per_pixel_keep_their_unit_and_what_is_missing(tmp_path):
    write_raster(tmp_path / "image.tif", pixels(96, 128))
    heights = np.random.default_rng(0).normal(100, 20, (1, 96, 120)).astype(np.float32)
    heights[0, :4, :4] = -9999
    write_raster(tmp_path / "heights.tif", heights, nodata=-9999)
    source = {"masks": None, "targets": "heights.tif"}
    number = {"task": "pixel_regression", "classes": None}
    entry = grid_entry(tmp_path, source, target={"nodata": -9999, "scale": 0.1}, **number)
    opened = open_source(entry)
    expected = (heights[0, :16, :16].astype(np.float64) * 0.1).astype(np.float32)
    expected[:4, :4] = np.nan
    np.testing.assert_array_equal(opened.decode(0).target, expected)
    assert np.isnan(opened.decode(7).target[:, 8:]).all()
    with pytest.raises(UnreadableImage, match="its target: marks -9999 as nodata"):
        open_source(grid_entry(tmp_path, source, **number)).decode(0)
    write_raster(tmp_path / "image.tif", np.tril(pixels(96, 128)), nodata=0)
    hidden = grid_entry(
        tmp_path,
        {**source, "ignore_nodata": True},
        target={"nodata": -9999},
        nodata={"value": 0, "fill": 0},
        **number,
    )
    above = np.triu(np.ones((16, 16), bool), 1)
    np.testing.assert_array_equal(np.isnan(open_source(hidden).decode(9).target), above)
    card = Prepared(tmp_path / "out").run(hidden)
    assert card["target"]["unit"] is None and card["splits"]["test"]["count"] >= 8
