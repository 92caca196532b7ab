"""Groups of datasets: those that entries make, the configured ones, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml
from helpers.plans import CONFIG, changed, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.plan.groups import groups_of


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    return copy.deepcopy(CONFIG)


DATASETS = {
    "fields": {"task": "segmentation", "sensor": "sentinel2-l2a", "gsd_m": 10},
    "crops": {"task": "classification", "sensor": "sentinel2-l1c", "gsd_m": 10.0},
    "ships": {"task": "detection", "sensor": "aerial", "gsd_m": 0.3},
    "coast": {
        "task": "segmentation",
        "modalities": {"s2": {"sensor": "sentinel2"}, "s1": {"sensor": "sentinel1"}, "dem": {}},
        "gsd_m": 10.1,
    },
    "trees": {"task": "classification", "sensor": None, "modalities": None},
}


def test_entries_make_groups():
    assert groups_of(DATASETS, {}) == {
        "all": ["coast", "crops", "fields", "ships", "trees"],
        "task:classification": ["crops", "trees"],
        "task:segmentation": ["coast", "fields"],
        "labels:of-places": ["coast", "fields", "ships"],
        # of images: those of the task classification, which are shown already
        "sensor:sentinel2": ["coast", "crops", "fields"],
        "ground:1m-10m": ["crops", "fields"],
    }
    assert groups_of({"fields": DATASETS["fields"]}, {}) == {"all": ["fields"]}


def test_configured_groups_stay_whatever_they_hold():
    groups = groups_of(DATASETS, {"water": ["ships", "coast"], "far": ["elsewhere"]})
    assert list(groups)[:3] == ["all", "water", "far"]
    assert groups["water"] == ["coast", "ships"] and groups["far"] == ["elsewhere"]
    # one that entries make is not repeated under a second name
    assert "task:segmentation" not in groups_of(DATASETS, {"masks": ["fields", "coast"]})


def test_a_group_reruns_what_gathers_scores_alone(root, config):
    names = list(config["extra_datasets"])
    config["groups"] = {"mine": names[:1]}
    assert changed(make_plan(root), make_plan(root, config)) == {("aggregate",), ("report",)}
    config["groups"] = {}
    config["ranking"] = {"draws": 500}
    assert changed(make_plan(root), make_plan(root, config)) == {("aggregate",), ("report",)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"groups": {"mine": ["nowhere"]}}, r"groups\.mine: no dataset 'nowhere'"),
        ({"groups": {"all": ["world"]}}, r"the group 'all' is that of all datasets"),
        ({"groups": {"task:x": ["world"]}}, r"task:x"),
        ({"groups": {"mine": []}}, r"groups\.mine"),
        ({"ranking": {"bounds": {"world": [1, 0.5]}}}, r"the bounds of 'world' are 1 and 0.5"),
        ({"ranking": {"bounds": {"wrld": [0, 1]}}}, r"no dataset 'wrld', did you mean 'world'"),
        ({"ranking": {"reference": ["a", "b"]}}, r"ranking\.reference: no backbone 'a'"),
        ({"ranking": {"baseline": "imagestat"}}, r"ranking\.baseline: no backbone 'imagestat'"),
        ({"ranking": {"uncertainty": "all"}}, r"uncertainty"),
    ],
)
def test_what_cannot_be_is_refused(root, config, change, words):
    config.update(change)
    with pytest.raises(PermafrostError, match=words):
        make_plan(root, config)


def test_two_sources_of_bounds_are_refused(root, config):
    names = config["backbones"][:2]
    config["ranking"] = {"bounds": {"world": [0, 1]}, "reference": names}
    with pytest.raises(PermafrostError, match="bounds and reference both define"):
        make_plan(root, config)


def test_the_capabilities_of_geobench2_are_groups_of_the_catalogue():
    root = Path(__file__).parents[3]
    groups = yaml.safe_load((root / "config/groups/geobench2.yaml").read_text())["groups"]
    entries = yaml.safe_load((root / "config/datasets/geobench2.yaml").read_text())
    assert len(groups) == 9
    for names in groups.values():
        assert set(names) <= set(entries) and len(set(names)) == len(names)
    # its 19 datasets, each as one entry
    assert len({name for names in groups.values() for name in names}) == 19


# --- bounds from a file ---------------------------------------------------------------------------


def with_bounds(root, config, text: str, **datasets: str) -> dict:
    (root / "theirs.json").write_text(text)
    config["ranking"] = {"bounds": {"file": "theirs.json", "datasets": datasets}}
    return config


def test_bounds_of_a_file_are_those_of_the_names_that_are_given(root, config):
    ours = next(iter(config["extra_datasets"]))
    plan = make_plan(root, with_bounds(root, config, '{"a": [0.25, 1], "b": [0, 0]}', a=ours))
    assert json.loads(plan.aggregate().spec)["ranking"]["bounds"] == {ours: [0.25, 1]}
    direct = copy.deepcopy(CONFIG)
    direct["ranking"] = {"bounds": {ours: [0.25, 1]}}
    # numbers identify the job, and not where they come from
    assert plan.aggregate().fingerprint == make_plan(root, direct).aggregate().fingerprint


@pytest.mark.parametrize(
    ("text", "theirs", "words"),
    [
        ("{", "a", "cannot be read"),
        ("[1, 2]", "a", "holds no names"),
        ('{"abc": [0, 1]}', "abd", "has no 'abd', did you mean 'abc'"),
        ('{"a": [0, 1, 2]}', "a", "'a' in .* is \\[0, 1, 2\\]"),
        ('{"a": [0, NaN]}', "a", "give two numbers"),
        ('{"a": [1, 0]}', "a", "the bounds of .* are 1 and 0"),
    ],
)
def test_a_file_of_bounds_that_cannot_be_used_is_named(root, config, text, theirs, words):
    ours = next(iter(config["extra_datasets"]))
    with pytest.raises(PermafrostError, match=words):
        make_plan(root, with_bounds(root, config, text, **{theirs: ours}))


def test_two_names_for_one_dataset_and_a_missing_file_are_refused(root, config):
    ours = next(iter(config["extra_datasets"]))
    both = '{"a": [0, 1], "b": [0, 2]}'
    with pytest.raises(PermafrostError, match="two names of .* are"):
        make_plan(root, with_bounds(root, config, both, a=ours, b=ours))
    config["ranking"]["bounds"]["file"] = "nowhere.json"
    with pytest.raises(PermafrostError, match="nowhere.json cannot be read"):
        make_plan(root, config)


@pytest.mark.shared
def test_the_published_bounds_of_geobench2_are_read(root, config, shared_data):
    ours = next(iter(config["extra_datasets"]))
    file = shared_data / "published/geobench2/normalizer.json"
    plan = make_plan(root, with_bounds(root, config, file.read_text(), treesatai=ours))
    low, high = json.loads(plan.aggregate().spec)["ranking"]["bounds"][ours]
    assert (round(low, 3), round(high, 3)) == (0.539, 0.672)
