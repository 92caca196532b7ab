"""Figures of detections: what is drawn is what was found, missed and invented, at its place."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.results.charts import column, names_of, rows_of, texts_of, views_of
from helpers.results.objects import (
    HEIGHT,
    WIDTH,
    make_object_card,
    make_object_predictions,
    make_object_store,
    pixels_of,
    truth_of,
)
from helpers.results.tables import card_of
from matplotlib.text import Text
from permafrost.core.stores import Store
from permafrost.metrics.detection.analysis import calibrate, error_kinds
from permafrost.report.figures import detections, errors, object_sizes, objects, per_class, training
from permafrost.report.figures.detections import Answer, Example
from permafrost.report.figures.objects import pixel_edges
from permafrost.report.figures.sheet import DPI, cell_of
from permafrost.report.figures.style import save_figure
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Material
from permafrost.report.material.objects import read_detected, read_truth
from permafrost.statistics.leaderboard.rows import metric_name, of_metrics
from permafrost.statistics.predictions.charts import detection_charts, precision_recall
from PIL import Image

NONE = np.empty((0, 4))


def answer(**given) -> Answer:
    names = ("found", "missed", "uncounted", "hits", "confused", "alarms", "excused")
    return Answer(**{name: np.array(given.get(name, NONE), np.float64) for name in names})


def near(picture: np.ndarray, colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return np.abs(picture.astype(int) - rgb).max(axis=-1) < 25


def rendered(figure, path) -> np.ndarray:
    save_figure(figure, path)
    return np.asarray(Image.open(path.with_suffix(".png")).convert("RGB"))


# --- pictures -----------------------------------------------------------------------------------


def test_each_outcome_is_drawn_in_its_colour_in_its_panel(tmp_path):
    example = Example("chip", np.full((50, 100, 3), 0.2), (100, 50))
    shown = answer(
        found=[(10, 5, 40, 25)],
        missed=[(60, 5, 90, 25)],
        hits=[(11, 5, 40, 25)],
        alarms=[(60, 28, 90, 45)],
    )
    figure = detections.draw_pictures(
        [("drawn at random", [(example, shown)])], "box", title="trees", note="grey"
    )
    whole = rendered(figure, tmp_path / "x")
    # pictures are half as high as wide: what follows lies above the legend
    picture = whole[: int(0.72 * len(whole))]
    quarter = picture.shape[1] // 4
    truth, found = picture[:, :quarter], picture[:, quarter : 2 * quarter]
    assert near(truth, objects.MISSED).sum() > 100 and near(found, objects.MISSED).sum() == 0
    assert near(found, objects.HIT).sum() > 100 and near(truth, objects.HIT).sum() == 0
    columns = np.flatnonzero(near(found, objects.ALARM).any(axis=0))
    assert columns.min() > 0.5 * quarter and near(truth, objects.ALARM).sum() == 0
    rows = np.flatnonzero(near(found, objects.ALARM).any(axis=1))
    hits = np.flatnonzero(near(found, objects.HIT).any(axis=1))
    assert rows.min() > hits.max()
    assert any(
        "chip: 1 of 2 found, 1 false alarm" in text.get_text() for text in figure.findobj(Text)
    )


def test_what_lies_outside_of_the_image_is_cut_off(tmp_path):
    example = Example("chip", np.full((50, 100, 3), 0.2), (100, 50))
    shown = answer(alarms=[(-900, -900, 9000, 9000)])
    figure = detections.draw_pictures([("drawn", [(example, shown)])], "box", title="t", note="n")
    whole = rendered(figure, tmp_path / "x")
    assert near(whole[: int(0.72 * len(whole))], objects.ALARM).sum() == 0


def test_a_comparison_shows_objects_first_and_missed_ones_with_each_backbone(tmp_path):
    example = Example("chip", np.full((50, 50, 3), 0.2), (50, 50))
    good, bad = (
        answer(found=[(5, 5, 30, 30)], hits=[(5, 5, 30, 30)]),
        answer(missed=[(5, 5, 30, 30)]),
    )
    figure = detections.draw_comparison(
        [(example, good)],
        [("good", [good]), ("bad", [bad]), ("none", [None])],
        "box",
        title="trees",
        note="grey",
    )
    whole = rendered(figure, tmp_path / "x")
    picture = whole[: int(0.72 * len(whole))]
    left, width = 0.05 / figure.get_figwidth(), picture.shape[1]
    cell = (cell_of(detections.COMPARED) + 0.06) / figure.get_figwidth() * width
    panels = [picture[:, int((left * width) + i * cell) :][:, : int(cell)] for i in range(4)]
    assert near(panels[0], objects.MISSED).sum() == 0
    assert near(panels[1], objects.HIT).sum() > 100 and near(panels[2], objects.HIT).sum() == 0
    assert near(panels[2], objects.MISSED).sum() > 100
    below = [text.get_text() for text in figure.findobj(Text)]
    assert below.count(good.words) == below.count(bad.words) == 1
    with pytest.raises(ValueError, match="5 columns do not fit"):
        detections.draw_comparison([(example, good)], [("x", [good])] * 5, "box", title="", note="")


def test_points_are_circles_and_detections_of_them_crosses(tmp_path):
    example = Example("chip", np.zeros((9, 9)), (9, 9))
    shown = answer(missed=[(2, 3)], alarms=[(5, 5)])
    figure = detections.draw_pictures([("drawn", [(example, shown)])], "point", title="", note="")
    whole = rendered(figure, tmp_path / "x")
    cell = round(cell_of(detections.ACROSS) * DPI)
    top = int(np.flatnonzero((whole == 0).all(axis=-1).any(axis=1))[0])
    for colour, place, middle in ((objects.MISSED, (2, 3), False), (objects.ALARM, (5, 5), True)):
        rows, columns = np.nonzero(near(whole[top : top + cell], colour))
        x, y = (side / 9 * cell for side in place)
        left = columns.min() + columns.max() - 2 * x  # twice the left edge of the panel
        assert (
            abs((rows.min() + rows.max()) / 2 - y) < 3
            and abs(left / 2 - 8 - (cell + 10) * middle) < 6
        )
        # a cross has its colour in the middle, a circle has not
        centre = near(
            whole[top:][round(y) - 1 : round(y) + 2, round(x + left / 2) - 1 :][:, :3], colour
        )
        assert centre.any() == middle


def test_an_image_is_put_together_from_its_windows(tmp_path):
    card = make_object_card(images=3, window=80)
    store = Store(make_object_store(tmp_path / "test.zarr", card))
    assert store.samples(columns=["image_id"]).num_rows == 3 * 4
    found = pictures.read_wholes(store, ["trees-002", "trees-000"], [2, 1, 0], 1000)
    assert list(found) == ["trees-002", "trees-000"]
    pixels = [pixels_of(card, index)[[2, 1, 0]] for index in (2, 0)]
    limits = pictures.stretch_limits(pixels)
    for (picture, size), expected in zip(found.values(), pixels, strict=True):
        assert size == (WIDTH, HEIGHT)
        np.testing.assert_array_equal(picture, pictures.to_picture(expected, limits))


@pytest.mark.parametrize("longest", [149, 60, 31])
def test_a_large_image_is_thinned_out_as_if_it_were_whole(tmp_path, longest):
    card = make_object_card(images=2, window=80)
    store = Store(make_object_store(tmp_path / "test.zarr", card))
    found, size = pictures.read_wholes(store, ["trees-001"], [0], longest)["trees-001"]
    step = math.ceil(WIDTH / longest)
    expected = pixels_of(card, 1)[[0], ::step, ::step]
    np.testing.assert_array_equal(
        found, pictures.to_picture(expected, pictures.stretch_limits([expected]))
    )
    assert size == (WIDTH, HEIGHT) and max(found.shape) <= longest


# --- what became of objects and detections ------------------------------------------------------


def test_the_answers_add_up_to_the_scores(tmp_path):
    card = make_object_card()
    made = make_object_predictions(tmp_path / "p.parquet", card, backbone="net", quality=0.6)
    read = read_detected(made["path"])
    answers = [read.answer(name) for name in read.detected.sample_ids.tolist()]
    hits, truths, shown = read.detected.scores.counts[:3]
    for one, hit, truth, count in zip(answers, hits, truths, shown, strict=True):
        assert len(one.hits) + len(one.confused) == len(one.found) == hit
        assert len(one.found) + len(one.missed) == truth
        assert len(one.found) + len(one.alarms) == count
    assert sum(len(one.confused) for one in answers) > 0
    assert sum(len(one.uncounted) for one in answers) == len(answers) - 1
    np.testing.assert_array_equal(read.f1(), [one.f1 for one in answers])
    assert math.isnan(answer().f1) and answers[1].f1 == 2 * hits[1] / (truths[1] + shown[1])


def test_shown_images_are_those_of_the_table_in_its_order(tmp_path):
    made = make_object_predictions(tmp_path / "p.parquet", make_object_card(), backbone="net")
    shown = read_detected(made["path"]).shown
    assert shown == {
        "drawn": ["trees-002", "trees-001"],
        "best": ["trees-006"],
        "worst": ["trees-007"],
    }


@pytest.mark.parametrize("geometry", ["box", "point"])
def test_the_mean_of_the_curve_is_the_score(tmp_path, geometry):
    card = make_object_card(geometry=geometry, classes=("a", "b", "never there"))
    card["classes"] = ["a", "b", "never there"]
    made = make_object_predictions(tmp_path / "p.parquet", card, backbone="net", quality=0.5)
    found = read_detected(made["path"]).detected
    recall, precision = precision_recall(found)
    values = found.evaluate()
    score = values["AP50"] if geometry == "box" else values["point_ap"]
    assert recall[[0, -1]].tolist() == [0, 1] and (np.diff(precision) <= 1e-12).all()
    assert precision.mean() == pytest.approx(score, abs=1e-12) and 0.2 < score < 0.95


def test_charts_of_boxes_are_the_analyses_as_plain_values(tmp_path):
    card = make_object_card()
    made = make_object_predictions(tmp_path / "p.parquet", card, backbone="net", quality=0.6)
    found = read_detected(made["path"]).detected
    charts = json.loads(json.dumps(detection_charts(found)))
    kinds, bins = error_kinds(found.scores.evaluation), calibrate(found.scores.evaluation)
    assert charts["errors"] == {"gain": kinds.gain, "counts": kinds.counts}
    assert charts["calibration"]["expected"] == bins.expected
    for name in ("counts", "mean_score", "accuracy", "low", "high"):
        assert np.array_equal(
            np.array(charts["calibration"][name], float), getattr(bins, name), equal_nan=True
        )


def test_what_is_undefined_is_none_in_charts(tmp_path):
    card = make_object_card()
    made = make_object_predictions(tmp_path / "p.parquet", card, backbone="net", quality=0.6)
    found = read_detected(made["path"]).detected
    below = [replace(each, scores=each.scores * 0.01) for each in found.detections]
    assert detection_charts(replace(found, detections=below))["calibration"] is None
    points = make_object_predictions(
        tmp_path / "q.parquet", make_object_card(geometry="point"), backbone="net", quality=0.6
    )
    assert set(detection_charts(read_detected(points["path"]).detected)) == {"precision_recall"}


# --- charts -------------------------------------------------------------------------------------


def kinds(**gains: float) -> dict:
    names = ("category", "localisation", "both", "duplicate", "background", "missed")
    return {
        "gain": {name: gains.get(name, 0.0) for name in names},
        "counts": {name: int(1000 * gains.get(name, 0.0)) for name in names},
    }


def test_kinds_of_errors_that_nobody_made_are_left_out():
    found = {"net": kinds(missed=0.1, background=0.02), "weak": kinds(missed=0.3, localisation=0.1)}
    figure = errors.draw_errors(found, title="x")
    shown = ["missed object", "nothing is there", "right class, badly placed"]
    assert names_of(figure, errors.WORDS.values()) == shown
    assert column(figure, "value") == [0.1, 0.02, 0.0, 0.3, 0.0, 0.1]
    assert column(figure, "text") == ["100", "20", "0", "300", "0", "100"]
    nothing = errors.draw_errors({"net": kinds()}, title="x")
    assert names_of(nothing, errors.WORDS.values()) == ["missed object"]


def test_objects_of_a_split_are_counted_once_however_many_windows_show_them(tmp_path):
    card = make_object_card(images=3, window=40)
    store = make_object_store(tmp_path / "test.zarr", card)
    shown = read_truth(
        Material("trees", card_of(card), [], {}, {"test": store, "val": tmp_path / "no"})
    )
    assert list(shown) == ["test"]
    assert shown["test"].per_image.tolist() == [0, 9, 9]  # crowds are left out
    sides = [truth_of(card, i).boxes[:9, 2] - truth_of(card, i).boxes[:9, 0] for i in (1, 2)]
    np.testing.assert_allclose(sorted(shown["test"].sizes), sorted(np.concatenate(sides)))


def test_histograms_of_any_objects_are_drawn():
    few = object_sizes.Objects(np.array([0, 3]), np.array([4.0, 40.0, 200.0]))
    none = object_sizes.Objects(np.array([0, 0, 0]), np.empty(0))
    figure = object_sizes.draw_objects({"train": few, "test": none}, dataset="trees")
    for place, sums in enumerate(((1, 1), (1, 0))):
        for name, total in zip(("train", "test"), sums, strict=True):
            shares = [row["y"] for row in rows_of(figure, place) if row["series"] == name]
            assert sum(shares[:-1]) == total  # the last one ends the last step
    bounds = [layer["encoding"]["x"].get("datum") for layer in views_of(figure)[1]["layer"]]
    assert [side for side in bounds if side] == [32, 96]
    texts = ["train (3 in 2 images)", "test (0 in 3 images)"]
    assert names_of(figure, texts) == texts
    points = object_sizes.draw_objects({"test": none}, dataset="trees", sized=False)
    assert len(views_of(points)) == 1


def test_training_curves_show_the_score_of_the_task():
    log = {"epochs": [{"epoch": 1, "train_loss": 1.0, "val_loss": 1.0, "val_ap": 0.25}], "epoch": 1}
    figure = training.draw_training({"fcos": {"net": log}}, dataset="trees", score="val_ap")
    assert "validation AP" in texts_of(figure)
    assert column(figure, "y", 1) == [0.25]


def test_metrics_are_lines_in_a_fixed_order():
    rows = [
        {
            "backbone": "net",
            "metric": metric,
            "class": metric_name(metric),
            "value": 0.5,
            "lower": 0.4,
            "upper": 0.6,
            "confidence": 0.95,
            "higher_is_better": True,
        }
        for metric in ("box_f1", "AP50", "AP")
    ]
    order = [metric_name(name) for name in of_metrics(rows)]
    assert order == ["AP", "AP50", "box F1"]
    figure = per_class.draw_per_class(rows, title="x", order=order, what="value")
    assert names_of(figure, order) == order
    assert "value with 95 % interval" in texts_of(figure)


def test_the_edges_of_a_mask_lie_between_its_pixels_and_others():
    rng = np.random.default_rng(0)
    for raster in (rng.random((7, 9)) < 0.5, np.ones((3, 2), bool), np.zeros((2, 2), bool)):
        found = set()
        for (x0, y0), (x1, y1) in pixel_edges(raster).astype(int).tolist():
            assert (x0 == x1) != (y0 == y1)
            steps = max(x1 - x0, y1 - y0)
            dx, dy = (x1 - x0) // steps, (y1 - y0) // steps
            unit = {(x0 + i * dx, y0 + i * dy, dx) for i in range(steps)}
            assert not unit & found
            found |= unit
        framed = np.pad(raster, 1)
        below = {(x, y, 1) for y, x in np.argwhere(framed[:-1, 1:-1] != framed[1:, 1:-1])}
        beside = {(x, y, 0) for y, x in np.argwhere(framed[1:-1, :-1] != framed[1:-1, 1:])}
        assert found == below | beside
