"""The example of GEO-Bench V2 from one folder: pixels, series, pairs and several sensors, as its datasets hold them."""

from __future__ import annotations

import pytest
import yaml
from helpers.datasets.tortilla import SIZE, write_entries
from helpers.project import REPOSITORY, Project

pytestmark = pytest.mark.slow
EXAMPLE = yaml.safe_load((REPOSITORY / "config/examples/geobench2.yaml").read_text())


def test_a_backbone_on_all_of_the_example_from_one_folder(tmp_path):
    entries = write_entries(tmp_path / "data", EXAMPLE["datasets"])
    project = Project(tmp_path / "project")
    project.config = {
        **EXAMPLE,
        "results": "results",
        "data": str(tmp_path / "data"),
        "extraction": {"size": SIZE},
        "datasets": list(entries),
        "extra_datasets": entries,
        "bootstrap": {"resamples": 200},
        "backbones": EXAMPLE["backbones"][:1],
    }
    project.configure()
    project.snakemake()
    rows = project.leaderboard()
    assert {(row["dataset"], row["backbone"]) for row in rows} == {
        (dataset, backbone) for dataset in entries for backbone in project.config["backbones"]
    }
    assert {row["probe"] for row in rows} == set(EXAMPLE["probes"])
    assert project.pending() == {}
