"""The main job with backbones that are trained further: from generated chips to leaderboard and report."""

from __future__ import annotations

import shutil

import pytest
from helpers.project import TINY, Project

pytestmark = pytest.mark.slow

WORLD = {"chips": {"train": 24, "val": 12, "test": 16}, "chip_size": 32}
SETTINGS = {None, "fine-tuned", "frozen", "fine-tuned minus frozen"}
CONFIG = {
    **TINY,
    "backbones": ["tiny-network"],
    "extra_backbones": {
        "tiny-network": {
            "kind": "entrypoint",
            "entrypoint": "config/backbones/template.py:build",
            "options": {"patch": 8, "width": 16},
        }
    },
    "datasets": ["tiny-landcover", "tiny-segmentation"],
    "extra_datasets": {
        "tiny-landcover": {"task": "classification", "source": {"kind": "demo", **WORLD}},
        "tiny-segmentation": {"task": "segmentation", "source": {"kind": "demo", **WORLD}},
    },
    "probes": {"fine-tune": {"kind": "fine_tune", "epochs": 2, "head_epochs": 2, "batch_size": 8}},
    "extraction": {"size": 32},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("tuned") / "project", CONFIG)


def rows_of_both_settings(rows: list[dict], dataset: str, backbone: str) -> dict:
    """By setting, checked to be those that fine-tuning has."""
    metric = {"tiny-landcover": "accuracy", "tiny-segmentation": "mean_iou"}[dataset]
    of = {"dataset": dataset, "backbone": backbone, "metric": metric}
    found = {row["setting"]: row for row in rows if of.items() <= row.items()}
    assert found.keys() == SETTINGS
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in found.values())
    assert found[None]["primary"] and found[None]["value"] == found["fine-tuned"]["value"]
    return found


def test_both_settings_and_their_difference_have_intervals(finished):
    rows = finished.leaderboard()
    for dataset in CONFIG["datasets"]:
        found = rows_of_both_settings(rows, dataset, "tiny-network")
        assert "nothing_to_fine_tune" not in found[None]["gates"].split(";")
    calibrated = {row["metric"] for row in rows if row["dataset"] == "tiny-landcover"}
    assert "expected_calibration_error" in calibrated


def test_no_features_are_made_for_it(finished):
    assert not finished.path("results/features").exists()


def test_the_report_shows_training_and_gain(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    for dataset in CONFIG["datasets"]:
        assert {f"tuned__{dataset}__fine-tune.svg", f"training__{dataset}.svg"} <= names


def test_deleted_image_stores_are_made_again_when_another_backbone_needs_them(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    for path in project.path("results/images").glob("*/*.zarr"):
        shutil.rmtree(path)
    assert project.pending() == {}
    project.configure(datasets=["tiny-landcover"], backbones=["imagestats", "tiny-network"])
    compared = "results/comparisons/tiny-landcover/fine-tune.parquet"
    targets = ("results/leaderboard.parquet", compared)
    jobs = {"probe_images": 1, "bootstrap": 1, "compare": 1, "aggregate": 1}
    assert project.pending("--", *targets) == jobs
    project.snakemake(*targets)
    found = rows_of_both_settings(project.leaderboard(), "tiny-landcover", "imagestats")
    assert "nothing_to_fine_tune" in found[None]["gates"].split(";")
    assert project.path(compared).is_file()
    assert project.path("results/images/tiny-landcover/test.zarr").is_dir()
    assert not project.path("results/images/tiny-segmentation/test.zarr").exists()
