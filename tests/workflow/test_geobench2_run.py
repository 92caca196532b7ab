"""The example of GEO-Bench V2 from one folder: pixels, series, pairs and several sensors, as its datasets hold them."""

from __future__ import annotations

import pytest
import yaml
from helpers.datasets.tortilla import SIZE, write_entries
from helpers.project import REPOSITORY, Project

pytestmark = pytest.mark.slow
EXAMPLE = yaml.safe_load((REPOSITORY / "config/examples/geobench2.yaml").read_text())
# these have one image or a pair, as caffe and fotw have
LIKE_OTHERS = ("geobench2-spacenet7", "geobench2-spacenet8")
LEADERBOARD = "results/leaderboard.parquet"


def test_a_backbone_on_the_example_from_one_folder(tmp_path):
    names = [name for name in EXAMPLE["datasets"] if name not in LIKE_OTHERS]
    entries = write_entries(tmp_path / "data", names)
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
    project.snakemake(LEADERBOARD)
    rows = project.leaderboard()
    assert {(row["dataset"], row["backbone"]) for row in rows} == {
        (dataset, backbone) for dataset in entries for backbone in project.config["backbones"]
    }
    assert {row["probe"] for row in rows} == set(EXAMPLE["probes"])
    assert project.pending("--", LEADERBOARD) == {}
