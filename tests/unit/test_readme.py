"""What the README shows must be true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from permafrost.plan.validation import validate

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


BLOCKS = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[text.splitlines()[0] for text in BLOCKS])
def test_an_example_configuration_is_valid(block):
    config = yaml.safe_load(block)
    smallest = {"backbones": ["rcf"], "datasets": ["demo-landcover"], "probes": {}}
    validate({**smallest, **config}, "config", where="README.md")
    for kind in ("backbone", "dataset"):
        for name, entry in config.get(f"extra_{kind}s", {}).items():
            validate(entry, kind, where=f"README.md: {name}")


def test_the_files_it_names_exist():
    named = re.findall(
        r"`((?:config|workflow|envs|profiles|benchmarks|results|tests)/[\w./{}-]*\w)`", README
    )
    made_by_a_run = tuple(
        f"results/{name}" for name in ("images", "archive", "report", "snakemake")
    )
    missing = [
        name
        for name in named
        if "{" not in name and not name.startswith(made_by_a_run) and not (ROOT / name).exists()
    ]
    assert named and missing == []


def test_every_command_of_the_program_runs():
    from permafrost.stages.cli import COMMANDS, main

    shown = set(re.findall(r"^(?:envs/run )?permafrost ([\w-]+)", README, flags=re.MULTILINE))
    assert shown <= set(COMMANDS)
    for command in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
