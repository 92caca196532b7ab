"""What the README names exists; tests/workflow/test_documents.py runs what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_files_it_names_exist():
    named = re.findall(
        r"`((?:config|workflow|envs|profiles|benchmarks|results|tests)/[\w./{}-]*\w)`", README
    )
    made_by_a_run = tuple(
        f"results/{name}" for name in ("images", "archive", "leaderboard", "report", "snakemake")
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
