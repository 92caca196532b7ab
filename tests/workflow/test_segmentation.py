"""The main job on a segmentation dataset: maps, heads, confusion matrices, intervals, leaderboard, report."""

from __future__ import annotations

import json

import pytest
from helpers.project import SCENES, TINY, Project
from permafrost.core.stores import Store

# of one layer of the backbone and of four
HEADS = {"seg-linear": "linear", "seg-dpt": "dpt"}
CONFIG = {
    "datasets": ["tiny-segmentation"],
    "extra_datasets": {
        "tiny-segmentation": {
            "task": "segmentation",
            "source": {
                "kind": "demo",
                "chips": {"train": 24, "val": 8, "test": 12},
                "chip_size": 32,
                **SCENES,
            },
        }
    },
    "probes": {
        **{
            probe: {"kind": "segmentation", "head": head, "hidden": 8, "epochs": 2}
            for probe, head in HEADS.items()
        },
        "seg-knn": {"kind": "dense_knn", "masks": "zarr"},
    },
    "extra_backbones": {
        "tiny-network": {
            **TINY["extra_backbones"]["tiny-network"],
            "input": {"bands": "rgb", "size": 64, "normalization": "dataset"},
        }
    },
    "extraction": {"size": 64},
    "seeds": [0, 1],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("segmentation") / "project", CONFIG)


@pytest.fixture
def rows(finished):
    return finished.leaderboard()


def test_every_head_and_seed_has_mean_iou_with_an_interval(rows):
    chosen = [row for row in rows if row["primary"]]
    assert {row["metric"] for row in chosen} == {"mean_iou"}
    assert {(row["backbone"], row["probe"], row["seed"]) for row in chosen} == {
        *((b, probe, s) for b in ("imagestats", "tiny-network") for probe in HEADS for s in (0, 1)),
        *((b, "seg-knn", 0) for b in ("imagestats", "tiny-network")),
    }
    assert all(0 <= row["lower"] <= row["value"] <= row["upper"] <= 1 for row in chosen)


def test_every_class_has_its_iou(rows, finished):
    card = json.loads(finished.path("results/images/tiny-segmentation/card.json").read_text())
    named = {row["class"] for row in rows if row["metric"] == "iou"}
    assert named == set(card["classes"])


def test_maps_lie_beside_the_embeddings(finished):
    store = Store(finished.path("results/features/tiny-segmentation/tiny-network/test.zarr"))
    layers = store.attributes["layers"]
    assert len(layers) == 4 and store.shape("embeddings")[0] == 12
    heights = [layer["height"] for layer in layers]
    assert heights == sorted(heights) and heights[0] < heights[-1]
    for layer in layers:
        assert store.shape(layer["array"]) == (
            12,
            layer["channels"],
            layer["height"],
            layer["width"],
        )


def test_seeds_of_a_head_differ_and_their_spread_is_told(rows):
    linear = [r for r in rows if r["primary"] and r["probe"] == "seg-linear"]
    assert {row["n_seeds"] for row in linear} == {2}
    assert all(row["seed_std"] is not None for row in linear)


def test_predicted_masks_are_kept_where_they_are_asked_for(finished):
    masks = finished.path("results/masks/tiny-segmentation")
    kept = sorted(str(path.relative_to(masks)) for path in masks.glob("*/*/*"))
    assert kept == ["imagestats/seed0/seg-knn", "tiny-network/seed0/seg-knn"]


def test_masks_that_are_asked_for_later_are_made(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    probes = project.config["probes"]
    head = next(name for name in probes if name != "seg-knn")
    project.configure(probes={**probes, head: {**probes[head], "masks": "zarr"}})
    pending = project.pending()
    assert pending["probe_maps_with_masks"] == len(project.config["backbones"]) * 2
    assert "probe_maps" not in pending and "probe_patches_with_masks" not in pending


def test_the_report_shows_pictures_of_masks(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    assert any("tiny-segmentation" in name for name in names)
    page = finished.report_text()
    assert "mean IoU" in page


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}


def test_another_epoch_reruns_one_head_only(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    project.config["probes"]["seg-dpt"]["epochs"] = 3
    project.configure()
    assert project.pending() == {
        "probe_maps": 4,
        "bootstrap": 4,
        "compare": 1,
        "aggregate": 1,
        "report": 1,
    }
