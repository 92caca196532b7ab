"""``permafrost evaluate-boxes``: tables in, printed and written figures out."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import shapely
from helpers.predictions.crowns import box, random_crowns
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.evaluators.crowns import DEEPFOREST, evaluate
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
    precision = {name for name in found if name[0] in ("AP", "AP50", "AP75")}
    counts = {name for name in found if name[0].startswith("count_")}
    assert found.keys() - precision - counts == expected.keys() and len(counts) == 4 * 3
    assert precision == {("AP", None), ("AP50", None), ("AP75", None)} | {
        (metric, label) for metric in ("AP", "AP50") for label in "ab"
    }
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
    curves = read_table(tmp_path / "curves.parquet")[0].to_pandas()
    areas = curves[curves.iou_threshold == 0.5].groupby("category").precision.mean()
    assert areas["a"] == pytest.approx(found["AP50", "a"]["value"])
    assert areas["__mean__"] == pytest.approx(found["AP50", None]["value"])
    areas = curves[curves.iou_threshold.isna()].groupby("category").precision.mean()
    assert areas["__mean__"] == pytest.approx(found["AP", None]["value"])
    table = read_table(tmp_path / "scores.parquet")[0]
    assert table.num_rows == len(found) and set(table["average"].to_pylist()) == {
        "image",
        "dataset",
    }


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


@pytest.fixture
def near(tables):
    """Predictions that lie about the truth, and others further away."""
    rng = np.random.default_rng(2)
    truth = pd.read_csv(tables[0])
    paths = []
    for name, size in (("near", 1), ("far", 5)):
        moved = truth.assign(score=rng.random(len(truth)).round(3))
        for axis in "xy":
            shift = rng.normal(0, size, len(truth))
            for corner in ("min", "max"):
                moved[f"{axis}{corner}"] += shift
        paths.append(tables[0].with_name(f"{name}.csv"))
        moved.to_csv(paths[-1], index=False)
    return tables[0], *paths


def test_average_precision_is_that_of_the_engine_of_detections(near, tmp_path, capsys):
    from permafrost.evaluators.crowns.coco import evaluate_precision

    command(near[:2], "--output", tmp_path / "s.json")
    written = json.loads((tmp_path / "s.json").read_text())["scores"]
    found = {row["metric"]: row for row in written if row["class"] is None}
    expected = evaluate_precision(evaluate(*near[:2])).stats.tolist()
    assert [found[name]["value"] for name in ("AP", "AP50", "AP75")] == expected
    assert found["AP"]["lower"] < found["AP"]["value"] < found["AP"]["upper"]
    assert found["recall"]["average"] == "image" and found["AP"]["average"] == "dataset"
    printed = capsys.readouterr().out
    assert f"{expected[0]:.4f}" in printed and "COCO's average precision" in printed
    assert "classes: all images pooled" in printed
    pd.read_csv(near[1]).drop(columns="score").to_csv(near[1], index=False)
    command(near[:2])
    assert "No average precision" in capsys.readouterr().out


def test_two_tables_are_compared(near, tmp_path, capsys):
    out = tmp_path / "out"
    command(near[:2], "--against", near[2], "--output", out / "s.json", "--tables", out)
    printed = capsys.readouterr().out
    assert f"Difference to {near[2]} on the same images" in printed and "p < " in printed
    written = json.loads((out / "s.json").read_text())
    found = {row["metric"]: row for row in written["comparison"] if row["class"] is None}
    one, two = (evaluate(near[0], path).values for path in near[1:])
    row = found["recall"]
    assert (row["value"], row["against"]) == (one["recall", None], two["recall", None])
    assert found["AP"]["difference"] > 0 and found["AP"]["lower"] > 0
    assert written["options"]["against"]["sha256"]
    table = read_table(out / "comparison.parquet")[0]
    assert table.to_pylist()[0] == written["comparison"][0]
    assert {"p_value", "resamples", "against", "average"} <= set(table.column_names)


def test_polygons_stand_as_wkt_in_tables_as_csv(tmp_path):
    shape = shapely.Polygon([(0.1, 0), (9, 1 / 3), (5, 9)])
    rows = [{"image_path": name, "label": "T", "geometry": shape.wkt} for name in "ab"]
    paths = tmp_path / "t.csv", tmp_path / "p.csv"
    pd.DataFrame(rows).to_csv(paths[0], index=False)
    pd.DataFrame(rows[:1]).assign(score=0.5).to_csv(paths[1], index=False)
    command(paths, "--tables", tmp_path / "out", "--table-format", "csv")
    matches = pd.read_csv(tmp_path / "out/matches.csv", keep_default_na=False)
    assert shapely.from_wkt(matches["true_geometry"][0]).equals(shapely.from_wkt(shape.wkt))
    assert matches["predicted_geometry"].tolist()[1] == ""


def test_a_comparison_with_predictions_on_other_images(near, tmp_path, capsys):
    far = pd.read_csv(near[2])
    more = pd.DataFrame([box("i77", (0, 0, 9, 9), "a", score=0.9)])
    pd.concat([far, more]).to_csv(near[2], index=False)
    command(near[:2], "--against", near[2], "--unlisted", "empty")
    printed = capsys.readouterr().out
    assert "each of 7 images" in printed
    # of the other table only, so it is named
    assert f"{near[2]}: 1 images hold no crown but have predictions" in printed
    with pytest.raises(PermafrostError, match="not in the truth"):
        command(near[:2], "--against", near[2])


def test_wrong_rows_are_left_out_on_request(near, tmp_path, capsys):
    rows = pd.read_csv(near[1])
    rows.loc[0, "xmax"] = rows.loc[0, "xmin"]
    rows.loc[3, "xmax"] = rows.loc[3, "xmin"] - 4
    rows.to_csv(near[1], index=False)
    with pytest.raises(PermafrostError, match="wrong order"):
        command(near[:2])
    command(near[:2], "--invalid", "drop", "--output", tmp_path / "s.json")
    assert "2 rows were left out" in capsys.readouterr().out
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["dropped"] == {"truth": 0, "predictions": 2}


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
    other = tables[1].with_name("other.csv")
    per_window.iloc[:-3].to_csv(other, index=False)
    command(tables, "--unlisted", "empty", *shared, "--stitch", "--against", other)
    printed = capsys.readouterr().out
    assert printed.count("predictions in windows are") == 2 and "Difference to" in printed


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
        " permafrost.evaluators.crowns, permafrost.evaluators.raster, sys;"
        "print(*({'torch', 'rasterio', 'pandas', 'torchmetrics',"
        " 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


HEADER = "image_path,xmin,ymin,xmax,ymax,label,score\n"


@pytest.fixture
def written(tmp_path):
    """One crown, found; tables of one more prediction, of none, and a truth that names an empty image."""
    found = f"{HEADER}a.png,10,10,40,40,Tree,0.9\n"
    content = {
        "truth": found,
        "found": found,
        "more": f"{found}a.png,60,60,80,80,Tree,0.8\n",
        "none": HEADER,
        "empty": f"{HEADER}a.png,0,0,0,0,Tree,0\n",
    }
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in content}


def figures(written, truth: str, predictions: str, *options) -> dict:
    output = written["none"].with_name("s.json")
    command((written[truth], written[predictions]), *options, "--output", output)
    return json.loads(output.read_text())


@pytest.mark.parametrize("like", [[], ["--like", "deepforest"]])
def test_a_table_of_no_predictions_is_scored(written, capsys, like):
    scores = figures(written, "truth", "none", *like, "--tables", written["none"].with_name("t"))
    values = {row["metric"]: row["value"] for row in scores["scores"] if row["class"] is None}
    assert values["recall"] == values["AP"] == 0
    assert values["precision"] == (None if like else 0)
    assert "1 images have no predictions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("predictions", "against", "recall"),
    [("found", "none", 1.0), ("none", "found", -1.0), ("none", "none", 0.0)],
)
def test_a_table_of_no_predictions_is_compared(written, predictions, against, recall):
    found = figures(written, "truth", predictions, "--against", written[against])["comparison"]
    differences = {row["metric"]: row["difference"] for row in found if row["class"] is None}
    assert differences["recall"] == recall == pytest.approx(differences["AP"])


def test_without_any_true_crown_precision_is_0_by_deepforests_rules(written, capsys):
    scores = figures(written, "empty", "more", "--like", "deepforest")["scores"]
    values = {row["metric"]: row["value"] for row in scores if row["class"] is None}
    assert (values["precision"], values["recall"]) == (0, None)
    assert "precision is 0, as DeepForest's" in capsys.readouterr().out
    # images without crowns beside others are left out all the same
    alone = evaluate(written["empty"], written["more"], without_truth="skip")
    assert np.isnan(alone.values["precision", None])
