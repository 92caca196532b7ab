"""``permafrost evaluate-boxes``: tables in, printed and written figures out."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from crown_cases import box, random_crowns
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.metrics.crowns import DEEPFOREST, evaluate
from permafrost.stages import evaluate_boxes
from PIL import Image


@pytest.fixture
def tables(tmp_path):
    truth, rows = random_crowns(np.random.default_rng(1), "box", 6)
    truth = [{**row, "flight": row["image_path"] < "i3"} for row in truth]
    rows.append(box("i9", (0, 0, 9, 9), "a", score=0.5))
    paths = tmp_path / "truth.csv", tmp_path / "predictions.csv"
    for path, records in zip(paths, (truth, rows), strict=True):
        pd.DataFrame(records).to_csv(path, index=False)
    return paths


def command(tables, *options) -> None:
    parser = argparse.ArgumentParser()
    evaluate_boxes.add_arguments(parser)
    given = ["--truth", tables[0], "--predictions", tables[1], "--resamples", "50", *options]
    evaluate_boxes.run(parser.parse_args([str(option) for option in given]))


def test_figures_are_those_of_python_with_intervals(tables, tmp_path, capsys):
    command(tables, "--unlisted", "empty", "--output", tmp_path / "s.json", "--tables", tmp_path)
    expected = evaluate(*tables, unlisted="empty").values
    written = json.loads((tmp_path / "s.json").read_text())
    found = {(row["metric"], row["class"]): row for row in written["scores"]}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name]["value"] == (None if np.isnan(value) else value)
    recall = found["recall", None]
    assert recall["lower"] < recall["value"] < recall["upper"]
    assert written["n_units"] == 7 and written["options"]["truth"]["sha256"]
    printed = capsys.readouterr().out
    assert "matched by area, IoU > 0.4; mean over images" in printed
    assert f"{recall['value']:.4f}" in printed and "each of 7 images" in printed
    assert "1 images hold no crown but have predictions" in printed
    matches, metadata = read_table(tmp_path / "matches.parquet")
    assert matches.num_rows > 0 and metadata["table"] == "matches"
    assert read_table(tmp_path / "images.parquet")[0].num_rows == 7
    assert read_table(tmp_path / "scores.parquet")[0].num_rows == len(expected)


def test_like_deepforest_is_all_its_rules_and_a_named_rule_goes_before_it(tables, tmp_path):
    for options, rules in (
        (["--like", "deepforest"], DEEPFOREST),
        (["--like", "deepforest", "--unlisted", "empty"], {**DEEPFOREST, "unlisted": "empty"}),
    ):
        command(tables, *options, "--output", tmp_path / "s.json")
        written = json.loads((tmp_path / "s.json").read_text())["scores"]
        expected = evaluate(*tables, **rules).values["precision", None]
        assert written[1]["metric"] == "precision" and written[1]["value"] == expected


def test_the_order_of_rows_and_images_does_not_matter(tables, tmp_path):
    written = []
    for turn in (1, -1):
        for path in tables:
            pd.read_csv(path).iloc[::turn].to_csv(path, index=False)
        command(tables, "--unlisted", "skip", "--output", tmp_path / "s.json")
        written.append(json.loads((tmp_path / "s.json").read_text())["scores"])
    for one, other in zip(*written, strict=True):
        for name in ("value", "lower", "upper"):
            same = other[name] if other[name] is None else pytest.approx(other[name], rel=1e-12)
            assert one[name] == same


def test_groups_are_resampled_together(tables, capsys):
    command(tables, "--unlisted", "empty", "--group-column", "flight")
    assert "each of 3 groups" in capsys.readouterr().out


def test_a_single_image_has_no_interval(tmp_path, capsys):
    for name in ("t.csv", "p.csv"):
        pd.DataFrame([box("a", (0, 0, 9, 9), score=1.0)]).to_csv(tmp_path / name, index=False)
    command((tmp_path / "t.csv", tmp_path / "p.csv"))
    printed = capsys.readouterr().out
    assert "a single image cannot be resampled" in printed and "[" not in printed


def test_tiles_are_scored_beside_whole_images(tables, tmp_path, capsys):
    folder = tmp_path / "images"
    folder.mkdir()
    for number in (*range(6), 9):
        Image.new("L", (170, 170)).save(folder / f"i{number}", format="PNG")
    shared = ["--images", folder, "--tile-size", "100", "--tile-overlap", "0.2"]
    command(tables, "--unlisted", "empty", *shared)
    printed = capsys.readouterr().out
    assert "Scored on" in printed and "must not be compared" in printed
    per_window = pd.read_csv(tables[1]).assign(window_xmin=70, window_ymin=0)
    per_window.to_csv(tables[1], index=False)
    command(tables, "--unlisted", "empty", *shared, "--stitch", "--pictures", tmp_path / "out")
    printed = capsys.readouterr().out
    assert "predictions in windows are" in printed and "pictures in" in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tile-size", "100"], "windows need --images"),
        (["--stitch"], "windows need --images"),
        (["--pictures", "out"], "pictures need --images"),
    ],
)
def test_options_that_need_others(tables, options, words):
    with pytest.raises(PermafrostError, match=words):
        command(tables, "--unlisted", "skip", *options)


def test_the_command_loads_nothing_heavy():
    code = (
        "import permafrost.stages.evaluate_boxes, permafrost.stages.evaluate_raster,"
        " permafrost.metrics.crowns, permafrost.metrics.raster, sys;"
        "print(*({'torch', 'scipy', 'shapely', 'rasterio', 'pandas', 'pyarrow', 'torchmetrics',"
        " 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
