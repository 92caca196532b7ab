"""A project of one's own includes the workflow of the clone, which nobody edits."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import yaml
from helpers.project import REPOSITORY, SCENES

MODULE = """
configfile: "config/config.yaml"

module permafrost:
    snakefile: "{clone}/Snakefile"
    config: config

use rule * from permafrost

use rule bootstrap from permafrost with:
    threads: 2
"""
SNAKEFILE = """
include: "{clone}/Snakefile"

rule everything:
    default_target: True
    input:
        rules.all.input,
"""
OWN = {
    "kind": "entrypoint",
    "entrypoint": "models/mine.py:build",
    "input": {"bands": "all", "size": 32, "normalization": "minmax"},
}
CHIPS = {"train": 60, "val": 24, "test": 36}
DATASET = {
    "task": "classification",
    "source": {"kind": "demo", "chips": CHIPS, "chip_size": 32, **SCENES},
}


@pytest.fixture
def own_project(tmp_path):
    """A folder with a model, a dataset and a configuration, beside the clone."""
    config = {
        "catalogues": [str(REPOSITORY / "config"), "config"],
        "backbones": ["imagestats", "mine"],
        "datasets": ["my-landcover"],
        "probes": {"knn": {"kind": "knn"}},
        "bootstrap": {"resamples": 100},
        "runtime": {"device": "cpu", "workers": 1},
    }
    for folder in ("config/backbones", "config/datasets", "models", "workflow"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "workflow/Snakefile").write_text(SNAKEFILE.format(clone=REPOSITORY))
    (tmp_path / "config/config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "config/backbones/own.yaml").write_text(yaml.safe_dump({"mine": OWN}))
    (tmp_path / "config/datasets/own.yaml").write_text(yaml.safe_dump({"my-landcover": DATASET}))
    shutil.copy(REPOSITORY / "config/backbones/template.py", tmp_path / "models/mine.py")
    shutil.copytree(REPOSITORY / "profiles/default", tmp_path / "profiles/default")
    return tmp_path


def _snakemake(root, *options):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


@pytest.mark.parametrize("snakefile", ["include", "module", "the clone's"])
def test_jobs_of_own_and_catalogued_entries_are_planned(own_project, snakefile):
    if snakefile == "module":
        (own_project / "workflow/Snakefile").write_text(MODULE.format(clone=REPOSITORY))
    clones = snakefile == "the clone's"
    started = ["--snakefile", str(REPOSITORY / "workflow/Snakefile")] if clones else []
    done = _snakemake(own_project, "--dry-run", *started)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "extract" in said and "mine" in said, said
