"""Probes that read image stores: what their jobs are told, and what runs them again."""

from __future__ import annotations

import copy
import json

import pytest
from helpers.plans import CONFIG, fill_root, make_plan

PROBES = {"tune": {"kind": "fine_tune"}, "knn": {"kind": "knn"}}


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


def config(**changes) -> dict:
    return {**copy.deepcopy(CONFIG), "probes": copy.deepcopy(PROBES), **changes}


def job(plan, backbone="net", seed=0):
    return plan.probe("pictures", backbone, "tune", seed)


def test_a_job_is_told_all_that_decides_on_what_the_backbone_is_fed(root):
    plan = make_plan(root, config())
    told = json.loads(job(plan).spec)
    assert told["stage"] == "fine_tune" and set(told["inputs"]) == {"images", "backbone"}
    assert told["inputs"]["images"] == plan.prepare("pictures").fingerprint
    # the entry has a size of its own
    assert told["extraction"] == {"interpolation": "bilinear", "antialias": False}
    assert told["entry"]["model"] == "resnet18" and len(told["files"]) == 1
    assert told["options"]["epochs"] == 10
    assert plan.seeds_of("tune") == [0, 1] and job(plan, seed=1) != job(plan)


def test_masks_ask_for_maps(root):
    masked = config(datasets=["masked"])
    masked["extra_datasets"]["masked"] = {
        "task": "segmentation",
        "source": {"kind": "demo", "chip_size": 32},
    }
    masked["probes"] = {"tune": {"kind": "fine_tune"}}
    told = json.loads(make_plan(root, masked).probe("masked", "net", "tune", 0).spec)
    assert told["extraction"]["maps"] is True and "maps_dtype" not in told["extraction"]


@pytest.mark.parametrize(
    "change",
    [{"dtype": "float16"}, {"precision": "bf16"}, {"precision": "tf32"}, {"compile": True}],
)
def test_how_features_are_stored_is_nothing_to_it(root, change):
    before, after = make_plan(root, config()), make_plan(root, config(extraction=change))
    assert job(before) == job(after)
    assert before.extract("pictures", "net") != after.extract("pictures", "net")


def test_the_size_fed_the_weights_and_an_option_run_it_again(root):
    before = make_plan(root, config())
    assert job(before, "stats") != job(make_plan(root, config(extraction={"size": 64})), "stats")
    other = config()
    other["probes"]["tune"]["epochs"] = 3
    assert job(before) != job(make_plan(root, other))
    (root / "data" / "net.safetensors").write_bytes(b"other")
    assert job(before) != job(make_plan(root, config()))
    assert job(before, "stats") == job(make_plan(root, config()), "stats")


def test_moving_the_data_changes_no_fingerprint(root):
    before = make_plan(root, config())
    (root / "data").rename(root / "moved")
    assert job(before) == job(make_plan(root, config(data="moved")))
