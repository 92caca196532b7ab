"""What is written of the kinds of probes elsewhere agrees with their registry."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from helpers.stages.probe_jobs import configured
from permafrost.core.identity import canonical_json
from permafrost.core.tasks import TASKS
from permafrost.features.dates import OF_DATES
from permafrost.plan.resources import device_of
from permafrost.plan.sources import code_hash, module_path
from permafrost.probes.kinds import KINDS
from permafrost.stages.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
PROBES = (ROOT / "docs" / "probes.md").read_text()
RULES = (ROOT / "workflow/rules/probes.smk").read_text()


def test_the_schema_describes_exactly_the_kinds_there_are():
    choices = SCHEMA["properties"]["probes"]["additionalProperties"]["anyOf"]
    named = [choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice]
    assert sorted(named) == sorted(KINDS)
    for kind in KINDS:
        assert SCHEMA["$defs"][kind]["properties"]["kind"] == {"const": kind}


def test_the_page_of_probes_names_the_tasks_of_every_kind():
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*) \|", PROBES, flags=re.MULTILINE)
    tasks = {kind: set(of.split(", ")) for names, of in rows for kind in re.findall(r"\w+", names)}
    assert {kind: tasks.get(kind) for kind in KINDS} == {
        kind: set(known.tasks) for kind, known in KINDS.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_names_what_exists(kind):
    known = KINDS[kind]
    module = known.run.partition(":")[0]
    assert module_path(module), module
    assert known.tasks <= set(TASKS)
    assert kind not in COMMANDS
    assert known.memory_mb > 0 and known.minutes > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_is_for_kinds_that_are_worth_its_start_up(kind):
    gpu = KINDS[kind].gpu
    assert device_of(kind, "cpu") == "cpu"
    assert device_of(kind, "auto") == ("auto" if gpu == "auto" else "cpu")
    assert device_of(kind, "cuda:1") == ("cpu" if gpu == "never" else "cuda:1")
    # who trains networks wants one
    assert gpu == "auto" or KINDS[kind].reads not in ("maps", "images")


def test_there_is_a_rule_for_every_shape_that_a_kind_can_have():
    shapes = set(re.findall(r'probes_that_read\("(\w+)"(?:, "(\w+)")?\)', RULES))
    wanted = set()
    for kind, known in KINDS.items():
        wanted.add((known.reads, known.leaves or ""))
        if "masks" in SCHEMA["$defs"][kind]["properties"]:
            wanted.add((known.reads, "masks"))
    assert shapes == wanted


def _shape(options: type) -> dict:
    """Names of a dataclass's fields, each with the shape of options within it."""
    assert all(field.default is field.default_factory is MISSING for field in fields(options))
    hints = get_type_hints(options)
    return {name: _shape(hint) if is_dataclass(hint) else None for name, hint in hints.items()}


def _described(schema: dict) -> dict:
    """The same of an object in the schema, without what is said of the dates of any probe's features."""
    resolved = {
        name: SCHEMA["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for name, one in schema["properties"].items()
    }
    return {
        name: _described(one) if "properties" in one else None
        for name, one in resolved.items()
        if name not in ("kind", *OF_DATES)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_options_of_a_kind_are_those_that_the_schema_describes(kind):
    schema = SCHEMA["$defs"][kind]
    # what is done with dates is an option of every job that reads features, whatever its kind
    of_dates = {name for name in OF_DATES if name in schema["properties"]}
    if KINDS[kind].reads == "images":
        expected = set()
    elif KINDS[kind].series:
        expected = {"temporal", "shuffle_dates"}
    else:
        expected = {*OF_DATES} - ({"ltae"} if kind not in ("segmentation", "detection") else set())
    assert of_dates == expected
    assert _shape(KINDS[kind].options_class()) == _described(schema)


def _refusal(kind: str, options: dict, capsys) -> str:
    """What the command of a kind says of a job with these options; no store is there to be read."""
    spec = {"stage": kind, "dataset": "toy", "backbone": "made-up", "probe": "p", "seed": 0}
    spec |= {"options": options, "inputs": {"features": "f" * 32}}
    command = [kind, "--spec", canonical_json(spec), "--code", code_hash(kind, spec)]
    assert main([*command, "--features", "a", "b", "c", "--output", "none.parquet"]) == 1
    return capsys.readouterr().err


def test_a_misspelt_option_is_refused_before_anything_is_read(capsys):
    options = configured("few_shot")
    options["drawz"] = options.pop("draws")
    assert "options of p: unknown key 'drawz', did you mean 'draws'?" in _refusal(
        "few_shot", options, capsys
    )
    options = configured("few_shot")
    options["ranked"]["shares"] = options["ranked"].pop("share")
    assert "options of p.ranked: unknown key 'shares', did you mean 'share'?" in _refusal(
        "few_shot", options, capsys
    )


def test_a_missing_option_is_refused(capsys):
    options = configured("knn")
    del options["metric"]
    assert "options of p: missing key 'metric'" in _refusal("knn", options, capsys)
