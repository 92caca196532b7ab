"""What is written of the kinds of probes elsewhere agrees with their registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from permafrost.metrics.tasks import OVERALL
from permafrost.plan.sources import module_path
from permafrost.probes.kinds import KINDS
from permafrost.stages.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
README = (ROOT / "README.md").read_text()
RULES = (ROOT / "workflow/rules/probes.smk").read_text()


def test_the_schema_describes_exactly_the_kinds_there_are():
    choices = SCHEMA["properties"]["probes"]["additionalProperties"]["anyOf"]
    named = [choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice]
    assert sorted(named) == sorted(KINDS)
    for kind in KINDS:
        assert SCHEMA["$defs"][kind]["properties"]["kind"] == {"const": kind}


def test_the_readme_names_the_tasks_of_every_kind():
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*) \|", README, flags=re.MULTILINE)
    tasks = {kind: set(of.split(", ")) for names, of in rows for kind in re.findall(r"\w+", names)}
    assert {kind: tasks.get(kind) for kind in KINDS} == {
        kind: set(known.tasks) for kind, known in KINDS.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_names_what_exists(kind):
    known = KINDS[kind]
    module = known.run.partition(":")[0]
    assert module_path(module), module
    assert known.tasks <= set(OVERALL)
    assert kind not in COMMANDS
    assert known.memory_mb > 0 and known.minutes > 0


def test_there_is_a_rule_for_every_shape_that_a_kind_can_have():
    shapes = set(re.findall(r'probes_that_read\("(\w+)"(?:, "(\w+)")?\)', RULES))
    wanted = set()
    for kind, known in KINDS.items():
        wanted.add((known.reads, known.leaves or ""))
        if "masks" in SCHEMA["$defs"][kind]["properties"]:
            wanted.add((known.reads, "masks"))
    assert shapes == wanted
