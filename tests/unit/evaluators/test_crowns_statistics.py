"""Intervals and comparisons of tables of crowns, average precision among them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.crowns import box, point, random_crowns
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.crowns import evaluate
from permafrost.evaluators.intervals.crowns import CrownScores, crown_differences, crown_rows
from permafrost.statistics.resampling.units import find_units

DRAWN = {"resamples": 60, "confidence": 0.95, "seed": 0}


def tables(seed: int, kind: str, images: int = 6):
    """Truth and two tables of predictions: one near the truth, one further away."""
    rng = np.random.default_rng(seed)
    truth, _ = random_crowns(rng, kind, images)
    near, far = ([_moved(rng, row, size) for row in truth if rng.random() < 0.9] for size in (1, 6))
    return truth, near, far


def _moved(rng, row: dict, size: float) -> dict:
    if "x" in row:
        x, y = rng.normal((row["x"], row["y"]), size)
        return point(row["image_path"], x, y, row["label"], score=float(rng.random()))
    corners = [row[name] for name in ("xmin", "ymin", "xmax", "ymax")]
    shift = np.tile(rng.normal(0, size, 2), 2)
    return box(row["image_path"], corners + shift, row["label"], score=float(rng.random()))


def copies(rows, names, counts):
    """The rows of images that were drawn several times, on images of their own."""
    return [
        {**row, "image_path": f"{row['image_path']} {copy}"}
        for name, count in zip(names, counts, strict=True)
        for copy in range(count)
        for row in rows
        if row["image_path"] == name
    ]


@pytest.mark.parametrize("kind", ["box", "point"])
def test_replicates_are_the_values_of_resampled_images(kind):
    truth, near, far = tables(1, kind)
    # images of the truth come in no order
    scores = CrownScores(evaluate(truth[::-1], near + far))
    names = scores.evaluation.images
    counts = np.random.default_rng(0).multinomial(len(names), [1 / len(names)] * len(names), 5).T
    found = scores.precision.replicates(counts)
    assert found.keys() == scores.precision.values.keys() and len(found) > 2
    for number, drawn in enumerate(counts.T):
        again = evaluate(
            copies(truth, names, drawn), copies(near + far, names, drawn), unlisted="skip"
        )
        expected = CrownScores(again).precision.values
        for name, value in expected.items():
            assert found[name][number] == pytest.approx(value, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(("kind", "metric"), [("box", "AP"), ("point", "point_ap")])
def test_rows_hold_average_precision_where_there_are_scores(kind, metric):
    truth, near, _ = tables(2, kind)
    scores = CrownScores(evaluate(truth, near))
    units = find_units(len(scores.evaluation.images))
    rows = {(row["metric"], row["class"]): row for row in crown_rows(scores, units, **DRAWN)}
    found = rows[metric, None]
    assert found["lower"] < found["value"] < found["upper"] and found["average"] == "dataset"
    figures = [row[name] for row in rows.values() for name in ("value", "lower", "upper")]
    assert {type(figure) for figure in figures} <= {float, type(None)}
    assert rows["recall", None]["average"] == "image" and (metric, "a") in rows
    # overall figures come first
    assert [label is None for _, label in rows] == sorted(
        (c is None for _, c in rows), reverse=True
    )
    bare = [{k: v for k, v in row.items() if k != "score"} for row in near]
    scores = CrownScores(evaluate(truth, bare))
    assert metric not in {row["metric"] for row in crown_rows(scores, units, **DRAWN)}
    assert "needs a column 'score'" in scores.notes()[0]


def test_more_predictions_than_count_are_named():
    truth = [box("a", (0, 0, 9, 9))]
    rows = [box("a", (i, 0, i + 9, 9), score=i / 10) for i in range(10)]
    assert len(CrownScores(evaluate(truth, rows)).notes()) == 1
    capped = CrownScores(evaluate(truth, rows), max_detections=5)
    assert "Warning: 1 images have more than 5 predictions of a class" in capped.notes()[1]
    assert capped.precision.values["AP", None] == 0


@pytest.mark.parametrize(("kind", "metric"), [("box", "AP"), ("point", "point_ap")])
def test_two_tables_are_compared_on_the_same_resamples(kind, metric):
    truth, near, far = tables(3, kind, images=12)
    one, two = CrownScores(evaluate(truth, near)), CrownScores(evaluate(truth, far))
    units = find_units(len(one.evaluation.images), sample_ids=one.evaluation.images)
    rows = crown_differences(one, two, units, **DRAWN)
    found = {(row["metric"], row["class"]): row for row in rows}
    for name in ((metric, None), ("recall", None), ("recall", "a")):
        row = found[name]
        assert row["difference"] == row["value"] - row["against"]
        assert row["lower"] <= row["difference"] <= row["upper"]
    assert found[metric, None]["difference"] > 0 and found[metric, None]["p_value"] < 0.05
    turned = crown_differences(two, one, units, **DRAWN)
    for row, back in zip(rows, turned, strict=True):
        assert row["p_value"] == back["p_value"]
        if row["difference"] is not None:
            assert row["difference"] == -back["difference"]
            assert row["lower"] == pytest.approx(-back["upper"], abs=1e-12)
    for row in crown_differences(one, one, units, **DRAWN):
        assert row["difference"] in (0, None) and row["p_value"] in (1, None)


def test_other_truths_or_rules_are_not_compared():
    truth, near, _ = tables(4, "box")
    one = CrownScores(evaluate(truth, near))
    units = find_units(len(one.evaluation.images))
    for other in (
        evaluate(truth, near, average="dataset"),
        evaluate(truth[1:], near, unlisted="empty"),
        evaluate(truth, near, iou_threshold=0.5),
    ):
        with pytest.raises(PermafrostError, match="have different"):
            crown_differences(one, CrownScores(other), units, **DRAWN)


@pytest.mark.parametrize("kind", ["box", "point"])
def test_tables_without_any_crown_have_undefined_figures(kind):
    make = box if kind == "box" else point
    empty = [make("a", *([(0, 0, 0, 0)] if kind == "box" else (0, 0)))]
    nothing = {name: [] for name in ("score", *empty[0])}
    scores = CrownScores(evaluate(empty, nothing))
    units = find_units(1)
    rows = crown_rows(scores, units, **DRAWN)
    # no crown where there is none: counted without an error
    counts = [row.pop("value") for row in rows if row["metric"].startswith("count_")]
    assert counts == [0.0, 0.0, 0.0, None]
    assert {row["value"] for row in rows if "value" in row} <= {None, 1.0}
    assert all(
        row["difference"] in (None, 0) for row in crown_differences(scores, scores, units, **DRAWN)
    )
    drawn = scores.precision.replicates(np.ones((1, 4), int))
    assert all(np.isnan(values).all() and values.shape == (4,) for values in drawn.values())
