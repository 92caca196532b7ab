"""The main job on pairs and on series: features of every date, reduced when probes read them, scored, and shown."""

from __future__ import annotations

import pytest
from helpers.project import Project
from permafrost.core.stores import Store
from permafrost.data.store.card import read_card
from permafrost.statistics.scores.gates import BELOW_CHANCE

LINEAR = {"kind": "linear", "c_min": 1e-3, "c_max": 1e3, "c_count": 7}
SERIES = {
    "last": {"temporal": "last"},
    "mean": {"temporal": "mean"},
    "shuffled-mean": {"temporal": "mean", "shuffle_dates": True},
    "all": {"temporal": "concatenate"},
    "shuffled-all": {"temporal": "concatenate", "shuffle_dates": True},
}
CONFIG = {
    "backbones": ["statistics"],
    "extra_backbones": {"statistics": {"kind": "imagestats", "input": {"bands": "all"}}},
    "datasets": ["tiny-change", "tiny-series"],
    "extra_datasets": {
        "tiny-change": {
            "task": "change",
            "dates": "pair",
            "source": {
                "kind": "demo",
                "chip_size": 64,
                "scene_size": 192,
                "scenes": {"train": 6, "val": 2, "test": 7},
                "chips": {"train": 48, "val": 12, "test": 35},
            },
        },
        "tiny-series": {
            "task": "classification",
            "dates": "series",
            "source": {
                "kind": "demo",
                "chip_size": 32,
                "scene_size": 192,
                "cloudy": 0,
                "scenes": {"train": 7, "val": 4, "test": 7},
                "chips": {"train": 80, "val": 32, "test": 80},
            },
        },
    },
    "extraction": {"size": None},
    "probes": {
        **{name: {**LINEAR, **options} for name, options in SERIES.items()},
        "seg": {
            "kind": "segmentation",
            "head": "linear",
            "epochs": 6,
            "batch_size": 8,
            "learning_rate": 0.02,
        },
        "seg-knn": {"kind": "dense_knn", "k": 5, "pair": "absolute"},
    },
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("dates") / "project", CONFIG)


@pytest.fixture
def scores(finished) -> dict:
    """Row of the primary metric by probe."""
    return {row["probe"]: row for row in finished.leaderboard() if row["primary"]}


def test_change_is_found_and_resampled_by_scene(scores):
    assert scores["seg"]["metric"] == scores["seg-knn"]["metric"] == "change_f1"
    row = scores["seg"]
    assert row["n_units"] == 7 and 0.3 < row["value"] < row["upper"] < 1
    assert BELOW_CHANCE not in row["gates"]


def test_crops_that_one_date_does_not_show_are_told_apart_by_all(scores):
    value = {probe: scores[probe]["value"] for probe in SERIES}
    assert value["last"] + 0.1 < value["mean"] and value["mean"] + 0.1 < value["all"]
    # the control: only what depends on the order of dates is lost
    assert value["shuffled-mean"] == pytest.approx(value["mean"], abs=0.02)
    assert value["shuffled-all"] + 0.1 < value["all"]


def test_stores_keep_the_features_of_every_date(finished):
    pair, series = (
        Store(finished.path(f"results/features/{name}/statistics/test.zarr"))
        for name in ("tiny-change", "tiny-series")
    )
    assert pair.shape("embeddings") == (35, 2, 40) and series.shape("embeddings") == (80, 6, 40)
    layer = pair.attributes["layers"][0]
    assert pair.shape(layer["array"])[:3] == (35, 2, layer["channels"])


def test_the_page_shows_before_and_after_and_what_saying_change_gives(finished):
    figures = finished.path("results/report/figures")
    assert (figures / "pictures__tiny-change.png").exists()
    page = finished.path("results/report/datasets/tiny-change.html").read_text()
    assert "Saying everywhere that there was a change gives 0." in page
    assert "F1 of change" in page
    card = read_card(finished.path("results/images/tiny-series/card.json"))
    assert card.modalities[0]["dates"]["fewest"] == card.modalities[0]["dates"]["most"] == 6


@pytest.mark.slow
def test_dates_put_together_in_another_way_run_no_backbone_again(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    project.config["probes"]["seg"]["pair"] = "difference"
    project.config["probes"]["last"]["temporal"] = "max"
    project.configure()
    assert project.pending() == {
        "probe_maps": 1,
        "probe_embeddings": 1,
        "bootstrap": 2,
        "aggregate": 1,
        "report": 1,
    }
