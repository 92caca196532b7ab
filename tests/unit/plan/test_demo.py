"""Whose backbones, datasets and probes are run: the last file's that names them, else the demo's."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.demo import complete
from permafrost.plan.plan import Plan
from permafrost.plan.validation import validate

ROOT = Path(__file__).resolve().parents[3]
DEMO = read_yaml(ROOT / "config/demo.yaml")
KNN = {"knn": {"kind": "knn"}}


def completed(*layers: dict) -> tuple[dict, list[str]]:
    """What is run of these layers, merged key by key as Snakemake does, and what of it is the demo's."""
    config = {}
    for layer in copy.deepcopy(layers):
        for key, value in layer.items():
            if isinstance(value, dict) and isinstance(config.get(key), dict):
                config[key].update(value)
            else:
                config[key] = value
    from_demo = complete(config, list(layers), DEMO, ROOT)
    return config, from_demo


def test_a_configuration_that_names_nothing_is_the_demo():
    config, from_demo = completed({"data": "elsewhere"})
    assert from_demo == ["backbones", "datasets", "probes"]
    assert config == {**DEMO, "data": "elsewhere"}
    plan = Plan(config, ROOT)
    assert {plan.datasets[name]["task"] for name in plan.datasets} == {
        "classification",
        "segmentation",
        "detection",
    }


def test_probes_replace_those_of_the_file_below_and_are_not_laid_over_them():
    below = {"backbones": ["rcf"], "datasets": ["demo-landcover"], "probes": {"a": {"kind": "mlp"}}}
    config, from_demo = completed(below, {"probes": KNN})
    assert config["probes"] == KNN and config["backbones"] == ["rcf"] and from_demo == []


@pytest.mark.parametrize("key", ["backbones", "datasets", "seeds"])
def test_lists_replace_lists(key):
    assert completed({key: [1, 2]}, {key: [3]})[0][key] == [3]


def test_nothing_but_the_named_probe_runs():
    config, _ = completed({"backbones": ["rcf"], "datasets": ["demo-landcover"], "probes": KNN})
    plan = Plan(config, ROOT)
    assert list(plan.evaluations()) == [("demo-landcover", "rcf", "knn", 0)]


def test_a_backbone_alone_runs_on_the_demo():
    config, from_demo = completed({"backbones": ["imagestats"]})
    assert from_demo == ["datasets", "probes"]
    assert config == {**DEMO, "backbones": ["imagestats"]}


def test_named_datasets_get_the_demos_probes_that_serve_them_and_not_its_sizes():
    config, from_demo = completed({"datasets": ["demo-multilabel"]})
    assert from_demo == ["backbones", "probes"]
    assert {options["kind"] for options in config["probes"].values()} == {"knn", "linear"}
    assert "extraction" not in config
    assert Plan(config, ROOT).config["extraction"]["size"] == 224


def test_named_probes_get_the_demos_datasets_that_they_serve():
    config, from_demo = completed({"probes": KNN})
    assert from_demo == ["backbones", "datasets"]
    assert config["datasets"] == ["demo-landcover"] and config["probes"] == KNN


def test_keys_beside_the_demos_sizes_are_kept():
    config, _ = completed({"extraction": {"precision": "bf16"}})
    assert config["extraction"] == {**DEMO["extraction"], "precision": "bf16"}


@pytest.mark.parametrize("probes", [{}, {"x": {"kind": "none"}}, {"x": 1}, ["knn"], None])
def test_a_mistake_in_the_probes_is_left_to_the_plan(probes):
    config, _ = completed({"probes": probes})
    assert config["probes"] == probes and config["datasets"] == DEMO["datasets"]
    with pytest.raises(PermafrostError, match="probe"):
        Plan(config, ROOT)


def test_a_plan_without_names_says_what_is_missing():
    with pytest.raises(PermafrostError, match="datasets: missing.*\n.*probes: missing"):
        Plan({"backbones": ["rcf"]}, ROOT)


EXAMPLES = sorted((ROOT / "config/examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_runs_what_it_names_and_nothing_else(path):
    example = read_yaml(path)
    standing = {"probes": {"mine": {"kind": "mlp"}}, "datasets": ["x"], "backbones": ["y"]}
    config, from_demo = completed(standing, example)
    assert from_demo == []
    for key in ("backbones", "datasets", "probes"):
        assert config[key] == example[key]
    assert None not in example["probes"].values()
    validate(config, "config", where=path.name)
