"""Augmented views in the plan: nothing changes without them, and with them only what must."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from helpers.plans import CONFIG, fill_root, fingerprints, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.operate.stale import find_stale
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import archived, planned, read_plan
from permafrost.plan.sources import code_hash

GATHERING = {"aggregate", "report"}


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


def plan_of(root, augmentations=None, *, measures=None, **changes):
    options = {"augmentations": augmentations, **(measures or {})}
    return make_plan(root, copy.deepcopy(CONFIG) | {"measures": options} | changes)


def jobs(plan) -> dict[tuple, str]:
    found = fingerprints(plan)
    for stage, names in (("measure", plan.measured()), ("views", plan.viewed())):
        found |= {(stage, *pair): getattr(plan, stage)(*pair).fingerprint for pair in names}
    return found | {
        ("similarity", name): plan.similarity(name).fingerprint for name in plan.paired()
    }


def differing(one, other) -> set[str]:
    a, b = jobs(one), jobs(other)
    return {names[0] for names in a.keys() | b.keys() if a.get(names) != b.get(names)}


def told(job) -> dict:
    return json.loads(job.spec)


def test_without_augmentations_a_job_is_told_what_it_always_was(root):
    plan = plan_of(root)
    assert plan.viewed() == []
    spec = canonical_json(
        {
            "stage": "measure",
            "dataset": "world",
            "backbone": "net",
            "options": {
                "split": "train",
                "max_rows": 10_000,
                "seed": 0,
                "names": None,
                "bootstrap": {"resamples": 200, "confidence": 0.95, "seed": 0},
            },
            "inputs": {"features": plan.extract("world", "net").fingerprint},
        }
    )
    job = plan.measure("world", "net")
    assert job.spec == spec
    assert job.fingerprint == fingerprint(spec, code_hash("measure", json.loads(spec)))
    without = make_plan(root, copy.deepcopy(CONFIG) | {"measures": {}})
    assert differing(without, plan) == set()


def test_switching_on_adds_views_and_changes_only_what_reads_them(root):
    plan = plan_of(root, {})
    assert differing(plan_of(root), plan) == {"views", "measure", *GATHERING}
    assert len(plan.viewed()) == 6
    spec = told(plan.views("world", "net"))
    assert spec["augmentations"] == {
        "views": 10,
        "images": 1000,
        "crop_scale": [0.2, 1],
        "flips": True,
        "rotations": True,
        "photometric": {"gain": 0.2, "offset": 0.2},
        "seed": 0,
    }
    assert spec["split"] == "train" and spec["entry"] == told(plan.extract("world", "net"))["entry"]
    measured = told(plan.measure("world", "net"))
    assert measured["inputs"]["views"] == plan.views("world", "net").fingerprint
    assert measured["options"]["augmentations"] == {"delta": 1e-4}


@pytest.mark.parametrize(
    ("augmentations", "measures", "stages"),
    [
        ({"views": 11}, {}, {"views", "measure"}),
        ({"seed": 1}, {}, {"views", "measure"}),
        ({"crop_scale": [1, 1]}, {}, {"views", "measure"}),
        ({"photometric": None}, {}, {"views", "measure"}),
        ({"photometric": {"gain": 0.1}}, {}, {"views", "measure"}),
        ({"delta": 1.0e-6}, {}, {"measure"}),
        ({}, {"seed": 1}, {"measure", "similarity"}),
        ({}, {"names": ["lidar", "rankme"]}, {"measure"}),
        ({}, {"split": "val"}, {"views", "measure", "similarity"}),
        ({"photometric": {"offset": 0.2, "gain": 0.2}, "views": 10}, {}, None),
    ],
)
def test_an_option_reruns_what_it_changes(root, augmentations, measures, stages):
    found = differing(plan_of(root, {}), plan_of(root, augmentations, measures=measures))
    assert found == (set() if stages is None else stages | GATHERING)


def test_batches_layers_and_types_of_maps_are_nothing_to_views(root):
    config = copy.deepcopy(CONFIG)
    config["extra_datasets"]["world"] = {"task": "segmentation", "source": {"kind": "demo"}}
    config["probes"]["seg"] = {"kind": "dense_knn"}
    config["measures"] = {"augmentations": {}}
    other = copy.deepcopy(config)
    other["extra_backbones"]["net"]["layers"] = ["layer4"]
    other |= {"extraction": {"maps_dtype": "float32"}, "runtime": {"batch_size": 3}}
    one, two = make_plan(root, config), make_plan(root, other)
    assert one.extract("world", "net") != two.extract("world", "net")
    assert one.views("world", "net") == two.views("world", "net")
    assert told(one.views("world", "net"))["extraction"]["maps"] is True


def test_views_are_recorded_archived_and_found_when_stale(root, monkeypatch):
    monkeypatch.chdir(root)
    path = Path(record_plan(plan_of(root, {}), "results"))
    recorded = read_plan(path)
    assert [row["path"] for row in planned(recorded, "views")][
        0
    ] == "results/views/world/stats.zarr"
    assert Path("results/views/world/net.zarr") in archived(recorded, path)
    made = Path("results/views/world/net.zarr")
    made.mkdir(parents=True)
    assert [found for found, _ in find_stale(path, "results")] == [made]


@pytest.mark.parametrize(
    ("augmentations", "measures", "message"),
    [
        ({"views": 1}, {}, "measures.augmentations.views: must be at least 2, not 1"),
        ({"images": 1}, {}, "measures.augmentations.images"),
        ({"crop_scale": [1.0, 0.2]}, {}, r"measures.augmentations: .*crop_scale: \[1.0, 0.2\]"),
        ({"crop_scale": [0.5]}, {}, "measures.augmentations.crop_scale"),
        ({"crop_scale": [0.2, 0.5, 1.0]}, {}, "measures.augmentations.crop_scale"),
        ({"crop_scale": [float("nan"), 1.0]}, {}, "crop_scale: .nan, 1.0."),
        ({"photometric": {"gain": float("nan")}}, {}, "photometric.gain: nan"),
        ({"photometric": {"gian": 0.1}}, {}, "unknown key, did you mean 'gain'"),
        ({"view": 3}, {}, "unknown key, did you mean 'views'"),
        ({"delta": 0.0}, {}, "measures.augmentations: delta is 0.0"),
        ({"delta": float("nan")}, {}, "delta is nan"),
        ({"flips": 1}, {}, "flips: must be true or false, not the number 1"),
        (None, {"names": ["rankme", "lidar"]}, "measures.names: lidar need augmented views"),
        ({}, {"names": ["rankme"]}, "measures.augmentations: no measure of `names`"),
        (7, {}, "measures.augmentations: must be .* not the number 7"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_explained(root, augmentations, measures, message):
    with pytest.raises(PermafrostError, match=message):
        plan_of(root, augmentations, measures=measures)
