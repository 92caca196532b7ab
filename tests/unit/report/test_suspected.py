"""Suspected labels on the page, and tables that cannot be judged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import make_image_store
from permafrost.backbones.kinds import KINDS
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table, write_table
from permafrost.report.tables.suspected import (
    KINDS_WITHOUT_IMAGES,
    LabelResults,
    judge_tables,
    reading_none,
    suspect_block,
)

ABOUT = {"dataset": "town", "probe": "linear", "seed": 0, "of_folds": True}


def table(target, said, *, names=None, total: float = 1.0) -> tuple[pa.Table, dict]:
    scores = np.float32(total) * np.where(np.eye(3)[said] > 0, 0.9, 0.05).astype(np.float32)
    columns = {
        "sample_id": names or [f"i{row:02d}" for row in range(len(said))],
        "target": pa.array(target, pa.int32()),
        "prediction": pa.array(said, pa.int32()),
        "scores": pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), 3),
    }
    return pa.table(columns), {"classes": ["field", "lake", "town"]}


def test_a_wrong_label_is_listed_first_and_tables_in_other_orders_are_the_same():
    target = [row % 3 for row in range(30)]
    wrong = [*target[:7], 2, *target[8:]]
    tables = {name: table(wrong, target) for name in "abc"}
    found = judge_tables(tables, **ABOUT)
    first, second = found.images()[:2]
    assert [first[key] for key in ("sample_id", "given", "proposed", "votes")] == [
        "i07",
        "town",
        "lake",
        3,
    ]
    assert first["suspect"] and not second["suspect"] and first["wrong"] == 3
    assert [row["accuracy_without"] for row in found.backbones()] == [1.0] * 3
    moved = {name: (one.take(np.arange(30)[::-1]), about) for name, (one, about) in tables.items()}
    assert str(judge_tables(moved, **ABOUT).images()) == str(found.images())  # NaN among them


def test_of_repetitions_the_first_counts_and_other_images_are_refused():
    once = table([0, 1], [0, 0], names=["x", "y"])
    twice = table([0, 0, 1, 1], [0, 1, 0, 1], names=["x", "x, 2", "y", "y, 2"])
    first, only = (judge_tables({"a": one}, **ABOUT).images() for one in (twice, once))
    assert str(first) == str(only)
    with pytest.raises(PermafrostError, match="b answered other images"):
        judge_tables({"a": once, "b": table([0, 1], [0, 0], names=["x", "z"])}, **ABOUT)
    tables = {"a": once, "b": table([0, 1], [0, 1], names=["x", "y"], total=0.5)}
    with pytest.raises(PermafrostError, match="linear, b: no probabilities .*add up to 1"):
        judge_tables(tables, **ABOUT)


def test_harder_images_and_datasets_without_classes_are_refused(tmp_path):
    tasks = {"many": "regression", "one": "classification", "hazy": "classification"}
    datasets = {name: {"task": task} for name, task in tasks.items()}
    datasets["hazy"]["derived"] = {"of": "one", "harder": {"haze": 1}}
    made = {"stage": "probe", "backbone": "a", "probe": "linear", "seed": 0}
    plan = {"datasets": datasets, "backbones": {"a": {}}, "outputs": [{**made, "dataset": "hazy"}]}
    results = LabelResults(plan, lambda row: tmp_path)
    assert results.datasets() == []
    with pytest.raises(PermafrostError, match="its images are degraded"):
        results.judged("hazy")
    with pytest.raises(PermafrostError, match="the task is regression"):
        results.judged("many")
    with pytest.raises(
        PermafrostError, match="no predictions of backbones that read images are here"
    ):
        results.judged("one")


def test_the_page_shows_the_suspects_of_the_best_probe(tmp_path):
    inputs = prepare(tmp_path, datasets={"town": small("town")}, backbones=["a", "b", "c"])
    for path in inputs["predictions"].values():
        names = [f"town-{row:05d}" for row in range(30)]
        said = [row % 3 for row in range(30)]
        about = read_table(path)[1]
        write_table(path, table([*said[:7], 2, *said[8:]], said, names=names)[0], about)
    images = make_image_store(tmp_path / "test.zarr", small("town"))
    build_report(**{**inputs, "images": {("town", "test"): images}})
    page = (tmp_path / "report/datasets/town.html").read_text()
    assert "1 of 30 labels suspected (3.3 %), by more than half of 3 backbones" in page
    assert "Images of town whose labels are suspected" in page
    assert (tmp_path / "report/figures/suspects__town.png").exists()


def test_backbones_without_the_seed_are_refused(tmp_path):
    made = {"stage": "probe", "dataset": "town", "probe": "linear"}
    outputs = [{**made, "backbone": name, "seed": seed} for name, seed in (("a", 0), ("b", 1))]
    plan = {
        "datasets": {"town": {"task": "classification"}},
        "backbones": {"a": {}, "b": {}},
        "outputs": outputs,
    }
    with pytest.raises(PermafrostError, match="with seed 0 of the backbone 'b'"):
        LabelResults(plan, lambda row: tmp_path).judged("town", backbones=["b"])


def several(target, scores) -> tuple[pa.Table, dict]:
    def column(values, kind):
        flat = pa.array(np.ravel(values), kind)
        return pa.FixedSizeListArray.from_arrays(flat, scores.shape[1])

    answers = {"prediction": (scores > 0.5, pa.uint8()), "scores": (scores, pa.float32())}
    names = {"sample_id": [f"i{row:02d}" for row in range(len(scores))]}
    columns = {
        key: column(*one) for key, one in {"target": (target, pa.uint8()), **answers}.items()
    }
    return pa.table(names | columns), {"classes": ["field", "lake", "town"]}


def test_each_of_several_labels_is_judged_by_itself():
    rng = np.random.default_rng(0)
    truth = rng.random((60, 3)) < (0.5, 0.2, 0.8)
    given = truth.copy()
    given[7, 1] = ~given[7, 1]
    tables = {name: several(given, truth * 0.8 + 0.1) for name in "abc"}
    found = judge_tables(tables, **ABOUT)
    first, second = found.images()[:2]
    assert (first["sample_id"], first["label"], first["suspect"]) == ("i07", "lake", True)
    assert {first["given"], first["proposed"]} == {"absent", "present"} and not second["suspect"]
    assert found.summary()["images"] == 60 and found.summary()["labels"] == 180
    assert found.backbones()[0]["accuracy"] == 179 / 180
    head = suspect_block(found, found.images()).plain()
    assert "1 of 180 labels suspected (0.6 %)" in head and "lake" in head


def test_backbones_that_read_no_images_do_not_judge(tmp_path):
    made = {"stage": "probe", "dataset": "town", "probe": "linear", "seed": 0}
    entries = {
        "place": {"kind": "coordinates"},
        "small": {"kind": "derived"},
        "net": {"kind": "timm"},
    }
    plan = {
        "datasets": {"town": {"task": "classification"}},
        "backbones": entries,
        "outputs": [{**made, "backbone": name} for name in ("place", "small")],
    }
    results = LabelResults(plan, lambda row: tmp_path)
    assert {name for name, one in KINDS.items() if not one.pixels} == KINDS_WITHOUT_IMAGES
    assert results.datasets() == [] and reading_none(entries) == {"place", "small"}
    with pytest.raises(PermafrostError, match="town: place reads no images.*name other backbones"):
        results.judged("town", backbones=["place"])
