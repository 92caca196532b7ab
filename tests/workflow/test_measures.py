"""Measures of features and of augmented views, and profiles, in whole runs: made where they are asked for, shown,
and rerun when they must be."""

from __future__ import annotations

import json

import numpy as np
import permafrost as pf
import pyarrow.parquet as pq
import pytest
from helpers.project import SCENES, Project
from permafrost.core.stores import Store

SOURCE = {
    "kind": "demo",
    "chips": {"train": 40, "val": 10, "test": 16},
    "chip_size": 32,
    **SCENES,
}
VIEWED = {"max_rows": 30, "augmentations": {"images": 15, "views": 3}}
# neither loads a library of models
BACKBONES = ("imagestats", "rcf")
CONFIG = {
    "backbones": list(BACKBONES),
    "datasets": ["tiny-landcover", "tiny-segmentation"],
    "extra_datasets": {
        "tiny-landcover": {"task": "classification", "source": SOURCE},
        "tiny-segmentation": {"task": "segmentation", "source": SOURCE},
    },
    "extraction": {"size": 32},
    "probes": {"knn": {"kind": "knn"}, "seg-knn": {"kind": "dense_knn"}},
    "measures": VIEWED,
}
PROFILE = {"batch_size": 8, "repeats": 3, "latency_repeats": 5, "warm_up": 1}


# of the measures, those of augmented views
OF_VIEWS = ("lidar", "alignment_augmentations")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("measures") / "project", CONFIG)


@pytest.fixture
def project(finished, tmp_path):
    return finished.copied(tmp_path / "project")


@pytest.fixture(scope="module")
def profiled(finished, tmp_path_factory):
    """One backbone on one dataset; a profile is a process of its own, which loads its libraries anew."""
    project = finished.copied(tmp_path_factory.mktemp("profiled") / "project")
    project.configure(profile=PROFILE)
    assert project.pending() == {"profile": 4, "aggregate": 1, "report": 1}
    only = {"backbones": ["imagestats"], "datasets": ["tiny-segmentation"], "measures": None}
    project.configure(**only, probes={"seg-knn": CONFIG["probes"]["seg-knn"]})
    project.snakemake()
    return project


def rows_of(project, path: str) -> list[dict]:
    return pq.read_table(project.path(path)).to_pylist()


def test_measures_and_pairs_of_every_backbone_and_dataset_are_made(finished):
    board = [r for r in rows_of(finished, "results/leaderboard.parquet") if r["kind"] == "measures"]
    assert {(row["dataset"], row["backbone"]) for row in board} == {
        (dataset, backbone) for dataset in CONFIG["datasets"] for backbone in BACKBONES
    }
    assert len(board) == 4 * (12 + len(OF_VIEWS)) and all(row["rank"] is None for row in board)
    for row in board:
        notes = json.loads(row["settings"])
        assert notes["rows"] == (15 if row["metric"] in OF_VIEWS else 30)
        assert notes["drawn_from"] == 40 == row["n_train"]
        assert (row["value"] == row["value"]) != ("undefined" in notes)
    for dataset in CONFIG["datasets"]:
        (pair,) = rows_of(finished, f"results/similarity/{dataset}.parquet")
        assert (pair["backbone_a"], pair["backbone_b"]) == BACKBONES
        assert pair["lower"] <= pair["value"] <= pair["upper"]


def test_views_are_those_of_the_same_images_for_every_backbone(finished):
    for dataset in CONFIG["datasets"]:
        folder = finished.path(f"results/views/{dataset}")
        stores = [Store(folder / f"{backbone}.zarr") for backbone in BACKBONES]
        assert [store.shape("views")[:2] for store in stores] == [(15, 3), (15, 3)]
        names = [store.samples()["sample_id"].to_pylist() for store in stores]
        assert names[0] == names[1]


def test_lidar_of_the_leaderboard_is_that_of_the_kept_views(finished):
    """exp of the entropy of the shares of the eigenvalues of (Sw + delta I)^-1 Sb, delta 1e-4."""
    rows = [row for row in finished.leaderboard() if row["metric"] == "lidar"]
    assert len(rows) == 4
    for row in rows:
        path = finished.path(f"results/views/{row['dataset']}/{row['backbone']}.zarr")
        views = Store(path).read("views").astype(np.float64)
        means = views.mean(axis=1)
        within = (views - means[:, None]).reshape(-1, views.shape[-1])
        between = means - means.mean(axis=0)
        delta = 1e-4 * np.eye(views.shape[-1])
        relative = np.linalg.solve(
            within.T @ within / len(within) + delta, between.T @ between / 15
        )
        shares = np.sort(np.linalg.eigvals(relative).real)[-15:].clip(0)
        shares = shares / shares.sum() + 1e-7
        assert row["value"] == pytest.approx(np.exp(-np.sum(shares * np.log(shares))), rel=1e-4)
        assert row["lower"] <= row["value"] <= row["upper"]


def test_measures_in_python_are_those_of_the_run(finished):
    results = pf.Results(finished.path("results"))
    dataset, compared = "tiny-landcover", 0
    for backbone in BACKBONES:
        train = results.features(dataset, backbone, "train")
        options = {"groups": train.groups, "max_rows": VIEWED["max_rows"], "dataset": dataset}
        found = pf.measures(train.x, train.y, **options).set_index("measure")
        rows = [r for r in finished.leaderboard() if r["kind"] == "measures"]
        rows = [r for r in rows if (r["dataset"], r["backbone"]) == (dataset, backbone)]
        stage = {row["metric"]: row for row in rows if row["metric"] not in OF_VIEWS}
        assert set(found.index) == set(stage)
        for name, row in stage.items():
            for column in ("value", "lower", "upper", "confidence", "unit", "n_units"):
                # to the last bit, and missing where that is missing
                np.testing.assert_array_equal(
                    found.loc[name, column], row[column], f"{name} {column}"
                )
            compared += row["value"] == row["value"]
    assert compared >= 12
    other = pf.measures(train.x, train.y, **{**options, "dataset": "another"}).set_index("measure")
    assert other.loc["rankme", "value"] != found.loc["rankme", "value"]


def test_the_task_decides_what_is_undefined(finished):
    board = rows_of(finished, "results/leaderboard.parquet")
    reasons = {
        row["dataset"]: json.loads(row["settings"]).get("undefined")
        for row in board
        if row["metric"] == "alignment"
    }
    assert reasons["tiny-landcover"] is None
    assert "have no class" in reasons["tiny-segmentation"]


def test_the_report_shows_measures(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    assert {
        f"{kind}__{name}.svg" for kind in ("measures", "similarity") for name in CONFIG["datasets"]
    } <= names
    page = finished.report_text()
    assert "The features themselves" in page
    assert "(alignment (views), LiDAR): 3 of each of 15 of the 40 samples of train" in page


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        (
            {"measures": VIEWED | {"max_rows": 29}},
            {"measure": 4, "similarity": 2, "aggregate": 1, "report": 1},
        ),
        (
            {"measures": VIEWED | {"augmentations": VIEWED["augmentations"] | {"seed": 1}}},
            {"views": 4, "measure": 4, "aggregate": 1, "report": 1},
        ),
        ({"measures": None}, {"aggregate": 1, "report": 1}),
    ],
    ids=["rows", "views", "off"],
)
def test_a_change_reruns_measures_and_no_probe(project, change, jobs):
    project.configure(**change)
    assert project.pending() == jobs


def test_costs_of_a_backbone_are_in_the_leaderboard(profiled):
    rows = [row for row in profiled.leaderboard() if row["kind"] == "profile"]
    assert {(row["dataset"], row["backbone"]) for row in rows} == {
        ("tiny-segmentation", "imagestats")
    }
    assert len(rows) == 11 and all(row["rank"] is None for row in rows)
    for row in rows:
        notes = json.loads(row["settings"])
        assert (row["value"] == row["value"]) != ("undefined" in notes)
        assert notes["input"][1:] == [32, 32] and notes["hardware"]["device"] == "cpu"
        # the maps that segmentation needs belong to its forward pass
        assert notes["maps"]


def test_the_report_shows_costs(profiled):
    assert profiled.path("results/report/figures/costs__tiny-segmentation.svg").is_file()
    assert "<h2>Cost</h2>" in profiled.report_text()


def test_another_option_of_the_profile_reruns_it_alone(profiled, tmp_path):
    project = profiled.copied(tmp_path / "project")
    project.configure(runtime={"device": "auto", "batch_size": 3, "workers": 1})
    assert project.pending() == {}
    project.configure(profile={**PROFILE, "repeats": 4})
    assert project.pending() == {"profile": 1, "aggregate": 1, "report": 1}
