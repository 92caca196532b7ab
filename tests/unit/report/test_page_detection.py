"""The report page of datasets of objects: boxes and points, whole images and windows of them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pyarrow as pa
import pytest
from helpers.results.objects import make_object_card, make_object_store, prepare_objects
from helpers.results.pages import build_report
from helpers.results.tables import format_leaderboard, make_plan, report_text
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table, write_table
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard

CAPTIONS = Path(__file__).parents[3] / "workflow" / "report"
BACKBONES = {"net": 0.9, "weak": 0.3}


def build(folder: Path, card: dict, *, backbones=BACKBONES, splits=("test",), **options) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    arguments, tables = prepare_objects(
        folder, card, backbones=backbones, probes={"fcos": [0]}, **options
    )
    write_leaderboard(tables, folder / "l.parquet", folder / "l.csv", {"fingerprint": "l"})
    name = card["dataset"]
    stores = {
        (name, split): make_object_store(folder / f"{split}.zarr", card, split=split)
        for split in splits
    }
    build_report(
        plan=make_plan([name], list(backbones), ("fcos",)),
        leaderboard=folder / "l.parquet",
        images=stores,
        comparisons={},
        output_dir=folder / "report",
        **arguments,
    )
    return report_text(folder / "report")


def figures_of(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "report/figures").iterdir()}


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("boxes")
    return build(folder, make_object_card(), splits=("train", "test")), folder


@pytest.fixture(scope="module")
def points(tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("points")
    return build(folder, make_object_card("stems", geometry="point")), folder


def test_every_figure_of_boxes_is_made(page):
    assert figures_of(page[1]) == {
        f"{kind}__trees"
        for kind in (
            "dotplot",
            "detections",
            "detections_backbones",
            "hardest",
            "precision_recall",
            "errors",
            "calibration",
            "training",
            "metrics",
            "per_class",
            "per_class_ap50",
            "objects",
            "balance",
            "bands",
        )
    }
    pixels = {path.stem for path in (page[1] / "report/figures").glob("*.png")}
    assert pixels == {"detections__trees", "detections_backbones__trees", "hardest__trees"}


def test_every_figure_of_points_is_made(points):
    assert figures_of(points[1]) == {
        f"{kind}__stems"
        for kind in (
            "dotplot",
            "detections",
            "detections_backbones",
            "hardest",
            "precision_recall",
            "training",
            "metrics",
            "per_class",
            "objects",
            "balance",
            "bands",
        )
    }


def test_one_class_has_no_figure_of_classes(tmp_path):
    build(tmp_path, make_object_card("crowns", classes=("crown",), images=4), splits=())
    assert not {one for one in figures_of(tmp_path) if one.startswith("per_class")}


def test_metrics_and_the_card_of_boxes_are_in_words(page):
    for words in (
        "AP of every backbone with its interval",
        "geometry of objects",
        "80 pixels, 10 % shared",
        "100 of a class",
        "without objects",
        "smallest class (objects)",
        "AP50 of every class",
        "Values of detections.",
        "Trains a head on the maps of frozen layers that says at every place",
        "at an IoU above 0.4",
        "score at least 0.3",
        "The image stores of val are not here",
        "Expected calibration error",
        "No value for want of objects: AP of medium objects",
    ):
        assert words in page[0], words


def test_metrics_and_the_card_of_points_are_in_words(points):
    for words in (
        "Point AP of every backbone",
        "a point is found within",
        "6 pixels",
        "Mean absolute error of counts: net ",
        "point F1",
    ):
        assert words in points[0], words
    assert "Expected calibration error" not in points[0]


def test_the_terminal_names_the_metric_of_the_task(page, points):
    boxes = format_leaderboard(read_table(page[1] / "l.parquet")[0])
    assert "trees · fcos · AP (95 % interval over 4 groups)" in boxes
    assert "stems · fcos · point AP (" in format_leaderboard(read_table(points[1] / "l.parquet")[0])


def test_the_leaderboard_ranks_an_error_that_is_best_when_small(points):
    rows = read_table(points[1] / "l.parquet")[0].to_pylist()
    errors = {row["backbone"]: row for row in rows if row["metric"] == "count_mae"}
    assert errors["net"]["value"] < errors["weak"]["value"]
    assert (errors["net"]["rank"], errors["weak"]["rank"]) == (1.0, 2.0)


def test_without_the_image_store_a_sentence_replaces_pictures_only(tmp_path):
    text = build(tmp_path, make_object_card(images=4), splits=())
    assert "No test images are shown: the image store of trees is not here" in text
    assert {"precision_recall__trees", "errors__trees"} <= figures_of(tmp_path)
    assert not {"detections__trees", "objects__trees"} & figures_of(tmp_path)


def test_a_head_that_detects_nothing_is_shown_and_said(tmp_path):
    text = build(tmp_path, make_object_card(images=4), backbones={"net": 0.5}, empty=True)
    assert "nothing detected" in text and "No test image has a detection" in text
    assert {"detections__trees", "precision_recall__trees", "errors__trees"} <= figures_of(tmp_path)
    assert "calibration__trees" not in figures_of(tmp_path)


def test_many_backbones_are_split_over_figures_and_the_rest_is_named(tmp_path):
    backbones = {f"net-{i:02d}": 0.9 - 0.08 * i for i in range(9)}
    text = build(
        tmp_path, make_object_card(images=4, classes=("tree",)), backbones=backbones, pictures=1
    )
    assert {one for one in figures_of(tmp_path) if one.startswith("detections_b")} == {
        "detections_backbones__trees__1",
        "detections_backbones__trees__2",
    }
    assert "Detections of the 8 best backbones are compared; those of 1 others" in text


def test_hostile_names_are_drawn_as_text_and_pictures_that_were_not_kept_are_said(tmp_path):
    names = ("<script>alert(1)</script>", "$\\frac$")
    card = make_object_card(images=3, classes=names)
    text = build(tmp_path, card, backbones={"net": 0.9}, pictures=0)
    assert "<script>alert" not in text
    assert "No detections are shown: fcos keeps no pictures." in text
    assert not {one for one in figures_of(tmp_path) if one.startswith("detections")}


def test_an_image_that_the_store_lacks_is_named(tmp_path):
    card = make_object_card(images=4)
    arguments, tables = prepare_objects(
        tmp_path, card, backbones={"net": 0.9}, probes={"fcos": [0]}
    )
    write_leaderboard(tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"})
    (path,) = arguments["predictions"].values()
    table, metadata = read_table(path)
    ids = pa.array(
        [name.replace("trees-001", "elsewhere") for name in table["sample_id"].to_pylist()]
    )
    write_table(path, table.set_column(0, "sample_id", ids), metadata)
    with pytest.raises(PermafrostError, match=r"test\.zarr: the store has no window .*'elsewhere'"):
        build_report(
            plan=make_plan(["trees"], ["net"]),
            leaderboard=tmp_path / "l.parquet",
            comparisons={},
            images={("trees", "test"): make_object_store(tmp_path / "test.zarr", card)},
            output_dir=tmp_path / "report",
            **arguments,
        )


def test_every_kind_of_figure_has_a_caption(page):
    template = jinja2.Template((CAPTIONS / "figures.rst").read_text())
    shown = {}
    for name in figures_of(page[1]):
        snakemake = SimpleNamespace(wildcards=SimpleNamespace(name=name))
        shown[name] = template.render(snakemake=snakemake).strip()
    assert all(len(text.splitlines()) >= 3 for text in shown.values())
    # both figures of classes share a caption
    assert len({re.split("\n", text)[0] for text in shown.values()}) == len(shown) - 1
