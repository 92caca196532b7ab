"""The main job on a dataset whose images have a number each, beside one with classes."""

from __future__ import annotations

import pytest
from helpers.project import TINY, Project

WORLD = {"chips": {"train": 60, "val": 24, "test": 36}, "chip_size": 32}
CONFIG = {
    **TINY,
    "datasets": ["tiny-landcover", "tiny-forest"],
    "extra_datasets": {
        **TINY["extra_datasets"],
        "tiny-forest": {"task": "regression", "source": {"kind": "demo", **WORLD}},
    },
    "probes": {
        "knn": {"kind": "knn"},
        "ridge": {"kind": "ridge"},
        "ridge-loo": {"kind": "ridge", "choose": "leave_one_out"},
    },
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("regression") / "project", CONFIG)


@pytest.fixture
def rows(finished):
    return finished.leaderboard()


def test_knn_serves_both_tasks_and_ridge_the_numbers(rows):
    primary = {(row["dataset"], row["probe"], row["metric"]) for row in rows if row["primary"]}
    assert primary == {
        ("tiny-landcover", "knn", "accuracy"),
        *(("tiny-forest", probe, "r2") for probe in ("knn", "ridge", "ridge-loo")),
    }


def test_errors_rank_the_smallest_first(rows):
    own = [r for r in rows if (r["metric"], r["probe"]) == ("rmse", "ridge")]
    assert len(own) == 2
    best = min(own, key=lambda row: row["value"])
    assert best["rank"] == 1 and not best["higher_is_better"]
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in own)


def test_the_report_shows_predictions_and_how_alpha_was_chosen(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    assert {
        "numbers__tiny-forest.svg",
        "targets__tiny-forest.svg",
        "alpha__tiny-forest__ridge.svg",
    } <= names
    page = finished.report_text()
    assert "smallest target" in page and "R²" in page


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}
