"""The example of GEO-Bench V2 from one folder: files in the layouts of its datasets."""

from __future__ import annotations

import pytest
import yaml
from helpers.datasets.tortilla import SIZE, write_dataset
from helpers.project import REPOSITORY, Project

pytestmark = pytest.mark.slow
EXAMPLE = yaml.safe_load((REPOSITORY / "config/examples/geobench2.yaml").read_text())
ENTRIES = yaml.safe_load((REPOSITORY / "config/datasets/geobench2.yaml").read_text())


def test_two_backbones_on_all_of_the_example_from_one_folder(tmp_path):
    data = tmp_path / "data"
    # a copy of every entry, for so few images that classes are missing among them
    entries = {
        f"few-{name}": {**ENTRIES[name], "allow_missing_classes": True}
        for name in EXAMPLE["datasets"]
    }
    for entry in entries.values():
        dataset = entry["source"]["path"].rpartition("/")[2]
        if not (folder := data / "geobench2" / dataset).exists():
            names = entry["source"]["files"]
            write_dataset(folder, names, dataset, entry.get("classes", []), counts=(24, 8, 12))
    project = Project(tmp_path / "project")
    project.config = {
        **EXAMPLE,
        "results": "results",
        "data": str(data),
        "extraction": {"size": SIZE},
        "datasets": list(entries),
        "extra_datasets": entries,
        "bootstrap": {"resamples": 200},
    }
    project.configure()
    project.snakemake()
    rows = project.leaderboard()
    of_pixels = {name for name, entry in entries.items() if entry["task"] == "segmentation"}
    assert {(row["dataset"], row["backbone"], row["probe"]) for row in rows} >= {
        (dataset, backbone, probe)
        for dataset in entries
        for backbone in EXAMPLE["backbones"]
        for probe in (["seg-knn"] if dataset in of_pixels else ["knn", "linear"])
    }
    assert project.pending() == {}
