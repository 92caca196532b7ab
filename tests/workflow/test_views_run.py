"""Augmented views in whole runs: made where they are asked for, measured, shown, and rerun when they must be."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.project import Project
from permafrost.core.stores import Store

pytestmark = pytest.mark.slow

SOURCE = {"kind": "demo", "chips": {"train": 24, "val": 8, "test": 12}, "chip_size": 32}
AUGMENTATIONS = {"images": 15, "views": 3}
CONFIG = {
    "datasets": ["tiny-landcover"],
    "extra_datasets": {"tiny-landcover": {"task": "classification", "source": SOURCE}},
    "backbones": ["imagestats", "filters"],
    "extra_backbones": {"filters": {"kind": "rcf", "features": 16}},
    "extraction": {"size": 32},
    "probes": {"knn": {"kind": "knn"}},
    "measures": {
        "similarity": False,
        "names": ["rankme", "lidar", "alignment_augmentations"],
        "augmentations": AUGMENTATIONS,
    },
}
STORE = "results/views/tiny-landcover/{}.zarr"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("views") / "project", CONFIG)


def test_views_are_made_and_measured(finished):
    rows = [row for row in finished.leaderboard() if row["kind"] == "measures"]
    assert {(row["backbone"], row["metric"]) for row in rows} == {
        (backbone, name) for backbone in CONFIG["backbones"] for name in CONFIG["measures"]["names"]
    }
    stores = [Store(finished.path(STORE.format(backbone))) for backbone in CONFIG["backbones"]]
    assert [store.shape("views")[:2] for store in stores] == [(15, 3), (15, 3)]
    names = [store.samples()["sample_id"].to_pylist() for store in stores]
    assert names[0] == names[1]
    for row in (row for row in rows if row["metric"] != "rankme"):
        notes = json.loads(row["settings"])
        assert (notes["rows"], notes["drawn_from"], notes["views"]) == (15, 24, 3)
        assert row["lower"] <= row["value"] <= row["upper"] and row["n_train"] == 24
    filters = next(row for row in rows if (row["backbone"], row["metric"]) == ("filters", "lidar"))
    views = stores[1].read("views").astype(np.float64)
    within = (views - views.mean(axis=1, keepdims=True)).reshape(-1, views.shape[-1])
    between = views.mean(axis=1) - views.mean(axis=(0, 1))
    whitened = np.linalg.solve(
        within.T @ within / len(within) + 1e-4 * np.eye(views.shape[-1]), between.T @ between / 15
    )
    shares = np.sort(np.linalg.eigvals(whitened).real)[-15:].clip(0)
    shares = shares / shares.sum() + 1e-7
    assert filters["value"] == pytest.approx(np.exp(-np.sum(shares * np.log(shares))), rel=1e-4)


def test_the_report_shows_them(finished):
    page = finished.report_text()
    assert (
        "Of augmented views (alignment (views), LiDAR): 3 of each of 15 of the 24 samples of train"
        in page
    )


def test_what_reruns(finished, tmp_path):
    assert finished.pending() == {}
    project = finished.copied(tmp_path / "project")
    measures = {**CONFIG["measures"], "augmentations": {**AUGMENTATIONS, "seed": 1}}
    # how it is run is no part of a result
    project.configure(measures=measures, runtime={"device": "cpu", "batch_size": 4, "workers": 1})
    assert project.pending() == {"views": 2, "measure": 2, "aggregate": 1, "report": 1}
