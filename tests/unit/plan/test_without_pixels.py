"""Backbones that are fed no pixels, as the plan treats them: their identity, and what they cannot do."""

from __future__ import annotations

import copy

import pytest
from helpers.plans import CONFIG, changed, fill_root, make_plan
from permafrost.core.errors import PermafrostError

TABLE = {"by": "id", "id": "id", "embedding": "embedding"}


@pytest.fixture
def root(tmp_path):
    root = fill_root(tmp_path / "root")
    folder = root / "data" / "aef" / "2020"
    folder.mkdir(parents=True)
    (folder / "a.tif").write_bytes(b"embeddings")
    (folder / "a_scales.tif").write_bytes(b"scales")
    (folder / "notes.txt").write_bytes(b"notes")
    (root / "data" / "t.parquet").write_bytes(b"rows")
    return root


@pytest.fixture
def config():
    config = copy.deepcopy(CONFIG)
    config["backbones"] = ["stats", "aef", "rows", "place"]
    config["extra_backbones"] |= {
        "aef": {
            "kind": "embeddings",
            "path": "{data}/aef",
            "rasters": {"pattern": "{year}/a.tif", "scales": "_scales"},
        },
        "rows": {"kind": "embeddings", "path": "{data}/t.parquet", "table": TABLE},
        "place": {"kind": "coordinates", "encoder": "sines"},
    }
    return config


@pytest.mark.parametrize("name", ["a.tif", "a_scales.tif"])
def test_a_file_that_is_read_reruns_its_backbone_and_no_other(root, config, name):
    before = make_plan(root, config)
    (root / "data" / "aef" / "2020" / name).write_bytes(b"other embeddings")
    again = changed(before, make_plan(root, config))
    assert {job[2] for job in again if job[0] == "extract"} == {"aef"}


def test_files_that_the_pattern_leaves_out_and_the_place_of_the_folder_do_not_count(root, config):
    before = make_plan(root, config)
    (root / "data" / "aef" / "2020" / "notes.txt").write_bytes(b"more")
    (root / "data" / "aef").rename(root / "data" / "elsewhere")
    config["extra_backbones"]["aef"]["path"] = "{data}/elsewhere"
    assert changed(before, make_plan(root, config)) == set()


def test_the_joining_rule_counts(root, config):
    before = make_plan(root, config)
    config["extra_backbones"]["aef"]["rasters"]["pool"] = "mean_std"
    again = changed(before, make_plan(root, config))
    assert {job[2] for job in again if job[0] == "extract"} == {"aef"}


def test_they_have_neither_profile_nor_views(root, config):
    config["profile"] = {}
    config["measures"] = {"augmentations": {}}
    plan = make_plan(root, config)
    assert {backbone for _, backbone in plan.profiled()} == {"stats"}
    assert {backbone for _, backbone in plan.viewed()} == {"stats"}
    assert {backbone for _, backbone in plan.measured()} == set(config["backbones"])
    assert "views" not in plan.measure("pictures", "place").spec.partition('"inputs":')[2][:200]


def test_a_probe_that_trains_the_backbone_is_left_out(root, config):
    config["probes"]["tuned"] = {"kind": "fine_tune"}
    plan = make_plan(root, config)
    assert {backbone for _, backbone, probe, _ in plan.evaluations() if probe == "tuned"} == {
        "stats"
    }
    assert len(plan.pairs()) == 8 and ("pictures", "tuned") not in plan.compared()
    assert "passes images to the backbone" in plan.misfits["pictures", "place", "tuned"]
    # with no other probe, nothing is left of the pair
    config["probes"] = {"tuned": {"kind": "fine_tune"}}
    assert list(make_plan(root, config).backbones) == ["stats"]
    with pytest.raises(PermafrostError, match="'tuned' passes images to the backbone"):
        make_plan(root, {**config, "unfit": "error"})


def test_a_table_is_left_out_of_a_dense_task(root, config):
    config["extra_datasets"]["pictures"] = {
        "task": "segmentation",
        "source": {"kind": "demo", "chip_size": 32},
    }
    config["probes"] = {"knn": {"kind": "knn"}, "dense": {"kind": "dense_knn"}}
    config["extra_backbones"]["rows"]["unmatched"] = "drop"
    plan = make_plan(root, config)
    assert plan.backbones_on("pictures") == ["stats", "aef", "place"]
    # images without an embedding leave only the datasets that the table is fed for
    assert (
        "matched" in plan.prepare("world").spec and "matched" not in plan.prepare("pictures").spec
    )
    with pytest.raises(PermafrostError, match="a table has one embedding for an image"):
        make_plan(root, {**config, "unfit": "error"})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"table": TABLE}, "rasters"),
        ({"rasters": None}, "rasters"),
        ({"unmatched": "skip"}, "unmatched"),
        ({"path": "{data}/nowhere"}, "nowhere"),
    ],
)
def test_entry_that_cannot_be_meant_is_refused(root, config, change, problem):
    entry = {**config["extra_backbones"]["aef"], **change}
    config["extra_backbones"]["aef"] = {k: v for k, v in entry.items() if v is not None}
    with pytest.raises(PermafrostError, match=problem):
        make_plan(root, config)
