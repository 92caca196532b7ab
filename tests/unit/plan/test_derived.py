"""Derived backbones in a plan: what `derive` makes, which jobs there are, and what reruns when steps change."""

from __future__ import annotations

import copy
import json

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.plan.record import outputs

INT8, PCA = [{"quantise": "int8"}], [{"pca": 8}]


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    config = copy.deepcopy(CONFIG)
    config["measures"] = {}
    return config


def jobs(plan) -> dict[tuple, str]:
    return {
        (stage.name, *names): stage.job(*names).fingerprint
        for stage in plan.stages()
        for names in stage.every
    }


def joined(config, **changes) -> dict:
    """`config` with an entry that joins two backbones."""
    entry = {"kind": "derived", "of": ["stats", "net"], **changes}
    return {
        **config,
        "backbones": [*config["backbones"], "both"],
        "extra_backbones": {**config["extra_backbones"], "both": entry},
    }


def test_derive_makes_a_backbone_of_every_backbone_that_is_not_derived(root, config):
    plan = make_plan(root, {**joined(config), "derive": {"int8": INT8, "p-8": PCA}})
    made = {
        f"{name}@{form}": [name] for name in ("stats", "net", "own") for form in ("int8", "p-8")
    }
    assert plan.parents == {"both": ["stats", "net"], **made}
    assert plan.backbones["net@p-8"]["steps"] == PCA


def test_their_jobs_derive_and_read_and_run_no_network(root, config):
    config |= {"derive": {"int8": INT8}, "profile": {}, "measures": {"augmentations": {}}}
    stages = {
        stage.name: {names[1] for names in stage.every}
        for stage in make_plan(root, config).stages()
        if stage.labels[1:2] == ("backbone",)
    }
    roots, derived = set(config["backbones"]), {f"{name}@int8" for name in config["backbones"]}
    assert stages["extract"] == stages["views"] == stages["profile"] == roots
    assert stages["derive"] == derived
    assert stages["probe"] == stages["bootstrap"] == stages["measure"] == roots | derived


def test_other_jobs_stay_as_they_are(root, config):
    before = jobs(make_plan(root, config))
    after = jobs(make_plan(root, {**joined(config), "derive": {"int8": INT8}}))
    changed = {names[0] for names in before if before[names] != after[names]}
    assert changed == {"compare", "aggregate", "report"}
    # without any, no job has a field of them
    plan = make_plan(root, config)
    assert not any("derived" in json.loads(job.spec) for job in plan.jobs())


def test_other_steps_rerun_what_reads_them(root, config):
    before = jobs(make_plan(root, {**config, "derive": {"small": INT8, "p": PCA}}))
    other = [{"quantise": "int4"}]
    after = jobs(make_plan(root, {**config, "derive": {"small": other, "p": PCA}}))
    changed = {names for names in before if before[names] != after[names]}
    assert {names[0] for names in changed} == {
        *("derive", "measure", "probe", "bootstrap", "compare", "aggregate", "report"),
    }
    assert {names[2] for names in changed if names[0] in ("derive", "probe", "measure")} == {
        f"{name}@small" for name in config["backbones"]
    }


def test_a_changed_parent_reruns_what_is_derived_from_it(root, config):
    config = {**joined(config), "derive": {"int8": INT8}}
    before = jobs(make_plan(root, config))
    (root / "data" / "net.safetensors").write_bytes(b"other weights")
    after = jobs(make_plan(root, config))
    changed = {
        names[2]
        for names in before
        if before[names] != after[names] and names[0] in ("derive", "probe")
    }
    assert changed == {"net", "net@int8", "both"}


def test_a_title_of_the_entry_reruns_nothing(root, config):
    before = jobs(make_plan(root, joined(config)))
    assert jobs(make_plan(root, joined(config, title="Two"))) == before


def test_a_form_of_a_backbone_has_its_random_numbers(root, config):
    plan = make_plan(root, {**joined(config), "derive": {"int8": INT8}})
    assert json.loads(plan.probe("world", "net@int8", "linear", 0).spec)["derived"] == ["net"]
    assert "derived" not in json.loads(plan.probe("world", "net", "linear", 0).spec)


def test_their_stores_are_recorded_as_features(root, config):
    rows = outputs(make_plan(root, {**config, "derive": {"int8": INT8}}), "results")
    own = [row for row in rows if row["stage"] == "extract" and row["backbone"] == "net@int8"]
    assert {row["path"] for row in own if row["dataset"] == "world"} == {
        f"results/features/world/net@int8/{split}.zarr" for split in ("train", "val", "test")
    }


def test_they_are_ranked_only_where_asked(root, config):
    config["derive"] = {"int8": INT8}
    apart = json.loads(make_plan(root, config).aggregate().spec)
    assert apart["derived"] == {f"{name}@int8": [name] for name in config["backbones"]}
    ranked = make_plan(root, {**config, "ranking": {"derived": True}})
    for job in (ranked.aggregate(), ranked.compare("world", "knn")):
        assert "derived" not in json.loads(job.spec)
    assert apart["ranking"] == json.loads(ranked.aggregate().spec)["ranking"]


def test_similarity_is_of_backbones_that_are_not_derived(root, config):
    config |= {"backbones": ["stats"], "derive": {"int8": INT8}}
    assert make_plan(root, config).paired() == []
    assert make_plan(root, config).compared()
    config["backbones"] = ["stats", "net"]
    similarity = json.loads(make_plan(root, config).similarity("world").spec)
    assert set(similarity["inputs"]["features"]) == {"stats", "net"}


def test_dense_tasks_and_misfits_of_a_parent_are_left_out(root, config):
    config["extra_datasets"]["pictures"] = {
        "task": "segmentation",
        "source": {"kind": "demo", "chip_size": 32},
    }
    config["probes"]["dense"] = {"kind": "dense_knn"}
    config["extra_backbones"]["s1"] = {"kind": "imagestats", "input": {"bands": ["VV"]}}
    config["backbones"] = ["stats", "s1"]
    config["derive"] = {"int8": INT8}
    config["extra_datasets"]["radar"] = {
        "task": "classification",
        "source": {"kind": "folder", "path": "{data}/pictures.zip"},
        "bands": [{"name": "VV"}],
        "units": {"unit": "db"},
        "splits": {"method": "random", "fractions": [0.6, 0.2, 0.2]},
    }
    config["datasets"] = ["world", "pictures", "radar"]
    plan = make_plan(root, config)
    assert (
        plan.misfits["pictures", "stats@int8"]
        == "the task needs maps, and derived backbones have none"
    )
    assert plan.misfits["world", "s1@int8"].startswith("s1, of which it is derived, does not fit: ")
    assert plan.backbones_on("radar") == ["s1", "s1@int8"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"of": "nowhere"}, "it is derived from 'nowhere', which is not a backbone of this run"),
        ({"of": ["stats", "both"]}, "it is derived from 'both', which is derived itself"),
        ({"of": ["stats", "stats"]}, "in the list twice|has non-unique|more than once"),
        ({"of": []}, "empty"),
        ({"of": "stats", "steps": [{"pca": 0}]}, r"steps.0.pca"),
        (
            {"of": "stats", "steps": [{"pca": 2, "first": 3}]},
            "has the keys pca, first, where one is allowed",
        ),
        ({"of": "stats", "steps": [{"quantise": "int9"}]}, "did you mean 'int8'"),
        ({"of": "stats", "steps": [{"spin": 1}]}, "spin"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(root, config, entry, said):
    with pytest.raises(PermafrostError, match=said):
        make_plan(root, joined(config, **entry))


@pytest.mark.parametrize(
    ("steps", "depths", "said"),
    [
        ([{"depth": 0.5}], None, "at depth 0.5, and none are kept.*extraction: {depths: all}"),
        ([{"depth": 0.5}], [0.25, 1], "at depth 0.5, and 0.5 is not one of extraction.depths"),
        ([{"pca": 2}, {"depth": 0.5}], "all", "the step depth is not the first"),
        ([{"depth": 0}], "all", "depth: must be more than 0, not 0"),
        ([{"depth": 1.5}], "all", "depth: must be at most 1, not 1.5"),
    ],
)
def test_a_depth_that_cannot_be_read_is_refused_while_planning(root, config, steps, depths, said):
    config |= {"derive": {"deep": steps}, "extraction": {"depths": depths} if depths else {}}
    with pytest.raises(PermafrostError, match="(?s)" + said) as caught:
        make_plan(root, config)
    # once, not for every backbone
    assert str(caught.value).count("depth") < 6


def test_backbones_without_blocks_have_no_form_of_a_depth(root, config):
    config["extra_backbones"]["place"] = {"kind": "coordinates", "encoder": "harmonics"}
    config["backbones"] = ["stats", "net", "own", "place"]
    config |= {"derive": {"deep": [{"depth": 1}]}, "extraction": {"depths": [0.5, 1.0]}}
    plan = make_plan(root, config)
    assert [name for name in plan.backbones if name in plan.parents] == ["net@deep", "own@deep"]
    for name in ("stats", "place"):
        said = plan.misfits["world", f"{name}@deep"]
        assert said == f"{name} has no blocks, and the step depth reads one" or name == "place"
    options = {
        name: json.loads(plan.extract("world", name).spec)["extraction"].get("depths")
        for name in ("stats", "net", "own")
    }
    assert options == {"stats": None, "net": [0.5, 1.0], "own": [0.5, 1.0]}


def test_depths_of_dense_tasks_are_not_kept(root, config):
    config["extra_datasets"]["pictures"] = {
        "task": "segmentation",
        "source": {"kind": "demo", "chip_size": 32},
    }
    config["probes"]["dense"] = {"kind": "dense_knn"}
    before = jobs(make_plan(root, config))
    after = jobs(make_plan(root, {**config, "extraction": {"depths": "all"}}))
    changed = {names for names in before if before[names] != after[names]}
    assert {names[1:] for names in changed if names[0] == "extract"} == {
        ("world", "net"),
        ("world", "own"),
    }


@pytest.mark.parametrize("name", ["a@b", "A", "-x"])
def test_names_of_forms_are_plain(root, config, name):
    with pytest.raises(PermafrostError, match="derive"):
        make_plan(root, {**config, "derive": {name: INT8}})
