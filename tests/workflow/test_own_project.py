"""A project of one's own, as `permafrost init` writes it, runs the workflow that is installed.

How it runs as it is written, test_tutorials.py shows: the tutorial of the first run.
"""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest
import yaml
from helpers.project import REPOSITORY
from permafrost.operate.new_project import write_project

CHANGED_RULE = "\nuse rule extract from permafrost with:\n    threads: 1\n"


@pytest.fixture
def own_project(tmp_path):
    """Writes a project, and returns its folder."""

    def write(module: bool = False):
        folder = tmp_path / "mine"
        write_project(folder, module=module)
        return folder

    return write


def _started(folder, module: str, *options: str):
    command = [sys.executable, "-m", module, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)


def _permafrost(folder, *options: str):
    return _started(folder, "permafrost.stages.cli", *options)


def _configure(folder, **changes) -> None:
    file = folder / "config/config.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **changes}))


@pytest.mark.parametrize("module", [False, True], ids=["include", "module"])
def test_jobs_of_own_and_catalogued_entries_are_planned(own_project, module):
    folder = own_project(module)
    if module:
        with open(folder / "Snakefile", "a") as snakefile:
            snakefile.write(CHANGED_RULE)
    done = _permafrost(folder / "data", "run", "-n", "--printshellcmds")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert f"project {folder}" in said
    assert " extract --job" in said and "my-backbone" in said and "imagestats" in said, said
    (command, *_) = [line for line in said.splitlines() if " extract --job" in line]
    assert ("--threads 1 " in command) is module


def test_the_clones_snakefile_runs_it_too(own_project):
    options = ["--dry-run", "--snakefile", str(REPOSITORY / "workflow/Snakefile")]
    done = _started(own_project(), "snakemake", *options, "--cores", "2")
    assert done.returncode == 0 and "my-backbone" in done.stdout + done.stderr, done.stderr


@pytest.mark.slow
def test_a_module_runs_and_names_what_failed(own_project):
    folder = own_project(module=True)
    broken = {"kind": "entrypoint", "entrypoint": "broken.py:build", "input": {"bands": "rgb"}}
    (folder / "broken.py").write_text("def build(inputs):\n    raise ValueError('no such model')\n")
    _configure(
        folder,
        backbones=["imagestats", "broken"],
        extra_backbones={"broken": broken},
        probes={"knn": {"kind": "knn"}},
    )
    done = _permafrost(folder, "run")
    assert done.returncode == 1, done.stdout + done.stderr
    with open(folder / "results/report/failures.csv") as table:
        (failed,) = csv.DictReader(table)
    assert failed["backbone"] == "broken" and "no such model" in failed["error"]
    assert (folder / "results/leaderboard.csv").is_file()
