"""The main job on objects that only one of two sensors shows, or only one of several dates."""

from __future__ import annotations

import pytest
from helpers.datasets.sensors_with_objects import CLASSES, Scenes
from helpers.project import Project
from permafrost.core.stores import Store

# whole runs; stores, windows and heads over dates have quick tests of their own
pytestmark = pytest.mark.slow

FEEDS = {"both": "all", "optical": ["red", "green", "blue"]}
HEAD = {"kind": "detection", "hidden": 16, "depth": 1, "epochs": 12, "learning_rate": 0.01}
LTAE = {"temporal": "ltae", "ltae": {"heads": 2, "hidden": 16, "width": 16}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sensors")
    scenes = {name: Scenes(dates=dates) for name, dates in (("sensors", 1), ("series", 3))}
    entries = {name: one.entry(one.write(folder / name)) for name, one in scenes.items()}
    config = {
        "backbones": list(FEEDS),
        "extra_backbones": {
            name: {"kind": "imagestats", "input": {"bands": bands, "normalization": "dataset"}}
            for name, bands in FEEDS.items()
        },
        "datasets": list(entries),
        "extra_datasets": entries,
        "extraction": {"size": 48},
        "probes": {"max": {**HEAD, "temporal": "max"}},
        # intervals are not looked at
        "bootstrap": {"resamples": 20},
    }
    return Project.finished(folder / "project", config)


@pytest.fixture(scope="module")
def found(finished) -> dict:
    return scores(finished)


def scores(project) -> dict:
    """AP50 of every class by dataset, backbone and probe."""
    return {
        (row["dataset"], row["backbone"], row["probe"], row["class"]): row["value"]
        for row in project.leaderboard()
        if row["metric"] == "class_AP50"
    }


def test_both_sensors_find_what_one_does_not_show(found):
    for dataset in ("sensors", "series"):
        for backbone, seen in (("optical", {"field"}), ("both", {*CLASSES})):
            for name in CLASSES:
                value = found[dataset, backbone, "max", name]
                assert value > 0.6 if name in seen else value < 0.3


def test_dates_are_pooled_as_the_probe_says(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    others = {"last": {**HEAD, "temporal": "last"}, "ltae": {**HEAD, **LTAE}}
    project.configure(
        backbones=["both"],
        datasets=["series"],
        probes={**project.config["probes"], **others},
    )
    project.snakemake("results/leaderboard.parquet")
    found = scores(project)
    for probe, sees in (("max", True), ("ltae", True), ("last", False)):
        assert (found["series", "both", probe, "field"] > 0.4) == sees
        assert found["series", "both", probe, "ship"] > 0.4


def test_stores_keep_the_maps_of_every_date(finished):
    path = finished.path("results/features/series/both/test.zarr")
    store = Store(path)
    assert store.shape(store.attributes["layers"][0]["array"])[:2] == (16, 3)
    assert store.attributes["detection"]["reference"] == "s2"


def test_the_page_says_what_boxes_are_of_and_shows_them(finished):
    page = finished.path("results/report/datasets/series.html").read_text()
    assert "objects are in pixels of" in page
    figures = finished.path("results/report/figures")
    assert any("detections__series" in one.name for one in figures.iterdir())


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}
