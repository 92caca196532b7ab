"""Score rows, comparisons and gates of detected objects, and the tables that they are read from."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers.predictions.objects import (
    all_crowd,
    metadata,
    prediction_table,
    predictions,
    repeated,
    without,
    write_predictions,
)
from helpers.schemas import check, schema
from helpers.stages.specifications import specification
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.metrics.tasks import class_metrics, metric_of, overall_metrics
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.resampling.intervals import basic_interval
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores import gates
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import score_predictions

BOXES, POINTS = "detection", "point_detection"
TASKS = pytest.mark.parametrize("task", [BOXES, POINTS])
PRIMARY = {BOXES: "AP", POINTS: "point_ap"}


@TASKS
@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_curves_have_basic_intervals_and_the_others_the_method_that_is_asked_for(task, method):
    rows = bootstrap_scores(predictions(task, images=40), seed=0, method=method)
    overall = [(name, None) for name in overall_metrics(task, 3)]
    of_class = [(name, f"class {k}") for name in class_metrics(task) for k in range(3)]
    assert [(row["metric"], row["class"]) for row in rows] == [*overall, *of_class]
    assert [row["metric"] for row in rows if row["primary"]] == [PRIMARY[task]]
    errors = ["count_mae", "count_rmse", "class_count_mae", "class_count_rmse"]
    worse = {row["metric"] for row in rows if row["higher_is_better"] is False}
    assert worse == set(errors)
    for row in rows:
        known = metric_of(row["metric"])
        assert row["method"] == ("basic" if known.of_curves else method)
        assert known.lowest <= row["lower"] < row["upper"] <= known.highest
        assert row["lower"] <= row["value"] <= row["upper"] or row["method"] == "basic"
    assert {row["n_units"] for row in rows} == {40}


@TASKS
def test_a_basic_interval_is_the_percentile_interval_turned_over(task):
    found = predictions(task, images=40)
    row = bootstrap_scores(found, seed=5, method="percentile")[0]
    drawn = found.family(units_of(found)).replicates(draw_resamples(40, 200, 5))[PRIMARY[task]]
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert row["lower"] == pytest.approx(2 * row["value"] - high)
    assert row["upper"] == pytest.approx(2 * row["value"] - low)
    # the envelope makes replicates too high
    assert drawn.mean() > row["value"]


def units_of(found):
    return find_units(len(found), sample_ids=found.sample_ids).index


def without_image(found, image: int):
    """The test set that lacks one image."""
    return repeated(found, np.arange(len(found)) != image)


@TASKS
def test_the_interval_of_a_curve_takes_away_twice_what_resamples_add(task):
    found = predictions(task, images=40)
    metric = PRIMARY[task]
    (row,) = (row for row in bootstrap_scores(found, resamples=300, seed=5) if row["primary"])
    drawn = found.family(units_of(found)).replicates(draw_resamples(40, 300, 5))[metric]
    bias = drawn.mean() - row["value"]
    left = [without_image(found, image).evaluate()[metric] for image in range(40)]
    error = math.hypot(np.sqrt(39 * np.var(left)), bias)
    assert row["method"] == "jackknife_t" and bias > 0.001
    assert 0 < row["lower"] < row["upper"] < 1
    assert (row["lower"] + row["upper"]) / 2 == pytest.approx(row["value"] - 2 * bias)
    # Student's t with no more than 39 degrees of freedom
    assert 2.0226 <= (row["upper"] - row["lower"]) / 2 / error < 2.5


def test_a_basic_interval_stays_within_what_is_possible():
    assert basic_interval(0.9, np.array([0.5, 0.6, 0.9]), 1 - 1e-9)[1] == 1
    assert basic_interval(0.1, np.array([0.1, 0.5]), 1 - 1e-9)[0] == 0
    assert np.isnan(basic_interval(math.nan, np.array([0.1, 0.5]), 0.9)).all()


@TASKS
@pytest.mark.parametrize("make", [lambda p: without(p, truth=True), all_crowd])
def test_a_test_set_without_truth_has_undefined_scores(task, make):
    rows = {row["metric"]: row for row in bootstrap_scores(make(predictions(task)), seed=0)}
    row = rows[PRIMARY[task]]
    assert np.isnan([row["value"], row["lower"], row["upper"]]).all()
    assert row["n_undefined"] == row["resamples"]


@TASKS
def test_the_order_of_rows_and_of_detections_changes_nothing(task):
    groups = [f"plot {number % 5}" for number in range(12)]
    found = predictions(task, groups=groups)
    table = prediction_table(found)
    turned = table.take(np.random.default_rng(0).permutation(12))
    made = [sorted(one, key=lambda each: each["x_min"]) for one in turned["detections"].to_pylist()]
    column = pa.array(made, table.schema.field("detections").type)
    turned = turned.set_column(turned.column_names.index("detections"), "detections", column)
    rows = [
        bootstrap_scores(predictions_from_table(each, metadata(found)), seed=0)
        for each in (table, turned)
    ]
    assert rows[0] == rows[1] == bootstrap_scores(found, seed=0)
    assert rows[0][0]["unit"] == "group" and rows[0][0]["n_units"] == 5


@TASKS
def test_a_slice_of_a_table_is_read_as_what_it_is(task):
    found = predictions(task)
    part = predictions_from_table(prediction_table(found).slice(3, 5), metadata(found))
    assert part.sample_ids.tolist() == found.sample_ids[3:8].tolist()
    for here, there in zip(part.detections, found.detections[3:8], strict=True):
        assert np.array_equal(here.boxes, there.boxes)
    assert np.array_equal(part.truth, found.truth[3:8])


@TASKS
def test_differences_of_curves_and_of_counts_are_those_of_evaluations_without_each_image(task):
    pair = {"a": predictions(task, images=15), "b": predictions(task, images=15, seed=1)}
    for metric in (PRIMARY[task], "point_f1" if task == POINTS else "box_f1"):
        (row,) = compare(pair, metric=metric, resamples=50, seed=2)
        values = {name: one.evaluate()[metric] for name, one in pair.items()}
        left = np.array(
            [
                np.subtract(
                    *(without_image(one, image).evaluate()[metric] for one in pair.values())
                )
                for image in range(15)
            ]
        )
        error = np.sqrt(14 * left.var())
        assert row["difference"] == pytest.approx(values["a"] - values["b"])
        middle = (row["lower"] + row["upper"]) / 2
        assert middle == pytest.approx(row["difference"], abs=1e-12)
        # Student's t with no more than 14 degrees of freedom
        assert 2.1447 <= (row["upper"] - middle) / error < 3.2
        assert row["metric"] == metric and row["p_mcnemar"] is None
    worse = compare({"a": pair["a"], "b": without(pair["b"], detections=True)}, seed=0)[0]
    assert worse["lower"] > 0 and worse["p_value"] < 0.01


@TASKS
def test_p_values_of_equally_good_backbones_are_not_too_small(task):
    small, trials = 0, 25
    for trial in range(trials):
        pair = {
            name: predictions(task, images=25, classes=1, seed=2 * trial + place)
            for place, name in enumerate("ab")
        }
        small += compare(pair, resamples=100, seed=trial)[0]["p_value"] <= 0.05
    # 5 %, and the standard error of so many trials twice
    assert small / trials <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / trials)


def _scored(found, **changes):
    """The same, scored by other rules."""
    return replace(found, scoring=replace(found.scoring, **changes))


def changed(found, what):
    one = found.objects[2]
    if what == "box":
        boxes = one.boxes.copy()
        boxes[0, 0] -= 1
        one = replace(one, boxes=boxes)
    elif what == "class":
        one = replace(one, classes=(one.classes + 1) % 3)
    elif what == "crowd":
        one = replace(one, crowd=~one.crowd)
    elif what == "area":
        one = replace(one, areas=one.areas + 1)
    elif what == "object":
        one = one.take(np.arange(len(one)) > 0)
    elif what == "size":
        return replace(found, sizes=found.sizes + (np.arange(12) == 2)[:, None])
    elif what == "cap":
        return _scored(found, max_detections=found.scoring.max_detections + 1)
    elif what == "distance":
        return _scored(found, match_distance=7.0)
    return replace(found, objects=[*found.objects[:2], one, *found.objects[3:]])


@TASKS
@pytest.mark.parametrize("what", ["box", "class", "crowd", "area", "object", "size"])
def test_backbones_with_another_truth_are_not_compared(task, what):
    found = predictions(task)
    assert len(found.objects[2]) > 1
    with pytest.raises(PermafrostError, match="different targets .first for the sample image 002"):
        compare({"a": found, "b": changed(found, what)}, seed=0)


@TASKS
@pytest.mark.parametrize("what", ["cap", "distance"])
def test_backbones_with_other_rules_are_not_compared(task, what):
    found = predictions(task)
    with pytest.raises(PermafrostError, match="different rules"):
        compare({"a": found, "b": changed(found, what)}, seed=0)


@TASKS
def test_score_thresholds_may_differ(task):
    found = predictions(task)
    assert compare({"a": found, "b": _scored(found, score_threshold=0.7)}, seed=0)


@TASKS
def test_gates_speak_of_silence_of_one_class_and_of_absent_ones(task):
    found = predictions(task)
    assert gates.score_gates(found, bootstrap_scores(found, seed=0)) == []
    silent = without(found, detections=True)
    rows = bootstrap_scores(silent, seed=0)
    assert gates.score_gates(silent, rows) == ["below_chance", "no_detections"]
    same = [replace(one, classes=one.classes * 0) for one in found.detections]
    same = replace(found, detections=same)
    assert gates.one_class_predictions(same.truth, same.answers, task) == ["one_class_predictions"]
    kept = [one.take(one.classes != 1) for one in found.objects]
    absent = replace(found, objects=kept)
    assert gates.class_missing_in_test(absent.truth, task, 3) == ["class_missing_in_test:1"]
    nothing = without(found, truth=True, detections=True)
    assert gates.no_detections(nothing.truth, nothing.answers, task) == []
    assert gates.chance_level(found.truth, task) == 0


@TASKS
def test_one_class_alone_is_no_reason_to_accuse_one_class_predictions(task):
    found = predictions(task, classes=1)
    assert gates.score_gates(found, bootstrap_scores(found, seed=0)) == []


@TASKS
@pytest.mark.parametrize("make", [lambda p: p, lambda p: without(p, detections=True), all_crowd])
def test_tables_keep_to_their_schemas(tmp_path, task, make):
    options = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
    fingerprints, scores = {}, []
    for number, backbone in enumerate(("one", "two")):
        found = make(predictions(task, seed=number))
        path = tmp_path / "demo-crowns" / backbone / "seed0" / "fcos.parquet"
        write_predictions(path, found, backbone=backbone)
        fingerprints[f"{backbone}/seed0"] = "made"
        table = read_table(path)[0]
        check("predictions_detection", table)
        spec = {
            "stage": "bootstrap",
            "dataset": "demo-crowns",
            "options": options,
            "inputs": {"predictions": "made"},
        }
        line = score_predictions(
            path, tmp_path / "s.parquet", spec=specification(spec), fingerprint="f" * 32
        )
        assert f": {PRIMARY[task]} " in line
        scores.append(read_table(tmp_path / "s.parquet")[0])
    named = schema("scores")["properties"]["metric"]["description"]
    for table in scores:
        rows = table.to_pylist()
        assert {row["task"] for row in rows} == {task}
        assert all(row["metric"] in named for row in rows)
        assert "score_threshold" in rows[0]["settings"]
    leaderboard = build_leaderboard(scores)
    assert leaderboard["metric"][0].as_py() == PRIMARY[task]
    spec = {
        "stage": "compare",
        "dataset": "demo-crowns",
        "probe": "fcos",
        "options": options,
        "inputs": {"predictions": fingerprints},
    }
    compare_predictions(tmp_path, tmp_path / "c.parquet", spec=specification(spec), fingerprint="f")
    assert read_table(tmp_path / "c.parquet")[0]["metric"].to_pylist() == [PRIMARY[task]]
    for name, table in (
        ("scores", scores[0]),
        ("leaderboard", leaderboard),
        ("comparisons", read_table(tmp_path / "c.parquet")[0]),
    ):
        columns = schema(name)["properties"]
        assert table.column_names == list(columns)
        assert set(table["method"].to_pylist() if "method" in columns else []) <= set(
            columns.get("method", {}).get("enum", [])
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0].update(score=math.nan), "image 000 .* scores that are not finite"),
        (lambda rows: rows[0].update(score=None), "scores that are not finite"),
        (
            lambda rows: rows[0].update({"class": 3}),
            "class ids that are not those of its 3 classes",
        ),
        (lambda rows: rows[0].update({"class": None}), "class ids"),
        (lambda rows: rows[0].update(x_max=-500.0), "the wrong way round"),
        (lambda rows: rows[0].update(y_min=math.inf), "corners that are not finite"),
        (lambda rows: rows[0].update(y_min=None), "corners that are not finite"),
    ],
)
def test_detections_that_cannot_be_scored_are_refused(change, message):
    found = predictions(images=3)
    table = prediction_table(found)
    rows = table["detections"].to_pylist()
    change(rows[0])
    place = table.column_names.index("detections")
    column = pa.array(rows, table.schema.field("detections").type)
    with pytest.raises(PermafrostError, match=message):
        predictions_from_table(table.set_column(place, "detections", column), metadata(found))


def test_tables_that_lack_something_are_refused():
    found = predictions(images=3)
    table, said = prediction_table(found), metadata(found)
    with pytest.raises(PermafrostError, match="lacks the columns objects"):
        predictions_from_table(table.drop_columns(["objects"]), said)
    with pytest.raises(PermafrostError, match="has no score threshold"):
        predictions_from_table(table, said | {"settings": {}})
    place = table.column_names.index("detections")
    empty = pa.array([None] * 3, table.schema.field("detections").type)
    with pytest.raises(PermafrostError, match="'detections' .* has empty entries"):
        predictions_from_table(table.set_column(place, "detections", empty), said)
    points = predictions(POINTS, images=3)
    said = metadata(points)
    with pytest.raises(PermafrostError, match="within a distance of None"):
        predictions_from_table(
            prediction_table(points),
            said | {"detection": said["detection"] | {"match_distance": None}},
        )
    with pytest.raises(PermafrostError, match="unknown task 'detections'"):
        predictions_from_table(table, metadata(found) | {"task": "detections"})
