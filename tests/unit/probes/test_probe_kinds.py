"""What is written of the kinds of probes elsewhere agrees with their registry."""

from __future__ import annotations

import re
from pathlib import Path

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


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_options_on_dates_that_suit_what_it_reads(kind):
    # a job may have them whatever its kind, so a kind need not name them
    of_dates = {*OF_DATES} & set(SCHEMA["$defs"][kind]["properties"])
    if KINDS[kind].reads == "images":
        expected = set()
    elif KINDS[kind].series:
        expected = {"temporal", "shuffle_dates"}
    else:
        expected = {*OF_DATES} - ({"ltae"} if kind not in ("segmentation", "detection") else set())
    assert of_dates == expected


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
    assert "options of p: drawz: unknown key, did you mean 'draws'?" in _refusal(
        "few_shot", options, capsys
    )
    options = configured("few_shot")
    options["ranked"]["shares"] = options["ranked"].pop("share")
    assert "options of p: ranked.shares: unknown key, did you mean 'share'?" in _refusal(
        "few_shot", options, capsys
    )


def test_an_option_of_another_type_or_without_such_a_choice_is_refused(capsys):
    options = {**configured("knn"), "k": "5", "metric": "l3"}
    message = _refusal("knn", options, capsys)
    assert "options of p: k: must be a whole number, not the text '5'" in message
    assert "metric: 'l3' is not one of 'l2', 'cosine'" in message
