"""Evaluation of crowns: matching rules, images without truth or predictions, classes, replicates."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.crowns import box, point, random_crowns
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.crowns import DEEPFOREST, evaluate
from permafrost.metrics.objects import matching

TRUTH = [box("a", (0, 0, 10, 10))]
GOOD = box("a", (0, 0, 9, 9), score=0.9)  # IoU 0.81
HUGE = box("a", (-20, -20, 40, 40), score=0.1)  # IoU 0.028, the whole truth inside
NONE = box("b", (0, 0, 0, 0))


def figures(evaluation) -> tuple[float, float]:
    return evaluation.values["recall", None], evaluation.values["precision", None]


def test_a_huge_box_takes_the_crown_by_area_but_not_by_iou_or_score():
    assert figures(evaluate(TRUTH, [GOOD, HUGE])) == (0, 0)
    assert figures(evaluate(TRUTH, [GOOD, HUGE], matching="iou")) == (1, 0.5)
    assert figures(evaluate(TRUTH, [GOOD, HUGE], matching="score")) == (1, 0.5)


def test_the_better_score_wins_only_where_scores_count():
    rows = [box("a", (0, 0, 10, 10), score=0.2), box("a", (0, 0, 10, 9), score=0.9)]
    assert evaluate(TRUTH, rows, matching="iou").partner.tolist() == [0]
    assert evaluate(TRUTH, rows, matching="score").partner.tolist() == [1]


def test_greedy_matching_lets_a_prediction_take_its_best_free_crown():
    truth = [box("a", (0, 0, 10, 10)), box("a", (0, 3, 10, 13))]
    rows = [box("a", (0, 1, 10, 11), score=0.9), box("a", (0, 0, 10, 10), score=0.8)]
    assert evaluate(truth, rows, matching="score").partner.tolist() == [0, 1]
    assert evaluate(truth, rows, matching="iou").partner.tolist() == [1, 0]


def test_overlaps_below_the_threshold_cannot_take_a_match_away():
    truth = [box("a", (0, 0, 10, 10)), box("a", (9, 0, 19, 10))]
    rows = [box("a", (3.7, 0, 13.7, 10), score=0.5), box("a", (-5.3, 0, 4.7, 10), score=0.9)]
    # IoU 0.46 of the first two; crosswise 0.31 twice, which is more in total
    assert evaluate(truth, rows).match.tolist() == [False, False]
    assert evaluate(truth, rows, matching="iou").match.tolist() == [True, False]
    assert evaluate(truth, rows, matching="score").match.tolist() == [True, False]


def test_an_overlap_at_the_threshold_cannot_take_a_match_away():
    rows = [box("a", (0, 0, 10, 5), score=0.9), box("a", (0, 0, 10, 8), score=0.5)]  # .5 and .8
    assert evaluate(TRUTH, rows, matching="score", iou_threshold=0.5).partner.tolist() == [1]
    assert evaluate(TRUTH, rows, matching="score", iou_threshold=0.49).partner.tolist() == [0]


def test_the_threshold_is_strict():
    rows = [box("a", (0, 0, 10, 4), score=1.0)]  # IoU exactly 0.4
    for rule in ("area", "iou", "score"):
        assert figures(evaluate(TRUTH, rows, matching=rule)) == (0, 0)
        assert figures(evaluate(TRUTH, rows, matching=rule, iou_threshold=0.39)) == (1, 1)


def test_points_match_nearer_than_the_distance():
    truth = [point("a", 1, 1), point("a", 30, 1)]
    at_the_distance = [point("a", 11, 1, score=0.5), point("a", 31, 1, score=0.5)]
    for rule in ("distance", "within", "score"):
        assert figures(evaluate(truth, at_the_distance, matching=rule)) == (0.5, 0.5)
        wider = evaluate(truth, at_the_distance, matching=rule, distance_threshold=10.1)
        assert figures(wider) == (1, 1)


def test_far_points_steer_the_matching_by_distance_but_not_within():
    truth = [point("a", 1, 1), point("a", 1, 8)]
    rows = [point("a", 1, 9, score=0.9), point("a", 60, 30, score=0.1)]
    # least total distance pairs (1, 1) with the near point, the rest with the far one
    far = evaluate(truth, rows)
    near = evaluate(truth, rows, matching="within")
    assert near.match.tolist() == [False, True]
    assert near.values["matched_distance", None] == 1
    assert far.quality.sum() <= np.hypot(59, 29) + 1


def test_images_are_averaged_or_pooled():
    truth = [*TRUTH, *(box("b", (20 * i, 0, 20 * i + 10, 10)) for i in range(4))]
    rows = [GOOD, box("b", (0, 0, 10, 10), score=0.5), box("b", (0, 90, 10, 99), score=0.5)]
    assert figures(evaluate(truth, rows)) == pytest.approx(((1 + 1 / 4) / 2, (1 + 1 / 2) / 2))
    assert figures(evaluate(truth, rows, average="dataset")) == pytest.approx((2 / 5, 2 / 3))


def test_deleting_predictions_raises_the_precision_only_as_deepforest_counts():
    truth = [*TRUTH, box("b", (0, 0, 10, 10))]
    rows = [GOOD, box("b", (50, 50, 60, 60), score=0.5)]
    assert figures(evaluate(truth, rows)) == (0.5, 0.5)
    assert figures(evaluate(truth, rows[:1])) == (0.5, 0.5)
    assert figures(evaluate(truth, rows[:1], **DEEPFOREST)) == (0.5, 1.0)
    assert "1 images have no predictions" in evaluate(truth, rows[:1]).notes()[0]


def test_false_alarms_on_empty_images_count_unless_they_are_left_out_by_name():
    truth, rows = [*TRUTH, NONE], [GOOD, box("b", (0, 0, 5, 5), score=0.5)]
    counted = evaluate(truth, rows)
    assert figures(counted) == (1, 0.5)
    assert counted.values["empty_image_accuracy", None] == 0
    assert counted.values["precision", "Tree"] == 0.5
    skipped = evaluate(truth, rows, without_truth="skip")
    assert figures(skipped) == (1, 1)
    assert skipped.values["precision", "Tree"] == 1
    assert "left out with 1 predictions" in skipped.notes()[0]
    assert evaluate(truth, rows, average="dataset").values["precision", None] == 0.5
    pooled = evaluate(truth, rows, average="dataset", without_truth="skip")
    assert pooled.values["precision", None] == 1


def test_an_image_with_neither_counts_for_empty_images_only():
    found = evaluate([*TRUTH, NONE], [GOOD])
    assert figures(found) == (1, 1)
    assert found.values["empty_image_accuracy", None] == 1


def test_predictions_on_unlisted_images_are_an_error_or_follow_a_rule():
    rows = [GOOD, box("c", (0, 0, 5, 5), score=0.5)]
    with pytest.raises(PermafrostError, match="1 images with predictions are not in the truth"):
        evaluate(TRUTH, rows)
    assert figures(evaluate(TRUTH, rows, unlisted="empty")) == (1, 0.5)
    skipped = evaluate(TRUTH, rows, unlisted="skip")
    assert figures(skipped) == (1, 1)
    assert skipped.notes() == ["1 predictions on images outside the truth were left out."]


def test_no_predictions_at_all():
    found = evaluate(TRUTH, {name: [] for name in GOOD})
    assert figures(found) == (0, 0)
    assert np.isnan(figures(evaluate(TRUTH, {name: [] for name in GOOD}, **DEEPFOREST))[1])


def test_only_empty_images():
    found = evaluate([NONE], [box("b", (0, 0, 5, 5), score=0.5)])
    assert np.isnan(figures(found)[0]) and figures(found)[1] == 0


def test_class_recall_is_over_all_crowns_and_deepforests_has_its_own_name():
    truth = [
        box("a", (0, 0, 10, 10), "oak"),
        box("a", (20, 0, 30, 10), "oak"),
        box("a", (40, 0, 50, 10), "fir"),
    ]
    rows = [
        box("a", (0, 0, 10, 10), "oak", score=1.0),
        box("a", (40, 0, 50, 10), "oak", score=1.0),
        box("a", (80, 0, 90, 10), "oak", score=1.0),
    ]
    values = evaluate(truth, rows).values
    assert values["recall", "oak"] == 1 / 2 and values["precision", "oak"] == 1 / 3
    assert values["f1", "oak"] == pytest.approx(0.4)
    assert values["deepforest_class_recall", "oak"] == 1
    assert values["deepforest_class_precision", "oak"] == 1 / 2
    assert values["recall", "fir"] == 0 and np.isnan(values["precision", "fir"])
    assert values["deepforest_class_precision", "fir"] == 0
    assert evaluate(truth, rows).class_sizes()["oak"] == {
        "truths": 2,
        "predictions": 3,
        "deepforest_class_size": 1,
    }


def test_predictions_below_a_score_are_left_out_and_counted():
    found = evaluate(TRUTH, [GOOD, HUGE], min_score=0.5)
    assert figures(found) == (1, 1)
    assert found.notes() == ["1 predictions score too low and were left out."]
    assert len(evaluate(TRUTH, [GOOD, HUGE], min_score=0.1).predictions) == 2


@pytest.mark.parametrize("average", ["image", "dataset"])
@pytest.mark.parametrize("rules", [{}, {"without_truth": "skip", "without_predictions": "skip"}])
def test_replicates_equal_the_evaluation_of_resampled_images(average, rules):
    rng = np.random.default_rng(4)
    truth, rows = random_crowns(rng, "box", 6, most=9)
    truth = [row for row in truth if row["image_path"] != "i2"]
    rows = [row for row in rows if row["image_path"] != "i3"]
    truth.append(box("i2", (0, 0, 0, 0)))
    options = {"average": average, **rules}
    whole = evaluate(truth, rows, **options)
    draws = rng.integers(0, len(whole.images), (5, len(whole.images)))
    counts = np.stack([np.bincount(draw, minlength=len(whole.images)) for draw in draws], axis=1)
    found = whole.replicates(counts)
    for column, draw in enumerate(draws):
        again = {"truth": [], "predictions": []}
        for copy, index in enumerate(draw.tolist()):
            for name, source in (("truth", truth), ("predictions", rows)):
                again[name] += [
                    {**row, "image_path": f"{copy}"}
                    for row in source
                    if row["image_path"] == whole.images[index]
                ]
        expected = evaluate(**again, **options).values
        for name, value in expected.items():
            assert found[name][column] == pytest.approx(value, nan_ok=True), name


def test_large_images_are_matched_alike_in_groups(monkeypatch):
    truth, rows = random_crowns(np.random.default_rng(5), "box", 3, most=60)
    whole = {rule: evaluate(truth, rows, matching=rule) for rule in ("area", "iou")}
    monkeypatch.setattr(matching, "_DENSE", 0)
    for rule, expected in whole.items():
        np.testing.assert_array_equal(
            evaluate(truth, rows, matching=rule).partner, expected.partner
        )


def test_too_many_points_for_all_distances_are_refused_with_the_way_out(monkeypatch):
    truth, rows = random_crowns(np.random.default_rng(5), "point", 1, most=60)
    monkeypatch.setattr(matching, "_DENSE", 3)
    with pytest.raises(PermafrostError, match="within"):
        evaluate(truth, rows)
    assert evaluate(truth, rows, matching="within").match.sum() > 0


def test_the_tables_hold_every_crown_once_by_outcome():
    from permafrost.evaluators.crowns.tables import image_table, match_table

    truth, rows = random_crowns(np.random.default_rng(6), "box", 5)
    truth.append(box("i9", (0, 0, 0, 0)))
    rows.append(box("i9", (1, 1, 5, 5), score=0.5))
    found = evaluate(truth, rows, without_truth="skip")
    outcomes = match_table(found)["outcome"].to_pylist()
    counts = {name: outcomes.count(name) for name in set(outcomes)}
    assert counts["match"] == found.match.sum() > 0
    assert counts["match"] + counts["miss"] == len(truth) - 1
    assert counts["match"] + counts["false alarm"] + counts["left out"] == len(rows)
    assert counts["left out"] == 1
    matched = [row for row in match_table(found).to_pylist() if row["outcome"] == "match"]
    for row in matched:
        assert truth[row["truth_row"] - 1]["xmin"] == row["true_xmin"]
        assert rows[row["prediction_row"] - 1]["score"] == row["score"]
        assert row["iou"] > 0.4
    images = {row["image_path"]: row for row in image_table(found).to_pylist()}
    assert images["i9"]["state"] == "without truth" and not images["i9"]["counted"]


@pytest.mark.parametrize("kind", ["point", "polygon"])
def test_tables_of_points_and_polygons(kind):
    from permafrost.evaluators.crowns.tables import match_table

    truth, rows = random_crowns(np.random.default_rng(7), kind, 2)
    table = match_table(evaluate(truth, rows))
    names = {"point": {"true_x", "distance"}, "polygon": {"predicted_geometry", "iou"}}
    assert names[kind] <= set(table.column_names)


def test_without_any_prediction_the_table_has_nulls():
    from permafrost.evaluators.crowns.tables import match_table

    row = match_table(evaluate(TRUTH, {name: [] for name in GOOD})).to_pylist()[0]
    assert row["outcome"] == "miss" and row["prediction_row"] is None and row["iou"] is None


@pytest.mark.parametrize(
    "options",
    [
        {"matching": "distance"},
        {"matching": "are"},
        {"average": "images"},
        {"unlisted": "ignore"},
        {"iou_threshold": 1.0},
        {"iou_threshold": float("nan")},
        {"geometry": "boxes"},
    ],
)
def test_options_that_do_not_exist_are_refused(options):
    with pytest.raises(PermafrostError):
        evaluate(TRUTH, [GOOD], **options)


def test_the_heading_and_the_figures_say_what_they_are_taken_over():
    truth = [box("a", (0, 0, 10, 10)), box("b", (0, 0, 10, 10), "Fir")]
    predictions = [box("a", (0, 0, 10, 10), score=1.0)]
    found = evaluate(truth, predictions)
    assert "mean over images (classes: all images pooled)" in found.heading()
    over = {name: found.average_of(*name) for name in found.values}
    assert over["recall", None] == over["precision", None] == over["f1", None] == "image"
    assert over["recall", "Tree"] == over["matched_iou", None] == "dataset"
    pooled = evaluate(truth, predictions, average="dataset")
    assert "; all images pooled" in pooled.heading()
    assert pooled.average_of("recall", None) == "dataset"
