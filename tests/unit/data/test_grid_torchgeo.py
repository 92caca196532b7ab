"""Tiles of torchgeo's GeoDatasets are what these give for the bounds, on small files and on real layouts."""

import tarfile

import numpy as np
import pytest
from helpers.datasets.grids import classes, grid_entry, pixels, write_raster
from helpers.datasets.images import Prepared, open_source, validated
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.store.image_store import ImageStore


@pytest.fixture
def geo_folder(tmp_path):
    """Two scenes as NAIP names them, and a map of crops as the CDL does, which cover different ground."""
    image = pixels(80, 96, bands=4)
    write_raster(tmp_path / "naip/m_3807511_ne_18_060_20230605.tif", image[:, :, :64])
    write_raster(tmp_path / "naip/m_3807512_ne_18_060_20230605.tif", image[:, :, 64:], column=64)
    crops = np.array([0, 1, 5], np.uint8)[classes(96, 96)]
    write_raster(tmp_path / "cdl/2023_30m_cdls.tif", crops, row=16)
    return tmp_path


def geo_entry(folder, source: dict | None = None, **more) -> dict:
    pair = {
        "image": {"name": "NAIP", "paths": ["naip"]},
        "mask": {
            "name": "CDL",
            "paths": ["cdl"],
            "arguments": {"years": [2023], "classes": [0, 1, 5]},
        },
    }
    options = {"torchgeo": pair, "images": None, "masks": None, "dtype": "uint8", **(source or {})}
    return grid_entry(folder, options, bands=["red", "green", "blue", "nir"], sensor="naip", **more)


def test_tiles_of_two_geodatasets_are_what_they_give_for_the_bounds(geo_folder):
    from torchgeo.datasets import CDL, NAIP

    source = open_source(geo_entry(geo_folder))
    both = NAIP(str(geo_folder / "naip")) & CDL(
        str(geo_folder / "cdl"), years=[2023], classes=[0, 1, 5]
    )
    assert len(source.records()) == 4 * 6
    for index in range(len(source.records())):
        decoded = source.decode(index)
        a, _, left, _, e, top = decoded.place.transform
        sample = both[left : left + 16 * a : a, top + 16 * e : top : -e]
        np.testing.assert_array_equal(decoded.image, sample["image"].numpy())
        np.testing.assert_array_equal(decoded.mask, sample["mask"].numpy())


def test_classes_follow_a_declared_system_and_resolution(geo_folder):
    from pyproj import CRS
    from torchgeo.datasets import CDL, NAIP

    target = {"crs": "EPSG:3857", "resolution": 12.5}
    source = open_source(geo_entry(geo_folder, {**target, "dtype": None}))
    images = NAIP(str(geo_folder / "naip"), crs=CRS.from_epsg(3857), res=12.5)
    both = images & CDL(str(geo_folder / "cdl"), years=[2023], classes=[0, 1, 5])
    assert source.grid.crs == "EPSG:3857" and source.grid.step == (12.5, 12.5)
    decoded = source.decode(7)
    a, _, left, _, e, top = decoded.place.transform
    sample = both[left : left + 16 * a : a, top + 16 * e : top : -e]
    np.testing.assert_array_equal(decoded.image, sample["image"].numpy())
    np.testing.assert_array_equal(decoded.mask, sample["mask"].numpy())


def test_a_system_that_is_none_is_refused_as_for_files(geo_folder):
    with pytest.raises(PermafrostError, match="crs 'UTM 31' is not a coordinate system"):
        open_source(geo_entry(geo_folder, {"crs": "UTM 31"}))


def test_geodatasets_are_prepared_like_any_other(geo_folder, tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(geo_entry(geo_folder), workers=4)
    assert sum(split["count"] for split in card["splits"].values()) == 24
    assert ImageStore(out.outputs["train"]).dtype == np.uint8


def test_only_the_folders_of_the_classes_are_part_of_the_identity(geo_folder):
    named = validated(geo_entry(geo_folder))
    everything = validated(geo_entry(geo_folder, {"torchgeo": {"image": {"name": "NAIP"}}}))
    before = [source_digest(entry) for entry in (named, everything)]
    (geo_folder / "other").mkdir()
    (geo_folder / "other/notes.txt").write_text("mine")
    assert source_digest(named) == before[0] and source_digest(everything) != before[1]
    (geo_folder / "cdl/2023_30m_cdls.tif").write_bytes(b"other")
    assert source_digest(named) != before[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "NAPI"}, "no GeoDataset named 'NAPI', did you mean 'NAIP'"),
        ({"name": "EuroSAT"}, "single images are of kind torchgeo"),
        ({"arguments": {"band": [1]}}, "NAIP takes no argument 'band', did"),
        ({"paths": ["nothing"]}, "NAIP cannot be built from .*nothing"),
        ({"paths": ["far"]}, "NAIP and CDL do not overlap"),
    ],
)
def test_what_torchgeo_cannot_do_is_one_sentence(geo_folder, change, message):
    write_raster(
        geo_folder / "far/m_1_ne_18_060_20230605.tif", pixels(32, 32, bands=4), column=9000
    )
    entry = geo_entry(geo_folder)
    entry["source"]["torchgeo"]["image"] |= change
    with pytest.raises(PermafrostError, match=message):
        open_source(entry)


def test_a_date_without_files_has_no_tiles(geo_folder):
    entry = geo_entry(geo_folder)
    entry["source"]["torchgeo"]["dates"] = ["2023-06-01", "2023-06-30"]
    assert len(open_source(entry).records()) == 24
    entry["source"]["torchgeo"]["dates"] = ["2021-01-01", "2021-12-31"]
    with pytest.raises(PermafrostError, match="no file of the classes is within these dates"):
        open_source(entry)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["AgriFieldNet", "L8Biome", "LandCoverAIGeo"])
def test_a_class_that_gives_both_is_enough(shared_data, tmp_path, name):
    import torchgeo.datasets

    folder = name.lower().removesuffix("geo")
    with tarfile.open(shared_data / "torchgeo_fixtures/torchgeo_fixtures.tar.gz") as archive:
        members = [member for member in archive if f"/{folder}/" in member.name]
        archive.extractall(tmp_path, members, filter="data")
    root = tmp_path / "torchgeo_fixtures" / folder
    pair = {"image": {"name": name}}
    options = {"torchgeo": pair, "images": None, "masks": None, "dtype": "uint8", "size": 13}
    bands = {"AgriFieldNet": 12, "L8Biome": 11, "LandCoverAIGeo": 3}[name]
    entry = grid_entry(
        root,
        options,
        classes=[f"class {number}" for number in range(14)],
        sensor=None,
        bands=[{"name": f"B{number}"} for number in range(bands)],
    )
    source = open_source(entry)
    dataset = getattr(torchgeo.datasets, name)(str(root))
    assert len(source.records()) >= 4
    for index in range(len(source.records())):
        decoded = source.decode(index)
        a, _, left, _, e, top = decoded.place.transform
        sample = dataset[left : left + 13 * a : a, top + 13 * e : top : -e]
        np.testing.assert_array_equal(decoded.image, sample["image"].numpy())
        np.testing.assert_array_equal(decoded.mask, sample["mask"].numpy().squeeze())


@pytest.mark.shared
def test_a_real_scene_is_cut_as_the_example_says(shared_data, tmp_path):
    import rasterio
    import yaml
    from helpers.datasets.images import CONFIG
    from permafrost.core.specification import substitute

    example = yaml.safe_load((CONFIG / "examples/grid.yaml").read_text())
    entry = substitute(example["extra_datasets"]["coast"], str(shared_data))
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert sum(split["count"] for split in card["splits"].values()) == 49 * 9
    assert sum(split["groups"] for split in card["splits"].values()) == 49
    folder = shared_data / "terramind_examples"
    with rasterio.open(folder / "S2L2A/282D_485L_3_3.tif") as scene:
        whole, transform = scene.read(), scene.transform
    stored = ImageStore(out.outputs["test"]).read().images
    for row, place in enumerate(out.store("test").samples()["transform"].to_pylist()):
        x, y = ~transform @ (place[2], place[5])
        part = whole[:, round(y) : round(y) + 16, round(x) : round(x) + 16]
        np.testing.assert_array_equal(stored[row], part)
