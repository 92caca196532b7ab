"""The main job on objects: boxes and points, from generated crowns to leaderboard and report."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from helpers.project import SCENES, TINY, Project
from permafrost.core.stores import Store
from permafrost.data.labels.objects import objects_of
from permafrost.metrics.detection.evaluate import evaluate

# a long run; the numbers that it shows are held by the parity tests of AP and the unit tests of the head
pytestmark = pytest.mark.slow

CROWNS = {
    "kind": "demo",
    "chips": {"train": 24, "val": 8, "test": 12},
    "chip_size": 64,
    **SCENES,
}
CONFIG = {
    "datasets": ["tiny-crowns", "tiny-points"],
    "extra_datasets": {
        "tiny-crowns": {"task": "detection", "source": CROWNS},
        "tiny-points": {"task": "point_detection", "source": CROWNS, "match_distance": 6},
    },
    "probes": {"det-fcos": {"kind": "detection", "hidden": 8, "depth": 1, "epochs": 3}},
    "extra_backbones": {
        "tiny-network": {
            **TINY["extra_backbones"]["tiny-network"],
            "input": {"bands": "rgb", "size": 64, "normalization": "dataset"},
        }
    },
    "extraction": {"size": 64},
}
BACKBONES = ("imagestats", "tiny-network")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("detection") / "project", CONFIG)


@pytest.fixture
def rows(finished):
    return finished.leaderboard()


def test_every_backbone_has_its_average_precision(rows):
    chosen = [row for row in rows if row["primary"]]
    assert {(row["dataset"], row["metric"]) for row in chosen} == {
        ("tiny-crowns", "AP"),
        ("tiny-points", "point_ap"),
    }
    assert {(row["dataset"], row["backbone"]) for row in chosen} == {
        (dataset, backbone) for dataset in CONFIG["datasets"] for backbone in BACKBONES
    }
    assert all(0 <= row["lower"] <= row["upper"] <= 1 for row in chosen)


def test_every_class_has_its_average_precision(rows, finished):
    for dataset, metric in (("tiny-crowns", "class_AP"), ("tiny-points", "class_point_ap")):
        card = json.loads(finished.path(f"results/images/{dataset}/card.json").read_text())
        named = {r["class"] for r in rows if r["metric"] == metric and r["dataset"] == dataset}
        assert named <= set(card["classes"]) and named


def test_objects_travel_from_the_images_to_the_predictions(finished):
    counts = set()
    for place in ("images/tiny-crowns", "features/tiny-crowns/tiny-network"):
        samples = Store(finished.path(f"results/{place}/test.zarr")).samples()
        counts.add(sum(map(len, objects_of(samples["objects"]))))
    path = "results/predictions/tiny-crowns/tiny-network/seed0/det-fcos.parquet"
    table = pq.read_table(finished.path(path))
    counts.add(sum(map(len, objects_of(table["objects"]))))
    card = json.loads(finished.path("results/images/tiny-crowns/card.json").read_text())
    about = card["detection"]["splits"]["test"]
    counts.add(about["objects"] + about["crowd"])
    assert len(counts) == 1 and counts.pop() > 0


def test_the_files_beside_the_predictions_give_the_same_score(finished, rows):
    folder = finished.path("results/detections/tiny-crowns/tiny-network/seed0/det-fcos")
    found = evaluate(folder / "truth.json", folder / "detections.json", iou_type="bbox")
    said = {
        row["metric"]: row["value"]
        for row in rows
        if (row["dataset"], row["backbone"]) == ("tiny-crowns", "tiny-network")
        and row["class"] is None
    }
    assert found.stats[0] == pytest.approx(said["AP"], abs=1e-12)
    assert found.stats[1] == pytest.approx(said["AP50"], abs=1e-12)


def test_the_report_shows_what_was_found(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    for dataset in CONFIG["datasets"]:
        assert any(dataset in name for name in names)


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}


def test_another_threshold_reruns_the_head_and_what_follows(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    project.config["probes"]["det-fcos"]["score_threshold"] = 0.3
    project.configure()
    assert project.pending() == {
        "probe_maps_with_detections": 4,
        "bootstrap": 4,
        "compare": 2,
        "aggregate": 1,
        "report": 1,
    }
