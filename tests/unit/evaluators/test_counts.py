"""Counts of objects per image, densities, and true points in predicted boxes: the commands against brute force."""

from __future__ import annotations

import argparse
import itertools
import json

import numpy as np
import pandas as pd
import pytest
import shapely
from helpers.predictions.crowns import box, point, polygon, random_crowns
from helpers.predictions.detections import coco_case
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.data.deepforest.reading import read_annotations
from permafrost.evaluators.crowns.contained import evaluate_contained
from permafrost.evaluators.detection import evaluate as evaluate_detection
from permafrost.evaluators.intervals.counts import CountScores, best_score, detection_counts
from permafrost.stages import evaluate_boxes, evaluate_detections
from PIL import Image
from sklearn.metrics import mean_absolute_error, r2_score


def run(stage, tmp_path, *options) -> dict:
    """The written scores by metric and class, and the whole content under ``None``."""
    parser = argparse.ArgumentParser()
    stage.add_arguments(parser)
    given = [*options, "--resamples", 40, "--output", tmp_path / "s.json"]
    stage.run(parser.parse_args([str(option) for option in given]))
    content = json.loads((tmp_path / "s.json").read_text())
    return {None: content} | {(row["metric"], row["class"]): row for row in content["scores"]}


def saved(tmp_path, **tables) -> list:
    options = []
    for name, rows in tables.items():
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    return options


@pytest.mark.parametrize("kind", ["box", "polygon", "point"])
def test_counts_and_densities_of_tables(tmp_path, kind):
    truth, found = random_crowns(np.random.default_rng(4), kind, 9)
    # every image is named in the truth
    names = sorted({row["image_path"] for row in truth} | {row["image_path"] for row in found})
    for number, name in enumerate(names):
        Image.new("L", (100 + number, 50)).save(tmp_path / name, format="png")
    given = saved(tmp_path, truth=truth, predictions=found)
    options = ["--min-score", 0.3, "--unlisted", "empty", "--images", tmp_path, "--pixel-size", 2]
    rows = run(evaluate_boxes, tmp_path, *given, *options)
    for label in (None, "a", "b"):
        true, made = (
            np.array(
                [
                    sum(
                        row["image_path"] == name
                        and label in (None, row["label"])
                        and row.get("score", 1) >= 0.3
                        and not np.isnan(row.get("xmin", 0))
                        for row in each
                    )
                    for name in names
                ]
            )
            for each in (truth, found)
        )
        assert rows["count_mae", label]["value"] == pytest.approx(mean_absolute_error(true, made))
        assert rows["count_bias", label]["value"] == pytest.approx(np.mean(made - true))
        assert rows["count_r2", label]["value"] == pytest.approx(r2_score(true, made))
        hectares = sum((100 + number) * 50 for number in range(len(names))) * 4 / 10_000
        assert rows["true_density", label]["value"] == pytest.approx(true.sum() / hectares)
        assert rows["density_bias", label]["value"] == pytest.approx((made - true).sum() / hectares)
        for metric in ("count_mae", "count_bias", "count_r2", "found_density"):
            row = rows[metric, label]
            assert row["lower"] < row["value"] < row["upper"] and row["average"] == "dataset"
    assert rows["count_r2", None]["upper"] <= 1


@pytest.mark.parametrize(
    ("truths", "found", "expected"),
    [
        ([[0, 0, 0]], [[0, 0, 0]], (0, 0, 0, None)),
        ([[2, 2, 2]], [[1, 2, 3]], (2 / 3, 2 / 3, 0, None)),
        ([[5]], [[3]], (2, 4, -2, None)),
        ([[1, 2, 3]], [[1, 2, 3]], (0, 0, 0, 1)),
        (np.zeros((1, 0), int), np.zeros((1, 0), int), (None,) * 4),
    ],
)
def test_hand_cases(truths, found, expected):
    scores = CountScores(truths, found, ["Tree"], hectares=np.ones(np.shape(truths)[1]))
    values = [scores.values[f"count_{name}", None] for name in ("mae", "rmse", "bias", "r2")]
    values[1] **= 2
    for value, wanted in zip(values, expected, strict=True):
        assert np.isnan(value) if wanted is None else value == pytest.approx(wanted)
    # an image that does not count changes nothing
    more = [np.concatenate([one, [[9]]], axis=1) for one in (np.array(truths), np.array(found))]
    counted = np.arange(more[0].shape[1]) < np.shape(truths)[1]
    same = CountScores(*more, ["Tree"], counted=counted, hectares=np.ones(len(counted)))
    assert same.values == pytest.approx(scores.values, nan_ok=True)


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_counts_of_coco_files(tmp_path, iou_type):
    truth, found = coco_case(3, detections=40, geometry=iou_type)
    options = []
    for name, content in (("truth", truth), ("predictions", found)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        options += [f"--{name}", tmp_path / f"{name}.json"]
    evaluation = evaluate_detection(truth, found, iou_type=iou_type)
    # brute force: all thresholds, detections that match a crowd left out
    matching, cells = evaluation.matching, evaluation.cells
    ignored = matching.ignored(0, 0)
    hit = np.zeros(len(ignored), bool)
    hit[matching.candidates] = matching.hits()[:, 0, 0]
    scores = evaluation.detections.scores[cells.detections]
    truths = np.count_nonzero(~matching.truth_ignored[:, 0])
    best = max(
        (
            2
            * np.sum(hit & ~ignored & (scores >= s))
            / (truths + np.sum(~ignored & (scores >= s))),
            s,
        )
        for s in scores
    )
    assert best_score(evaluation) == best[1]
    rows = run(
        evaluate_detections,
        tmp_path,
        *options,
        "--iou-type",
        iou_type,
        "--counts",
        "best",
        "--pixel-size",
        1,
    )
    assert rows[None]["counts"] == {"score": best[1], "best": True}
    image = evaluation.detections.image[cells.detections]
    size = len(truth["images"])
    made = np.bincount(image[~ignored & (scores >= best[1])], minlength=size)
    regular = evaluation.truths.image[cells.truths][~matching.truth_ignored[:, 0]]
    true = np.bincount(regular, minlength=size)
    assert rows["count_mae", None]["value"] == pytest.approx(mean_absolute_error(true, made))
    assert rows["count_r2", None]["value"] == pytest.approx(r2_score(true, made))
    area = sum(one["width"] * one["height"] for one in truth["images"]) / 10_000
    assert rows["found_density", None]["value"] == pytest.approx(made.sum() / area)
    several = run(
        evaluate_detections,
        tmp_path,
        *options,
        "--iou-type",
        iou_type,
        "--counts",
        0.5,
        "--against",
        tmp_path / "predictions.json",
    )
    compared = {
        row["metric"]: row["difference"]
        for row in several[None]["comparison"]
        if row["class"] is None
    }
    assert compared["count_mae"] == 0 and "found_density" not in compared
    without = run(evaluate_detections, tmp_path, *options, "--iou-type", iou_type)
    assert ("count_mae", None) not in without


def test_counts_that_cannot_be_are_refused(tmp_path):
    truth, found = coco_case(3, detections=4)
    for one in truth["images"]:
        del one["width"], one["height"]
    evaluation = evaluate_detection(truth, found, iou_type="bbox")
    with pytest.raises(PermafrostError, match="densities need the width and height"):
        detection_counts(evaluation, ["a"] * 2, 0.5, pixel=1.0)
    (tmp_path / "t.json").write_text(json.dumps(truth))
    given = [
        "--truth",
        tmp_path / "t.json",
        "--predictions",
        tmp_path / "t.json",
        "--iou-type",
        "bbox",
    ]
    for options, message in (
        (["--counts", "good"], "neither a score nor best"),
        (["--counts", "nan"], "neither a score nor best"),
        (["--counts", "best", "--protocol", "voc07"], "--counts .* with --protocol coco"),
        (["--pixel-size", 2], "used with --counts"),
        (["--counts", 0.5, "--pixel-size", 0], "not above 0"),
    ):
        with pytest.raises(PermafrostError, match=message):
            run(evaluate_detections, tmp_path, *given, *options)
    tables = saved(
        tmp_path, truth=[box("i", (0, 0, 9, 9))], predictions=[box("i", (0, 0, 9, 9), score=1)]
    )
    with pytest.raises(PermafrostError, match="densities need --images"):
        run(evaluate_boxes, tmp_path, *tables, "--pixel-size", 2)


# --- points in boxes -------------------------------------------------------------------------------------------------


def crowded(kind: str):
    rng = np.random.default_rng(7)
    truth, found = [], []
    for name in ("i0", "i1", "i2", "i3"):
        for x, y in rng.integers(0, 60, (rng.integers(1, 7), 2)).tolist():
            truth.append(point(name, x, y, label=rng.choice(["a", "b"])))
        for left, top in rng.integers(0, 50, (0 if name == "i2" else 6, 2)).tolist():
            corners = left, top, left + int(rng.integers(5, 30)), top + int(rng.integers(5, 30))
            label, score = rng.choice(["a", "b"]), float(rng.random())
            if kind == "box":
                found.append(box(name, corners, label=label, score=score))
            else:
                found.append(polygon(name, shapely.box(*corners).wkt, label=label, score=score))
    return (
        truth,
        found,
        lambda row: (
            row
            if kind == "box"
            else dict(
                zip(
                    ("xmin", "ymin", "xmax", "ymax"),
                    shapely.from_wkt(row["geometry"]).bounds,
                    strict=True,
                )
            )
        ),
    )


def largest_assignment(links: np.ndarray) -> int:
    """By all orders of the points."""
    best = 0
    for order in itertools.permutations(range(len(links))):
        free, count = set(range(links.shape[1])), 0
        for row in order:
            # the first free column, of every order of points
            column = next(
                (c for c in sorted(free, key=lambda c: links[:, c].sum()) if links[row, c]), None
            )
            if column is not None:
                free.discard(column)
                count += 1
        best = max(best, count)
    return best


@pytest.mark.parametrize("kind", ["box", "polygon"])
@pytest.mark.parametrize("average", ["image", "dataset"])
def test_points_in_predictions_are_those_of_brute_force(tmp_path, kind, average):
    truth, found, corners = crowded(kind)
    rows = run(
        evaluate_boxes,
        tmp_path,
        *saved(tmp_path, truth=truth, predictions=found),
        "--average",
        average,
        "--tables",
        tmp_path / "tables",
    )
    for label in (None, "a", "b"):
        counts = []
        for name in ("i0", "i1", "i2", "i3"):
            own = [
                row for row in truth if row["image_path"] == name and label in (None, row["label"])
            ]
            made = [
                row for row in found if row["image_path"] == name and label in (None, row["label"])
            ]
            links = np.zeros((len(own), len(made)), bool)
            for (i, p), (j, r) in itertools.product(enumerate(own), enumerate(made)):
                c = corners(r)
                links[i, j] = c["xmin"] < p["x"] < c["xmax"] and c["ymin"] < p["y"] < c["ymax"]
            counts.append((links.any(axis=1).sum(), largest_assignment(links), len(own), len(made)))
        inside, matched, points, shapes = np.array(counts, float).T
        if average == "image" and label is None:
            recall, one = np.mean(inside / points), np.mean(matched / points)
            precision = np.mean((matched / np.maximum(shapes, 1))[shapes > 0])
        else:
            recall, one, precision = (
                inside.sum() / points.sum(),
                matched.sum() / points.sum(),
                matched.sum() / shapes.sum(),
            )
        assert rows["point_recall", label]["value"] == pytest.approx(recall)
        assert rows["matched_point_recall", label]["value"] == pytest.approx(one) and one <= recall
        assert rows["matched_point_precision", label]["value"] == pytest.approx(precision)
    assert rows["count_mae", None]["value"] > 0
    table = read_table(tmp_path / "tables" / "points.parquet")[0].to_pandas()
    pairs = table.dropna(subset="prediction_row")
    assert len(table) == len(truth) and not pairs["prediction_row"].duplicated().any()
    assert (pairs["predictions"] > 0).all()


def test_one_box_over_all_finds_all_points_and_one():
    truth = read_annotations([point("i", 5, 5), point("i", 6, 6), point("i", 0, 3)], "truth")
    found = read_annotations([box("i", (0, 0, 9, 9)), box("i", (1, 1, 8, 8))], "predictions")
    values = evaluate_contained(truth, found).values
    # the third point lies on an edge
    assert values["point_recall", None] == pytest.approx(2 / 3)
    assert values["matched_point_recall", None] == pytest.approx(2 / 3)
    alone = evaluate_contained(truth, found.take([0])).values
    assert alone["point_recall", None] == pytest.approx(2 / 3)
    assert (
        alone["matched_point_recall", None] == pytest.approx(1 / 3)
        and alone["matched_point_precision", None] == 1
    )
    nothing = evaluate_contained(truth, found.take([])).values
    assert nothing["point_recall", None] == 0 and np.isnan(nothing["matched_point_precision", None])


def test_points_in_boxes_are_compared_and_options_without_effect_refused(tmp_path):
    truth, found, _ = crowded("box")
    given = saved(tmp_path, truth=truth, predictions=found, against=found[::2])
    rows = run(evaluate_boxes, tmp_path, *given)
    compared = {(row["metric"], row["class"]): row for row in rows[None]["comparison"]}
    assert compared["point_recall", None]["difference"] >= 0 and ("count_mae", None) in compared
    with pytest.raises(PermafrostError, match="used with truth and predictions of one kind"):
        run(evaluate_boxes, tmp_path, *given, "--matching", "iou")
    with pytest.raises(PermafrostError, match="gives the recall of true points"):
        run(evaluate_boxes, tmp_path, *saved(tmp_path, truth=found, predictions=truth))
