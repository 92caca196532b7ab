"""What a person types: profiles, configuration files that are no YAML, Slurm where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yte
from helpers.project import REPOSITORY, Project
from permafrost.operate.failures import LIGHT_JOBS

COMMON = {"keep-going", "rerun-incomplete", "scheduler", "rerun-triggers", "logger"}


def typed(project: Project, *command: str, **variables: str):
    """Run a command in the project's folder; the library is found as an installation would have it."""
    environment = {**os.environ, "PYTHONPATH": str(project.path("workflow")), **variables}
    environment.pop("SNAKEMAKE_PROFILE", None)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


def test_without_a_profile_a_dry_run_lists_every_job_with_its_reason_in_short(fresh_project):
    status, output = typed(fresh_project, "snakemake", "-n")
    assert status == 0, output
    listed = [line for line in output.splitlines() if line.endswith("(Missing output files)")]
    assert "prepare tiny-landcover (Missing output files)" in listed
    assert len(listed) >= 10 and max(map(len, output.splitlines())) < 200
    status, output = typed(fresh_project, "snakemake", "--rulegraph", "mermaid-js")
    assert status == 0, output
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", output))
    edges = {(names[a], names[b]) for a, b in re.findall(r"(id\d+) --> (id\d+)", output)}
    figure = re.search(r"```mermaid\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    chains = [line.split(" --> ") for line in figure[1].splitlines() if "-->" in line]
    shown = {edge for chain in chains for edge in pairwise(map(str.strip, chain))}
    assert len(shown) == 7 and shown <= edges
    assert not fresh_project.path("results").exists()
    assert not fresh_project.path(".snakemake/permafrost/misfits.json").exists()


@pytest.mark.parametrize(
    ("arguments", "variables", "cores"),
    [
        ([], {}, "all"),
        (["-n", "features"], {}, "all"),
        (["--profile", "slurm"], {}, None),
        (["--profile=slurm"], {}, None),
        (["--executor", "slurm"], {}, None),
        ([], {"SNAKEMAKE_PROFILE": "slurm"}, None),
    ],
)
def test_all_cores_are_taken_only_where_no_profile_is_named(
    monkeypatch, arguments, variables, cores
):
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["snakemake", *arguments])
    with open("profiles/default/config.yaml") as stream:
        profile = yte.process_yaml(stream, require_use_yte=True)
    assert profile.get("cores") == cores and set(profile) >= COMMON


def test_named_profiles_leave_out_what_the_default_one_overrides(monkeypatch):
    # that of Slurm sets it, which must not outlive the test
    monkeypatch.setenv(LIGHT_JOBS, "")
    for name in ("local", "slurm"):
        path = Path(REPOSITORY / "profiles" / name / "config.yaml")
        assert not COMMON & set(yte.process_yaml(path.read_text()))


def test_a_configuration_that_is_no_yaml_is_named_with_its_line(fresh_project):
    project = fresh_project
    project.path("mine.yaml").write_text("probes:\n  knn: {kind: knn}\n\tlinear: null\n")
    status, output = typed(project, "snakemake", "-n", "--configfile", "mine.yaml")
    assert status == 1 and "mine.yaml: cannot be read as YAML" in output and "line 3" in output
    status, output = typed(project, "snakemake", "-n", "--configfile", "none.yaml")
    assert status == 1 and "none.yaml: there is no such configuration file" in output
    config = project.path("config/config.yaml")
    config.write_text(config.read_text() + "a: b: c\n")
    line = len(config.read_text().splitlines())
    status, output = typed(project, "permafrost.stages.cli", "run", "-n")
    assert status == 1 and "config/config.yaml: cannot be read as YAML" in output
    assert f"line {line}" in output and "Traceback" not in output


def test_slurm_without_slurm_ends_at_once_with_a_sentence(fresh_project, tmp_path):
    commands = tmp_path / "bin"  # those of this machine, without Slurm's
    commands.mkdir()
    for name in ("bash", "sh", "env", "uname"):
        (commands / name).symlink_to(shutil.which(name))
    # not every machine has it, and Snakemake's plugin needs it
    (commands / "which").write_text('#!/bin/sh\ncommand -v "$1"\n')
    (commands / "which").chmod(0o755)
    status, output = typed(fresh_project, "snakemake", "--profile", "slurm", PATH=str(commands))
    assert status == 1
    assert (
        "there is no sbatch and no squeue and no srun on the PATH" in output
        and "Remedy: " in output
    )
    assert not list(fresh_project.path("results/images").rglob("*.zarr"))
