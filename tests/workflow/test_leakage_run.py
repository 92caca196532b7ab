"""Leakage and copies reach every score, from files on disk to what is shown: a dataset with each, and one without."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import permafrost as pf
import pyarrow.parquet as pq
import pytest
from helpers.datasets.images import encode, photo
from helpers.project import Project
from permafrost.core.leakage import CLEAN

KINDS = ("dark", "light")


def images(first: int, count: int) -> list[tuple[str, bytes]]:
    """Images of two classes that overlap in brightness."""
    found = []
    for number in range(first, first + count):
        kind = number % 2
        image = photo(number, (32, 32)) // 2 + np.uint8(12 * kind)
        found.append((KINDS[kind], encode(image)))
    return found


def write(folder, **splits: list[tuple[str, bytes]]) -> None:
    for split, of_split in splits.items():
        for number, (kind, content) in enumerate(of_split):
            path = folder / split / kind / f"{split}-{number:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def entry(folder) -> dict:
    return {
        "task": "classification",
        "source": {"kind": "folder", "path": str(folder), "split_folders": True},
        "sensor": "rgb",
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        "splits": {"method": "given"},
    }


@pytest.fixture(scope="module")
def leaky(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaky")
    train, val, test = images(0, 60), images(200, 20), images(400, 40)
    write(folder / "leak", train=train, val=val, test=[*train[:15], *val[:5], *test[:20]])
    write(folder / "dup", train=train, val=val, test=[*test[:10]] * 4)
    write(folder / "fine", train=train, val=val, test=test)
    names = ("leak", "dup", "fine")
    return Project.finished(
        folder / "project",
        {
            # neither loads a library of models
            "backbones": ["imagestats", "red"],
            "extra_backbones": {"red": {"kind": "imagestats", "input": {"bands": ["red"]}}},
            "probes": {"knn": {"kind": "knn"}},
            "datasets": list(names),
            "extra_datasets": {name: entry(folder / name) for name in names},
        },
    )


def test_every_score_of_the_dataset_says_so(leaky):
    gate = "test_duplicates_in_train:20 of 40 test images (50 %)"
    for row in leaky.leaderboard():
        if row["probe"] not in ("measures", "profile"):
            assert (gate in (row["gates"] or "").split(";")) == (
                row["dataset"] == "leak" and row["setting"] is None
            )


def test_the_score_on_clean_images_is_that_of_their_predictions(leaky):
    rows = [row for row in leaky.leaderboard() if row["setting"] == CLEAN]
    assert {row["dataset"] for row in rows} == {"leak"}
    found = {(r["backbone"], r["probe"]): r for r in rows if r["metric"] == "accuracy"}
    assert len(found) == 2
    for (backbone, probe), row in found.items():
        path = leaky.path(f"results/predictions/leak/{backbone}/seed0/{probe}.parquet")
        table = pq.read_table(path).to_pydict()
        kept = [place for place, leak in enumerate(table["leak"]) if leak is None]
        assert [table["leak"].count(kind) for kind in ("copy", "near", "group")] == [20, 0, 0]
        right = [table["target"][place] == table["prediction"][place] for place in kept]
        assert row["n_test"] == len(kept) == 20
        assert row["value"] == pytest.approx(np.mean(right))
        assert not row["primary"]


def test_copies_within_test_are_one_unit(leaky):
    units = {(r["dataset"], r["unit"], r["n_units"]) for r in leaky.leaderboard() if r["primary"]}
    assert units == {("leak", "image", 40), ("dup", "group", 10), ("fine", "image", 40)}
    card = json.loads(leaky.path("results/images/dup/card.json").read_text())
    assert card["audit"]["copies_in_test"] == {"exact": 30, "near": 0, "units": 10}


def test_show_and_the_entrance_page_say_so(leaky):
    shown = leaky.permafrost("show")
    words = "20 of 40 test images (50 %) are duplicates of training images"
    assert words in shown
    assert "clean: on the 20 test images that training has not seen" in shown
    page = leaky.path("results/report/index.html").read_text()
    assert f"Leakage in leak: {words}." in page
    assert "clean 0" in leaky.path("results/report/datasets/leak.html").read_text()
    assert "copies among the test images: 10 units of 40" in page
    assert "rest on 10 units" in leaky.permafrost("check", "imagestats", "--dataset", "dup")
    for form in ("markdown", "latex", "csv"):
        assert "duplicate" in leaky.permafrost("export", "--format", form), form


def test_copies_between_datasets_are_counted_by_command_and_python(leaky, tmp_path):
    pairs = json.loads(
        leaky.permafrost("copies", "--json", "--output", str(tmp_path / "copies.csv"))
    )
    counts = {
        (one["dataset"], one["other_dataset"]): [one[split] for split in ("train", "val", "test")]
        for one in pairs
    }
    assert counts == {
        **{("leak", "fine"): [15, 5, 20], ("fine", "leak"): [0, 0, 20]},
        **{("leak", "dup"): [15, 5, 10], ("dup", "leak"): [0, 0, 40]},
        **{("fine", "dup"): [0, 0, 10], ("dup", "fine"): [0, 0, 40]},
    }
    found = pf.Results(leaky.path("results")).copies("fine")
    assert set(found["kind"]) == {"exact"} and len(found) == 40 + 20 + 10 + 40
    assert len(pd.read_csv(tmp_path / "copies.csv")) == sum(map(sum, counts.values()))
    assert re.search("leak +40 +fine +15 +5 +20", leaky.permafrost("copies", "--dataset", "fine"))
