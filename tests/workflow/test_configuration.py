"""Which backbones, datasets and probes Snakemake runs, of several files and the command line."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml
from helpers.project import REPOSITORY, Project


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> Project:
    """A clone as it is shipped, with the demo as its configuration."""
    project = Project(tmp_path_factory.mktemp("shipped") / "project")
    shutil.copy2(REPOSITORY / "config/config.yaml", project.path("config/config.yaml"))
    return project


def planned(project: Project, *arguments: str) -> tuple[set, set, set, str]:
    """Backbones, datasets and probes that have scores, and what a dry run says."""
    done = project.snakemake("-n", "--quiet", "all", *arguments)
    files = project.snakemake("--summary", *arguments).stdout
    scores = re.findall(r"/scores/([^/]+)/([^/]+)/seed\d+/([^/]+)\.parquet", files)
    datasets, backbones, probes = map(set, zip(*scores, strict=True))
    return backbones, datasets, probes, done.stderr


def test_a_clone_runs_the_demo(shipped):
    demo = yaml.safe_load((REPOSITORY / "config/demo.yaml").read_text())
    backbones, datasets, probes, said = planned(shipped)
    assert (backbones, datasets) == (set(demo["backbones"]), set(demo["datasets"]))
    assert probes == set(demo["probes"])
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
    assert (backbones, datasets, probes) == ({"rcf"}, {"demo-regression"}, {"near"})
    assert "of the demo" not in said


def test_a_file_on_the_command_line_replaces_the_probes_of_the_standing_one(fresh_project):
    fresh_project.path("own.yaml").write_text(yaml.safe_dump({"probes": {"k": {"kind": "knn"}}}))
    backbones, datasets, probes, _ = planned(fresh_project, "--configfile", "own.yaml")
    assert backbones == set(fresh_project.config["backbones"])
    assert datasets == set(fresh_project.config["datasets"]) and probes == {"k"}
