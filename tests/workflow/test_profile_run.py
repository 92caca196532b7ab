"""Profiles in whole runs: made where they are asked for, shown, and not made anew for another machine."""

from __future__ import annotations

import json

import pytest
from helpers.project import Project

CONFIG = {
    "backbones": ["imagestats", "rcf"],
    "datasets": ["tiny-segmentation"],
    "extra_datasets": {
        "tiny-segmentation": {
            "task": "segmentation",
            "source": {
                "kind": "demo",
                "chips": {"train": 40, "val": 10, "test": 16},
                "chip_size": 32,
            },
        },
    },
    "extraction": {"size": 32},
    "probes": {"seg-knn": {"kind": "dense_knn"}},
    "profile": {"batch_size": 8, "repeats": 3, "latency_repeats": 5, "warm_up": 1},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("profile") / "project", CONFIG)


def test_costs_of_every_backbone_are_in_the_leaderboard(finished):
    rows = [row for row in finished.leaderboard() if row["kind"] == "profile"]
    assert {row["backbone"] for row in rows} == set(CONFIG["backbones"])
    assert len(rows) == 2 * 11 and all(row["rank"] is None for row in rows)
    for row in rows:
        notes = json.loads(row["settings"])
        assert (row["value"] == row["value"]) != ("undefined" in notes)
        assert notes["input"][1:] == [32, 32] and notes["hardware"]["device"] == "cpu"
        assert notes["maps"], "the maps that segmentation needs belong to its forward pass"


def test_the_report_shows_them(finished):
    assert finished.path("results/report/figures/costs__tiny-segmentation.svg").is_file()
    assert "<h2>Cost</h2>" in finished.report_text()


def test_another_way_to_run_makes_none_anew_and_another_option_does(finished):
    finished.configure(runtime={"device": "auto", "batch_size": 3, "workers": 1})
    assert finished.pending() == {}
    finished.configure(profile={**CONFIG["profile"], "repeats": 4})
    assert finished.pending() == {"profile": 2, "aggregate": 1, "report": 1}
