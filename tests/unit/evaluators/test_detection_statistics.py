"""Intervals and comparisons of detection scores."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.detection.subset import subset
from permafrost.evaluators.intervals.detection import (
    DetectionScores,
    class_names,
    comparison_rows,
    detection_rows,
    image_units,
)

DRAWN = {"resamples": 100, "confidence": 0.9, "seed": 3}


def test_intervals_widen_with_groups_that_are_alike():
    """Four copies of each image are four times as much data, unless they are known as copies."""
    truth, results = coco_case(1, images=8, detections=12, ties=False)
    images, annotations, found = [], [], []
    for copy in range(4):
        images += [{**image, "id": image["id"] + 1000 * copy} for image in truth["images"]]
        for source, target in ((truth["annotations"], annotations), (results, found)):
            for entry in source:
                moved = {"image_id": entry["image_id"] + 1000 * copy, "id": len(target) + 1}
                target.append({**entry, **moved})
    more = {**truth, "images": images, "annotations": annotations}
    evaluation = evaluate(more, found, iou_type="bbox")
    scores = DetectionScores(evaluation)
    groups = [identity % 1000 for identity in evaluation.truths.images.ids.tolist()]
    widths = []
    for units in (image_units(evaluation), image_units(evaluation, groups)):
        row = detection_rows(scores, units, **DRAWN)[0]
        widths.append(row["upper"] - row["lower"])
    assert widths[1] > 1.4 * widths[0]
    # eight groups of equal copies are the eight images
    small = evaluate(truth, results, iou_type="bbox")
    row = detection_rows(DetectionScores(small), image_units(small), **DRAWN)[0]
    assert widths[1] == pytest.approx(row["upper"] - row["lower"], rel=0.35)


def test_values_and_replicates_have_the_same_names():
    truth, results = coco_case(2, categories=3)
    evaluation = evaluate(truth, results, iou_type="bbox")
    for classes in (True, False):
        scores = DetectionScores(evaluation, classes=classes)
        drawn = scores.replicates(np.ones((12, 2), np.uint8))
        assert set(scores.values) == set(drawn)
        assert ("AP50", "kind 1") in drawn if classes else ("AP50", "kind 1") not in drawn
        for name, value in scores.values.items():
            np.testing.assert_allclose(drawn[name], value, atol=1e-13)
    assert class_names(evaluation) == ["kind 0", "kind 1", "kind 2"]


def test_without_resamples_there_are_no_bounds():
    truth, results = coco_case(3)
    evaluation = evaluate(truth, results, iou_type="bbox")
    scores, units = DetectionScores(evaluation), image_units(evaluation)
    rows = detection_rows(scores, units, **{**DRAWN, "resamples": 0})
    assert rows[0]["value"] == evaluation.stats[0] and rows[0]["lower"] is None
    rows = comparison_rows(scores, scores, units, **{**DRAWN, "resamples": 0})
    assert rows[0]["difference"] == 0 and rows[0]["p_value"] is None


def test_the_difference_is_resampled_in_pairs():
    truth, results = coco_case(4, detections=12, ties=False)
    one, two = (
        evaluate(truth, results, iou_type="bbox"),
        evaluate(truth, results[::2], iou_type="bbox"),
    )
    first, second = DetectionScores(one), DetectionScores(two)
    units = image_units(one)
    rows = comparison_rows(first, second, units, **DRAWN, method="basic")
    from permafrost.statistics.resampling.resamples import draw_resamples

    counts = draw_resamples(12, 100, 3).counts[units.index]
    moved = first.replicates(counts)["AP", None] - second.replicates(counts)["AP", None]
    value = rows[0]["difference"]
    assert rows[0]["lower"] == pytest.approx(2 * value - np.quantile(moved, 0.95))
    assert rows[0]["upper"] == pytest.approx(2 * value - np.quantile(moved, 0.05))
    plain = comparison_rows(first, second, units, **DRAWN, method="percentile")
    assert plain[0]["lower"] == pytest.approx(np.quantile(moved, 0.05))
    back = comparison_rows(second, first, units, **DRAWN, method="basic")
    assert back[0]["difference"] == -rows[0]["difference"]
    assert back[0]["p_value"] == rows[0]["p_value"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"iou_thresholds": [0.5]}, "different IoU thresholds"),
        ({"max_dets": [7]}, "different caps"),
        ({"mode": "strict"}, "different options"),
        ({"images": [10, 13]}, "different images"),
    ],
)
def test_what_was_evaluated_in_another_way_is_not_compared(change, words):
    truth, results = coco_case(5)
    one = evaluate(truth, results, iou_type="bbox")
    two = evaluate(truth, results, iou_type="bbox", **change)
    with pytest.raises(PermafrostError, match=words):
        comparison_rows(DetectionScores(one), DetectionScores(two), image_units(one), **DRAWN)


def test_basic_intervals_cover_the_score_of_all_images_where_percentiles_do_not():
    """Many small sets out of a large one: precision is biased upwards, recall is not."""
    truth, results = coco_case(6, images=1200, detections=8, truths=4, ties=False, categories=2)
    whole = evaluate(truth, results, iou_type="bbox")
    targets = dict(zip(whole.names, whole.stats, strict=True))
    order = np.random.default_rng(0).permutation(1200)
    covered = {(kind, name): 0 for kind in ("basic", "percentile") for name in ("AP", "AR@100")}
    for part in range(30):
        chosen = np.zeros(1200, bool)
        chosen[order[part * 40 : part * 40 + 40]] = True
        scores = DetectionScores(subset(whole, chosen), classes=False)
        units = image_units(scores.evaluation)
        for kind in ("basic", "percentile"):
            for row in detection_rows(scores, units, **DRAWN, method=kind):
                name = kind, row["metric"]
                if name in covered:
                    covered[name] += row["lower"] <= targets[row["metric"]] <= row["upper"]
    assert covered["basic", "AP"] > covered["percentile", "AP"] + 5
    assert covered["basic", "AP"] >= 22 and min(covered[k, "AR@100"] for k, _ in covered) >= 22
