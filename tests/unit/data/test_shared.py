"""Real images: all decode, the splits are those of the index, and the audit finds what is known."""

import csv
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.images import Prepared, catalogue_entry, open_source, write_table
from permafrost.data.store.image_store import ImageStore

pytestmark = pytest.mark.shared


def shortened(entry: dict, folder: Path, keep) -> dict:
    """The entry with only those rows of its table that `keep(number, row)` chooses."""
    with open(entry["source"]["table"], newline="") as stream:
        rows = list(csv.DictReader(stream))
    kept = [row for number, row in enumerate(rows) if keep(number, row)]
    path = write_table(folder / "index.csv", kept)
    return {**entry, "source": {**entry["source"], "table": str(path)}}


def test_uc_merced_has_images_of_several_sizes_and_all_decode(shared_data, tmp_path):
    entry = catalogue_entry("uc-merced", shared_data)
    out = Prepared(tmp_path / "out")
    card = out.run(shortened(entry, tmp_path, lambda number, row: number % 7 == 0))
    assert len(card["classes"]) == 21
    assert sum(split["count"] for split in card["splits"].values()) == 201
    assert card["image_size"]["max"][0] >= 256 > card["image_size"]["min"][0]
    assert ImageStore(out.outputs["test"]).dtype == np.uint8
    assert card["audit"]["exact_duplicates"] == 0


def test_eurosat_follows_its_index_and_the_audit_finds_the_place_seen_twice(shared_data, tmp_path):
    entry = catalogue_entry("eurosat-rgb", shared_data)
    pair = {"Highway_291.jpg", "Highway_513.jpg"}
    out = Prepared(tmp_path / "out")
    few = shortened(entry, tmp_path, lambda i, row: i % 11 == 0 or row["filename"] in pair)
    # both are of the given train split; a split by name puts one of them into val
    rows = (
        (tmp_path / "index.csv")
        .read_text()
        .replace("Highway_513.jpg,Highway,train", "Highway_513.jpg,Highway,val")
    )
    (tmp_path / "index.csv").write_text(rows)
    splits = {"method": "given", "map": {"train": ["train"], "val": ["val"], "test": ["test"]}}
    card = out.run({**few, "splits": splits, "allow_missing_classes": True})
    assert card["splits"]["val"]["count"] == 1
    assert card["audit"]["near_duplicates"] == 1
    assert {Path(name).name for name in card["audit"]["examples"][0]["samples"]} == pair
    with open(shared_data / "eurosat_rgb" / "index.csv", newline="") as stream:
        index = {row["filename"]: row for row in csv.DictReader(stream)}
    store = ImageStore(out.outputs["test"])
    for name, label in zip(store.samples["sample_id"].to_pylist(), store.labels(), strict=True):
        row = index[Path(name).name]
        assert row["presto_split"] == "test" and card["classes"][label] == row["class"]


def test_naip_has_four_bands_and_lies_in_california(shared_data, tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(catalogue_entry("urban-trees-city", shared_data))
    assert [band["common_name"] for band in card["bands"]] == ["red", "green", "blue", "nir"]
    for split in ("train", "val", "test"):
        samples = ImageStore(out.outputs[split]).samples
        lon, lat = samples["lon"].to_numpy(), samples["lat"].to_numpy()
        assert ((lon > -119) & (lon < -116) & (lat > 33) & (lat < 35)).all()
    assert card["split_method"] == "block" and not card["spatially_random"]
    assert card["audit"]["min_distance_km"] > 0.1


def test_dubai_labels_and_groups_are_those_of_the_table(shared_data):
    entry = catalogue_entry("dubai-presence", shared_data)
    records = open_source(entry, where="dubai").records()
    with open(entry["source"]["table"], newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(records) == 870
    for record, row in zip(records, rows, strict=True):
        assert record.label == tuple(int(row[c]) for c in entry["source"]["labels"])
        assert record.group_id == f"{row['tile']}-{row['part']}"
    homes = {s: {r.group_id for r in records if r.split == s} for s in ("train", "val", "test")}
    assert not homes["train"] & homes["test"]


def test_dubai_masks_hold_the_shares_that_the_table_gives(shared_data, tmp_path):
    entry = catalogue_entry("dubai-segmentation", shared_data)
    out = Prepared(tmp_path / "out")
    card = out.run(shortened(entry, tmp_path, lambda number, row: number % 9 == 0))
    assert card["classes"] == ["building", "land", "road", "vegetation", "water"]
    assert card["ignore_index"] == 255 and card["dead_classes"] == []
    assert card["audit"]["shared_groups"] == 0
    with open(entry["source"]["table"], newline="") as stream:
        index = {f"images/{row['chip']}.jpg": row for row in csv.DictReader(stream)}
    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split])
        masks = store.read().masks
        assert masks.shape[1:] == (256, 256) and masks.dtype == np.uint8
        for name, mask in zip(store.samples["sample_id"].to_pylist(), masks, strict=True):
            shares = np.bincount(mask.ravel(), minlength=256) / mask.size
            expected = [float(index[name][f"f_{c}"]) for c in (*card["classes"], "unlabeled")]
            np.testing.assert_allclose(shares[[0, 1, 2, 3, 4, 255]], expected, atol=6e-5)
        counted = card["splits"][split]
        assert counted["ignored_pixels"] == (masks == 255).sum() > 0
        assert sum(counted["class_counts"]) == (masks != 255).sum()
