"""The main job with the probes that are trained by gradient descent."""

from __future__ import annotations

import copy

import pyarrow.parquet as pq
import pytest
from helpers.project import TINY, Project

PROBES = {
    "sgd": {"kind": "sgd_linear", "learning_rate": [0.001, 0.01, 0.1], "epochs": 20},
    "mlp": {"kind": "mlp", "hidden": 16, "epochs": 20},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("descent") / "project")
    project.configure(**copy.deepcopy(TINY), probes=PROBES, seeds=[0, 1])
    project.snakemake()
    return project


def test_both_run_for_every_seed_and_are_scored(finished):
    rows = pq.read_table(finished.path("results/leaderboard.parquet")).to_pylist()
    chosen = [row for row in rows if row["primary"]]
    assert {(row["probe"], row["kind"], row["seed"]) for row in chosen} == {
        (name, options["kind"], seed) for name, options in PROBES.items() for seed in (0, 1)
    }
    assert all(0 < row["lower"] <= row["value"] <= row["upper"] <= 1 for row in chosen)


def test_the_report_shows_how_the_learning_rate_was_chosen(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    assert "learning_rates__tiny-landcover__sgd.svg" in names


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}
