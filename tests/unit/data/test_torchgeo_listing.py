"""Classes of torchgeo that list their files, or count their bands, in a way of their own."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from helpers.datasets.images import Prepared, encode, geotiff, open_source
from permafrost.core.errors import PermafrostError

UINT8, COUNTS = {"unit": "uint8"}, {"unit": "digital_number", "scale": 1.0e-4}
TREES = ("Abies", "Picea", "Quercus")


def pixels(seed: int, channels: int, side: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 250, (channels, side, side)).astype(np.uint8)


@pytest.fixture
def usavars(tmp_path) -> dict:
    """USAVars as its authors lay it out: the lists of splits hold bare names, the images lie in ``uar``."""
    from torchgeo.datasets import USAVars

    root = tmp_path / "usavars"
    (root / "uar").mkdir(parents=True)
    rows = []
    for s, split in enumerate(("train", "val", "test")):
        names = [f"tile_{s},{i}.tif" for i in range(4)]
        for i, name in enumerate(names):
            tiff = geotiff(pixels(10 * s + i, 4), lon=-100 + s, lat=40 + i)
            (root / "uar" / name).write_bytes(tiff)
            rows.append(f'"{s},{i}",{s + i / 10},{-100 + s},{40 + i}')
        (root / f"{split}_split.txt").write_text("\n".join(names) + "\n")
    # the class looks for seven tables, and knows the labels of some
    for label in {*USAVars.ALL_LABELS, "housing", "income", "nightlights", "roads"}:
        (root / f"{label}.csv").write_text(f"ID,{label},lon,lat\n" + "\n".join(rows) + "\n")
    return {
        "task": "regression",
        "sensor": "naip",
        "bands": ["red", "green", "blue", "nir"],
        "units": UINT8,
        "source": {
            "kind": "torchgeo",
            "name": "USAVars",
            "label_key": "labels",
            "arguments": {"root": str(root), "labels": ["treecover"], "checksum": False},
            "dtype": "uint8",
        },
    }


@pytest.fixture
def treesatai(tmp_path) -> dict:
    """TreeSatAI as its authors lay it out: bare names for the images of three sensors."""
    root = tmp_path / "treesatai"
    labels = {}
    for s, split in enumerate(("train", "test")):
        names = [f"{TREES[i % 3]}_{s}_{i}_WEFL_NLF.tif" for i in range(6)]
        (root / f"{split}_filenames.lst").parent.mkdir(parents=True, exist_ok=True)
        (root / f"{split}_filenames.lst").write_text("\n".join(names) + "\n")
        for i, name in enumerate(names):
            labels[name] = [[TREES[i % 3], 0.9]]
            for sensor, channels, side in (("aerial", 4, 16), ("s1", 3, 6), ("s2", 12, 6)):
                place = root / sensor / "60m"
                place.mkdir(parents=True, exist_ok=True)
                tiff = geotiff(pixels(10 * s + i, channels, side), lon=9 + s, lat=51)
                (place / name).write_bytes(tiff)
    (root / "labels").mkdir()
    (root / "labels" / "TreeSatBA_v9_60m_multi_labels.json").write_text(json.dumps(labels))
    return {
        "task": "multilabel",
        "sensor": "aerial",
        "bands": ["nir", "green", "blue", "red"],
        "units": UINT8,
        "source": {
            "kind": "torchgeo",
            "name": "TreeSatAI",
            "image_key": "image_aerial",
            "arguments": {"root": str(root), "sensors": ["aerial"], "checksum": False},
            "split_arguments": {"train": {"split": "train"}, "test": {"split": "test"}},
            "dtype": "uint8",
        },
        "splits": {"val_from_train": 0.3},
        "allow_missing_classes": True,
    }


@pytest.mark.parametrize(("name", "folder"), [("usavars", "uar"), ("treesatai", "aerial/60m")])
def test_bare_names_are_looked_up_below_the_root(request, tmp_path, monkeypatch, name, folder):
    entry = request.getfixturevalue(name)
    source = open_source(entry, where="x")
    record = source.records()[0]
    # as the class lists it, so that neither place nor working directory is part of a sample's name
    assert "/" not in record.sample_id and record.sample_id.endswith(".tif")
    root = entry["source"]["arguments"]["root"]
    assert os.path.isfile(os.path.join(root, folder, record.sample_id))
    decoded = source.decode(0)
    assert decoded.image.shape == (4, 16, 16) and decoded.place.transform is not None
    assert source.locate(0) == (decoded.place.lon, decoded.place.lat) != (None, None)
    monkeypatch.chdir(tmp_path)
    assert open_source(entry, where="x").records()[0].sample_id == record.sample_id


@pytest.mark.parametrize("name", ["usavars", "treesatai"])
def test_a_dataset_of_bare_names_is_prepared(request, tmp_path, name):
    card = Prepared(tmp_path / "out").run(request.getfixturevalue(name))
    assert card["splits"]["test"]["count"] in (4, 6)
    assert card["audit"] is not None


def test_an_image_that_a_list_names_and_nobody_has_is_named(usavars, tmp_path):
    root = usavars["source"]["arguments"]["root"]
    os.remove(os.path.join(root, "uar", "tile_2,3.tif"))
    with pytest.raises(PermafrostError, match="the sample tile_2,3.tif cannot be read .*No such"):
        Prepared(tmp_path / "out").run(usavars)


def flood(root) -> dict:
    """ETCI2021 as its authors lay it out: two polarisations, each a picture in grey of three channels."""
    for s, part in enumerate(("train", "test", "test_internal")):
        for i in range(4):
            tiles = root / part / f"scene{s}{i}" / "tiles"
            grey = pixels(10 * s + i, 1)[0]
            truth = (grey > 100).astype(np.uint8) * 255
            kinds = {"vv": grey, "vh": 255 - grey, "water_body_label": 255 - truth}
            if part != "test_internal":
                kinds["flood_label"] = truth
            for kind, image in kinds.items():
                (tiles / kind).mkdir(parents=True)
                (tiles / kind / f"scene{s}{i}_x-0_y-0.png").write_bytes(encode(image))
    names = [f"{name}_{channel}" for name in ("vv", "vh") for channel in range(3)]
    return {
        "task": "segmentation",
        "bands": [{"name": name, "common_name": None} for name in names],
        "units": UINT8,
        "classes": ["dry", "flooded"],
        "source": {
            "kind": "torchgeo",
            "name": "ETCI2021",
            "label_channel": 1,
            "arguments": {"root": str(root), "checksum": False},
            "split_arguments": {"train": {"split": "train"}, "test": {"split": "val"}},
            "dtype": "uint8",
        },
        "splits": {"val_from_train": 0.25},
    }


def test_bands_are_declared_by_channel_where_the_class_counts_polarisations(tmp_path):
    entry = flood(tmp_path / "etci")
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert [band["name"] for band in card["bands"]] == [b["name"] for b in entry["bands"]]
    store = out.store("test")
    images, masks = store.read("images"), store.read("masks")
    np.testing.assert_array_equal(masks, (images[:, 0] > 100).astype(np.uint8))


def test_a_mask_of_several_channels_needs_the_one_that_is_meant(tmp_path):
    entry = flood(tmp_path / "etci")
    del entry["source"]["label_channel"]
    with pytest.raises(PermafrostError, match=r"shape \(2, 16, 16\).*label_channel"):
        Prepared(tmp_path / "out").run(entry)
    entry["source"]["label_channel"] = 2
    with pytest.raises(PermafrostError, match=r"shape \(2, 16, 16\).*label_channel"):
        Prepared(tmp_path / "out").run(entry)


@pytest.mark.parametrize("count", [2, 5])
def test_another_number_of_bands_than_channels_is_refused(tmp_path, count):
    entry = flood(tmp_path / "etci")
    entry["bands"] = entry["bands"][:count]
    with pytest.raises(PermafrostError) as caught:
        Prepared(tmp_path / "out").run(entry)
    text = str(caught.value)
    assert "ETCI2021 returns VV, VH, in 6 channels" in text or "6" in text


def seasonet(root) -> dict:
    """SeasoNet as its authors lay it out: a file for each of four groups of bands."""
    groups = {"10m_RGB": (3, 120), "10m_IR": (1, 120), "20m": (6, 60), "60m": (2, 20)}
    rows = []
    for i in range(9):
        place = f"spring/grid1/tile{i}"
        (root / place).mkdir(parents=True)
        for number, (group, (channels, side)) in enumerate(groups.items()):
            array = np.full((channels, side, side), 100 * (number + 1) + i, np.uint16)
            array[:, 0, 0] += 1
            (root / place / f"tile{i}_{group}.tif").write_bytes(geotiff(array, lon=7 + i, lat=50))
        labels = np.random.default_rng(i).integers(1, 34, (1, 120, 120)).astype(np.uint8)
        (root / place / f"tile{i}_labels.tif").write_bytes(geotiff(labels, lon=7 + i, lat=50))
        rows.append(f"{i},Spring,1,50,{7 + i},{place}")
    for season in ("summer", "fall", "winter", "snow"):
        (root / season).mkdir()
    (root / "meta.csv").write_text(
        "Index,Season,Grid,Latitude,Longitude,Path\n" + "\n".join(rows) + "\n"
    )
    (root / "splits").mkdir()
    for number, split in enumerate(("train", "val", "test")):
        ids = range(3 * number, 3 * number + 3)
        (root / "splits" / f"{split}.csv").write_text("\n".join(map(str, ids)) + "\n")
    order = ["B04", "B03", "B02", "B08", "B05", "B06", "B07", "B8A", "B11", "B12", "B01", "B09"]
    return {
        "task": "segmentation",
        "sensor": "sentinel2-l2a",
        "bands": order,
        "units": COUNTS,
        "source": {
            "kind": "torchgeo",
            "name": "SeasoNet",
            "arguments": {"root": str(root), "checksum": False},
            "dtype": "uint16",
        },
    }


def test_bands_are_declared_by_channel_where_the_class_counts_groups(tmp_path):
    entry = seasonet(tmp_path / "seasonet")
    (tmp_path / "seasonet" / "splits.zip").touch()
    source = open_source(entry, where="x")
    record, decoded = source.records()[0], source.decode(0)
    assert record.sample_id == "spring/grid1/tile0/tile0_10m_RGB.tif"
    assert decoded.image.shape == (12, 120, 120) and decoded.place.transform is not None
    assert decoded.image[:, 60, 60].tolist() == [100] * 3 + [200] + [300] * 6 + [400] * 2
    entry["source"]["arguments"]["bands"] = ["10m_RGB"]
    with pytest.raises(PermafrostError, match="returns 10m_RGB, in 3 channels"):
        open_source(entry, where="x")
