"""Published results in a configuration: what they rerun, and what is refused before a run."""

from __future__ import annotations

import copy
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from helpers.plans import CONFIG, changed, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.plan.recorded import published_files
from permafrost.statistics.leaderboard.published_table import write_published

HEADER = "dataset,method,metric_name,metric_value,name,bands\n"
ROWS = "m-eurosat,knn5,accuracy,0.9,net50,rgb\nm-eurosat,linear,accuracy,0.8,net50,rgb\n"


@pytest.fixture
def root(tmp_path):
    root = fill_root(tmp_path / "root")
    (root / "data" / "theirs.csv").write_text(HEADER + ROWS)
    return root


def of(**entry) -> dict:
    return {**copy.deepcopy(CONFIG), "published": [{"file": "{data}/theirs.csv", **entry}]}


def test_a_file_reruns_what_gathers_scores_alone(root):
    gathering = {("aggregate",), ("report",)}
    plan = make_plan(root, of())
    assert changed(make_plan(root), plan) == gathering
    assert changed(plan, make_plan(root, of(backbones={"net50": "net"}))) == gathering
    (root / "data" / "theirs.csv").write_text(HEADER + ROWS.replace("0.9", "0.7"))
    assert changed(plan, make_plan(root, of())) == gathering


def test_a_folder_is_a_source_and_a_change_in_it_reruns_what_gathers_scores(root, tmp_path):
    folder = root / "data" / "models"
    folder.mkdir()
    (folder / "a.csv").write_text(HEADER + ROWS)
    (folder / "b.csv").write_text(HEADER + ROWS.replace("net50", "net18"))
    asked = of(file="{data}/models", source="theirs", backbones={"net18": "net"})
    plan = make_plan(root, asked)
    written = tmp_path / "published.parquet", tmp_path / "published.csv"
    table = write_published(*plan._published, *written, {"fingerprint": "f", "stage": "aggregate"})
    assert sorted({*table["backbone"].to_pylist()}) == ["net18", "net50"]
    assert {*table["file"].to_pylist()} == {"a.csv", "b.csv"}
    (folder / "b.csv").write_text(HEADER + ROWS.replace("0.9", "0.7").replace("net50", "net18"))
    assert changed(plan, make_plan(root, asked)) == {("aggregate",), ("report",)}


def test_where_a_file_lies_reruns_nothing(root):
    plan = make_plan(root, of())
    (root / "other").mkdir()
    (root / "data" / "theirs.csv").rename(root / "other" / "theirs.csv")
    moved = make_plan(root, of(file="other/theirs.csv"))
    assert changed(plan, moved) == set()
    assert moved.aggregate().places == {"published": [str(root / "other" / "theirs.csv")]}
    plain = {**copy.deepcopy(CONFIG), "published": ["other/theirs.csv"]}
    assert changed(moved, make_plan(root, plain)) == set()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            {"file": "none.csv"},
            r"published, entry 1: .*none\.csv cannot be read .* Remedy: correct",
        ),
        ({"file": "own.py"}, r"own\.py: lacks columns"),
        (
            {"backbones": {"net5": "net"}},
            r"entry 1, backbones: no backbone 'net5' published, did you",
        ),
        ({"backbones": {"net50": "nets"}}, r"no backbone 'nets' here, did you mean 'net'"),
        ({"datasets": {"m-eurosat": "eurosat"}}, r"entry 1, datasets: no dataset 'eurosat' here"),
        ({"methods": {"knn5": "knn5"}}, r"entry 1, methods: no method 'knn5' here"),
        ({"date": "today"}, "date"),
        ({"url": "javascript:alert(1)"}, "url"),
        ({"sourc": "x"}, "sourc"),
        ({"duplicates": "all"}, "duplicates"),
    ],
)
def test_what_cannot_be_is_refused(root, entry, words):
    with pytest.raises(PermafrostError, match=words):
        make_plan(root, of(**entry))


def test_two_values_and_two_sources_are_refused(root):
    config = of()
    config["published"] *= 2
    with pytest.raises(PermafrostError, match=r"two entries have the source 'theirs\.csv'"):
        make_plan(root, config)
    (root / "data" / "theirs.csv").write_text(HEADER + ROWS + ROWS.replace("0.8", "0.7"))
    with pytest.raises(PermafrostError, match="rows 3 and 5 are of one configuration"):
        make_plan(root, of())
    make_plan(root, of(duplicates="last"))


def test_the_table_has_source_and_names_of_both(root, tmp_path):
    plan = make_plan(
        root,
        of(source="them", date="2026-01-02", backbones={"net50": "net"}, methods={"knn5": "knn"}),
    )
    entries, places = plan._published
    written = tmp_path / "published.parquet", tmp_path / "published.csv"
    write_published(entries, places, *written, {"fingerprint": "f", "stage": "aggregate"})
    first, second = pq.read_table(written[0]).to_pylist()
    assert (first["source"], first["date"], first["file"], first["row"]) == (
        "them",
        "2026-01-02",
        "theirs.csv",
        2,
    )
    assert (first["backbone_here"], first["dataset_here"], first["probe_here"]) == (
        "net",
        None,
        "knn",
    )
    assert (second["value"], second["probe_here"]) == (0.8, None)
    assert len(written[1].read_text().splitlines()) == 3
    Path(places[0]).write_text(HEADER + ROWS.replace("0.9", "0.7"))
    with pytest.raises(PermafrostError, match="changed since the run was planned"):
        write_published(entries, places, *written, {"fingerprint": "f", "stage": "aggregate"})


def test_an_archive_holds_the_tables_where_there_are_some():
    recorded = {"results": "results", "config": {"published": ["x.csv"]}}
    assert [str(path) for path in published_files(recorded)] == [
        "results/published.parquet",
        "results/published.csv",
    ]
    assert published_files({"results": "results", "config": {}}) == []
