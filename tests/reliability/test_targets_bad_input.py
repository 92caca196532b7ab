"""Regression datasets: what is read, how it is split, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store
from permafrost.data.labels.targets import target_strata
from permafrost.data.store.card import read_card
from permafrost.data.store.prepare import PrepareSpec, prepare
from permafrost.plan.validation import validate
from PIL import Image

SPLIT = {"method": "random", "fractions": [0.5, 0.25, 0.25], "seed": 0}


def write_table(folder, cells, splits=None):
    """A table of images, each with a cell in the column ``height``."""
    (folder / "images").mkdir()
    lines = ["name,height,other,split"]
    for number, cell in enumerate(cells):
        name = f"{number:02}.png"
        pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name)
        lines.append(f"{name},{cell},{number * number},{splits[number] if splits else ''}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def entry(folder, **changes) -> dict:
    source = {
        "kind": "table",
        "table": str(folder / "table.csv"),
        "images": str(folder / "images"),
        "path": "name",
        "target": changes.pop("column", "height"),
    }
    made = {
        "task": "regression",
        "source": source,
        "sensor": "rgb",
        "splits": SPLIT,
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        **changes,
    }
    if made["splits"].get("method") == "given":
        source["split"] = "split"
    validate(made, "dataset", where="test")
    return made


def prepared(folder, **changes):
    out = folder / "out"
    outputs = {split: out / f"{split}.zarr" for split in ("train", "val", "test")}
    spec = PrepareSpec(dataset="heights", entry=entry(folder, **changes))
    prepare(spec, outputs=outputs, card_path=out / "card.json", fingerprint="f", workers=1)
    return outputs, read_card(out / "card.json").as_json()


def test_targets_are_stored_as_they_are_and_described_in_the_card(tmp_path):
    cells = [f"{0.1 * number - 1.3:.2f}" for number in range(40)]
    write_table(tmp_path, cells)
    outputs, card = prepared(tmp_path, target={"unit": "m"})
    assert (card["task"], card["classes"], card["dead_classes"]) == ("regression", [], [])
    target = card["target"]
    assert (target["name"], target["unit"]) == ("height", "m")
    for split, path in outputs.items():
        store = Store(path)
        labels, names = store.read("labels"), store.samples(["sample_id"])["sample_id"].to_pylist()
        assert labels.dtype == np.float64
        assert labels.tolist() == [float(cells[int(name[:2])]) for name in names]
        about = target["splits"][split]
        assert about["mean"] == pytest.approx(labels.mean())
        assert about["std"] == pytest.approx(labels.std())
        assert (about["min"], about["max"]) == (labels.min(), labels.max())
        assert sum(about["histogram"]) == card["splits"][split]["count"]
    json.dumps(card, allow_nan=False)


def test_two_columns_are_two_datasets_of_the_same_images(tmp_path):
    write_table(tmp_path, range(40), splits=["train", "val", "test", "train"] * 10)
    cards = []
    for column in ("height", "other"):
        outputs, card = prepared(tmp_path, column=column, splits={"method": "given"})
        names = Store(outputs["test"]).samples(["sample_id"])["sample_id"].to_pylist()
        cards.append((card["target"]["name"], names))
    assert [name for name, _ in cards] == ["height", "other"] and cards[0][1] == cards[1][1]


def test_random_splits_are_spread_over_the_range(tmp_path):
    write_table(tmp_path, range(80))
    _, card = prepared(tmp_path)
    for split in ("train", "val", "test"):
        about = card["target"]["splits"][split]
        assert about["mean"] == pytest.approx(39.5, abs=2.5)
        assert about["min"] <= 7 and about["max"] >= 72


def test_tenths_hold_equal_numbers_and_ties_stay_together():
    strata = target_strata(np.arange(100, dtype=float))
    assert np.bincount(strata).tolist() == [10] * 10
    mostly_zero = np.concatenate([np.zeros(90), np.arange(1.0, 11.0)])
    assert len(set(target_strata(mostly_zero)[:90])) == 1


@pytest.mark.parametrize("cell", ["nan", "inf", "", "high"])
def test_a_target_that_is_no_finite_number_names_its_row(tmp_path, cell):
    write_table(tmp_path, [*range(10), cell, *range(20)])
    with pytest.raises(PermafrostError, match=r"row 12 has .* in height"):
        prepared(tmp_path)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*"))


def test_a_constant_target_of_train_is_refused(tmp_path):
    splits = ["train"] * 10 + ["val", "test"] * 5
    write_table(tmp_path, [4] * 10 + list(range(10)), splits=splits)
    with pytest.raises(PermafrostError, match="all targets of train are 4"):
        prepared(tmp_path, splits={"method": "given"})


def test_a_table_without_the_column_is_refused(tmp_path):
    write_table(tmp_path, range(20))
    with pytest.raises(PermafrostError, match="no column 'heihgt', .*height"):
        prepared(tmp_path, column="heihgt")
    with pytest.raises(PermafrostError, match="needs target in source"):
        made = entry(tmp_path)
        del made["source"]["target"]
        prepare(PrepareSpec(dataset="d", entry=made), outputs={}, card_path=None, fingerprint="f")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["low", "high"]}, "classes has no meaning"),
        ({"allow_missing_classes": True}, "allow_missing_classes has no meaning"),
        ({"tiles": {"size": 4}}, "tiles has no meaning"),
    ],
)
def test_options_of_classes_and_objects_are_refused(tmp_path, changes, message):
    write_table(tmp_path, range(20))
    with pytest.raises(PermafrostError, match=message):
        prepared(tmp_path, **changes)


def test_a_target_is_refused_where_images_have_classes(tmp_path):
    write_table(tmp_path, range(20))
    made = entry(tmp_path, task="classification", target={"unit": "m"})
    with pytest.raises(PermafrostError, match="target has no meaning here"):
        prepare(PrepareSpec(dataset="d", entry=made), outputs={}, card_path=None, fingerprint="f")


def test_the_demo_world_knows_the_share_of_a_class(tmp_path):
    made = {
        "task": "regression",
        "source": {
            "kind": "demo",
            "chips": {"train": 30, "val": 10, "test": 10},
            "chip_size": 32,
            "scene_size": 128,
            "cover": "water",
        },
    }
    validate(made, "dataset", where="test")
    outputs = {split: tmp_path / f"{split}.zarr" for split in ("train", "val", "test")}
    card = prepare(
        PrepareSpec(dataset="demo", entry=made),
        outputs=outputs,
        card_path=tmp_path / "card.json",
        fingerprint="f",
        workers=1,
    )
    labels = Store(outputs["train"]).read("labels")
    assert card.classes == [] and 0 <= labels.min() < labels.max() <= 1
