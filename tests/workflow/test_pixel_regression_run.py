"""The main job on a dataset with a number per pixel: rasters, maps, ridge, neighbours, scores, report."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.project import TINY, Project
from permafrost.core.stores import Store

CONFIG = {
    "datasets": ["tiny-height"],
    "extra_datasets": {
        "tiny-height": {
            "task": "pixel_regression",
            "target": {"name": "height", "unit": "m"},
            "source": {
                "kind": "demo",
                "seed": 4,
                "scenes": {"train": 4, "val": 2, "test": 4},
                "chips": {"train": 16, "val": 6, "test": 10},
                "chip_size": 64,
                "scene_size": 128,
            },
        }
    },
    "probes": {
        "ridge": {"kind": "dense_ridge"},
        "ridge-loo": {"kind": "dense_ridge", "choose": "leave_one_image_out", "masks": "geotiff"},
        "near": {"kind": "dense_knn"},
    },
    "extra_backbones": {
        "tiny-network": {
            **TINY["extra_backbones"]["tiny-network"],
            "input": {"bands": "rgb", "size": 64, "normalization": "dataset"},
        }
    },
    "extraction": {"size": 64},
}
PROBES = ("ridge", "ridge-loo", "near")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("pixels") / "project", CONFIG)


@pytest.fixture
def rows(finished):
    return finished.leaderboard()


def test_every_probe_has_r2_rmse_and_mae_with_intervals(rows):
    found = {(row["backbone"], row["probe"], row["metric"]) for row in rows}
    assert found == {
        (backbone, probe, metric)
        for backbone in ("imagestats", "tiny-network")
        for probe in PROBES
        for metric in ("r2", "rmse", "mae")
    }
    assert {row["metric"] for row in rows if row["primary"]} == {"r2"}
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in rows)
    assert {row["unit"] for row in rows} == {"group"}
    assert max(row["value"] for row in rows if row["primary"]) > 0.1


def test_the_smallest_error_is_ranked_first(rows):
    own = [row for row in rows if (row["metric"], row["probe"]) == ("rmse", "ridge")]
    assert min(own, key=lambda row: row["value"])["rank"] == 1


def test_targets_lie_beside_the_maps_as_they_were_prepared(finished):
    prepared = Store(finished.path("results/images/tiny-height/test.zarr"))
    features = Store(finished.path("results/features/tiny-height/tiny-network/test.zarr"))
    np.testing.assert_array_equal(prepared.read("targets"), features.read("targets"))
    card = json.loads(finished.path("results/images/tiny-height/card.json").read_text())
    about = card["target"]["splits"]["test"]
    assert features.attributes["target_centre"] == about["mean"]
    assert about["pixels"] == np.count_nonzero(~np.isnan(features.read("targets")))


def test_predicted_rasters_are_kept_where_they_are_asked_for(finished):
    kept = finished.path("results/masks/tiny-height").glob("*/*/*")
    assert {path.name for path in kept} == {"ridge-loo"}


def test_the_report_shows_rasters_alpha_and_all_pixels(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    assert {
        "pictures__tiny-height.png",
        "backbones__tiny-height.png",
        "numbers__tiny-height.svg",
        "targets__tiny-height.svg",
        "alpha__tiny-height__ridge.svg",
    } <= names
    page = finished.report_text()
    assert "pixels without data" in page and "smallest target" in page and "height (m)" in page


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}


def test_another_penalty_reruns_one_probe_only(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    project.config["probes"]["ridge"]["alpha_count"] = 5
    project.configure()
    assert project.pending() == {
        "probe_patches": 2,
        "bootstrap": 2,
        "compare": 1,
        "aggregate": 1,
        "report": 1,
    }
