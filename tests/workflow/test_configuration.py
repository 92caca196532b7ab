"""Which backbones, datasets and probes Snakemake runs, of several files and the command line."""

from __future__ import annotations

import shutil

import pytest
import yaml
from helpers.project import REPOSITORY, Project
from permafrost.plan.recorded import current_plan, read_plan


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> Project:
    """A clone as it is shipped, with the demo as its configuration."""
    project = Project(tmp_path_factory.mktemp("shipped") / "project")
    shutil.copy2(REPOSITORY / "config/config.yaml", project.path("config/config.yaml"))
    return project


def planned(project: Project, *arguments: str) -> tuple[list, list, list, str]:
    """Backbones, datasets and probes that a dry run plans, and what it says."""
    done = project.snakemake("-n", "--quiet", "all", *arguments)
    config = read_plan(current_plan(project.path("results")))["config"]
    return config["backbones"], config["datasets"], list(config["probes"]), done.stderr


def test_a_clone_runs_the_demo(shipped):
    demo = yaml.safe_load((REPOSITORY / "config/demo.yaml").read_text())
    backbones, datasets, probes, said = planned(shipped)
    assert (backbones, datasets) == (demo["backbones"], demo["datasets"])
    assert probes == list(demo["probes"])
    assert "names no backbones, datasets, probes: those of the demo are run" in said


def test_a_file_on_the_command_line_replaces_the_demo_and_an_option_the_file(shipped):
    own = {
        "backbones": ["rcf"],
        "datasets": ["demo-regression"],
        "probes": {"ridge": {"kind": "ridge"}, "knn": {"kind": "knn"}},
    }
    shipped.path("own.yaml").write_text(yaml.safe_dump(own))
    arguments = ["--configfile", "own.yaml", "--config", "probes={near: {kind: knn}}"]
    backbones, datasets, probes, said = planned(shipped, *arguments)
    assert (backbones, datasets, probes) == (["rcf"], ["demo-regression"], ["near"])
    assert "of the demo" not in said


def test_a_file_on_the_command_line_replaces_the_probes_of_the_standing_one(fresh_project):
    fresh_project.path("own.yaml").write_text(yaml.safe_dump({"probes": {"k": {"kind": "knn"}}}))
    backbones, datasets, probes, _ = planned(fresh_project, "--configfile", "own.yaml")
    assert backbones == fresh_project.config["backbones"]
    assert datasets == fresh_project.config["datasets"] and probes == ["k"]
