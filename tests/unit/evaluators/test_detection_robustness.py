"""mPC and rPC: what is left of a figure outside the conditions of a baseline."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate, robustness
from permafrost.evaluators.detection.slices import read_manifest, slices
from permafrost.evaluators.intervals.detection import image_units
from permafrost.evaluators.intervals.robustness import robustness_rows

# hits among the truths of each sky: AP50 is about this share, AR100 exactly
HITS = {"clear": (4, 5), "fog": (2, 4), "rain": (1, 4), "snow": (0, 0)}
DRAWN = {"resamples": 60, "confidence": 0.9, "seed": 1}


def by_hand():
    """An image per sky; detections cover the first truths exactly, and nothing else."""
    truth = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "tree"}]}
    results, rows = [], []
    for image, (sky, (hits, count)) in enumerate(HITS.items(), 1):
        truth["images"].append({"id": image, "width": 500, "height": 500})
        rows.append({"key": image, "sky": sky})
        for number in range(count):
            entry = {"image_id": image, "category_id": 1, "bbox": [60 * number, 0, 40, 40]}
            identity = len(truth["annotations"]) + 1
            truth["annotations"].append({**entry, "id": identity, "area": 1600, "iscrowd": 0})
            if number < hits:
                results.append({**entry, "score": 0.9})
    truth["images"].append({"id": 9, "width": 500, "height": 500})
    return truth, results, rows


def parts_of(truth, results, rows):
    whole = evaluate(truth, results, iou_type="bbox")
    return whole, slices(whole, read_manifest(rows, whole.truths.images.ids))


def test_the_mean_over_the_other_slices_and_its_ratio_to_the_baseline():
    _, parts = parts_of(*by_hand())
    found = {item.metric: item for item in robustness(parts, "clear")}
    recall = found["AR@100"]
    assert recall.baseline_value == pytest.approx(0.8)
    assert recall.mpc == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert recall.rpc == pytest.approx(0.375 / 0.8)
    # the snow holds nothing to find, the image without a label is no condition
    assert recall.slices == 2 and recall.undefined == ("snow",)
    assert (recall.axis, recall.baseline) == ("sky", "clear")
    # 81 of 101 recalls are reached in the clear, 51 in fog and 26 in rain
    assert found["AP"].rpc == pytest.approx((51 + 26) / 2 / 81)
    small = found["APs"]
    assert math.isnan(small.mpc) and math.isnan(small.rpc)
    assert small.undefined == ("fog", "rain", "snow") and small.slices == 0


def test_a_baseline_of_nothing_has_a_mean_but_no_ratio():
    truth, results, rows = by_hand()
    _, parts = parts_of(truth, [entry for entry in results if entry["image_id"] != 1], rows)
    found = {item.metric: item for item in robustness(parts, "clear")}["AR@100"]
    assert found.baseline_value == 0 and found.mpc == pytest.approx(0.375)
    assert math.isnan(found.rpc)
    snow = {item.metric: item for item in robustness(parts, "snow")}["AR@100"]
    assert math.isnan(snow.baseline_value) and math.isnan(snow.rpc) and snow.slices == 3


def test_what_is_no_baseline_is_refused():
    truth, results, rows = by_hand()
    _, parts = parts_of(truth, results, rows)
    with pytest.raises(
        PermafrostError, match="there is no slice labelled 'cleer'.*did you mean 'clear'"
    ):
        robustness(parts, "cleer")
    with pytest.raises(PermafrostError, match="there is no slice labelled '__unassigned__'"):
        robustness(parts, "__unassigned__")
    _, alone = parts_of(truth, results, rows[:1])
    with pytest.raises(PermafrostError, match="axis sky has no slice beside the baseline 'clear'"):
        robustness(alone, "clear")


@pytest.mark.parametrize("method", ["jackknife_t", "basic", "percentile"])
def test_intervals_come_from_resamples_of_all_images(method):
    truth, results = coco_case(3, images=40, detections=12, ties=False)
    ids = sorted(image["id"] for image in truth["images"])
    rows = [{"key": i, "sky": ("clear", "fog", "rain")[n % 3]} for n, i in enumerate(ids)]
    whole, parts = parts_of(truth, results, rows)
    units = image_units(whole)
    found = robustness_rows(parts, "clear", units, **DRAWN, method=method)
    assert [(row["metric"], row["measure"]) for row in found[:2]] == [("AP", "mPC"), ("AP", "rPC")]
    for row in found[:2]:
        assert row["lower"] < row["value"] < row["upper"] and row["n_undefined"] == 0
    values = {part.label: part.evaluation.stats[0] for part in parts}
    assert found[0]["value"] == (values["fog"] + values["rain"]) / 2
    assert found[1]["value"] == found[0]["value"] / values["clear"]
    for row in robustness_rows(parts, "clear", units, **{**DRAWN, "resamples": 0}):
        assert row["lower"] is None and row["upper"] is None
    # images that are one group cannot be drawn apart
    one = image_units(whole, ["all"] * len(ids))
    assert robustness_rows(parts, "clear", one, **DRAWN)[0]["lower"] is None


def test_resamples_without_a_slice_are_counted():
    truth, results, rows = by_hand()
    whole, parts = parts_of(truth, results, rows)
    found = robustness_rows(parts, "clear", image_units(whole), **DRAWN)
    (mpc,) = [row for row in found if (row["metric"], row["measure"]) == ("AR@100", "mPC")]
    # a slice of one image cannot be left out
    assert mpc["lower"] is None and mpc["gates"].startswith("few_units: ")
    found = robustness_rows(parts, "clear", image_units(whole), **DRAWN, method="basic")
    recall = [row for row in found if row["metric"] == "AR@100"]
    # of five images, fog, rain and clear must all be drawn
    assert 0 < recall[0]["n_undefined"] < recall[1]["n_undefined"] < 60
    assert recall[0]["undefined"] == ["snow"]
    # an image that is drawn twice recalls what it recalls
    np.testing.assert_allclose([recall[1]["lower"], recall[1]["upper"]], 0.375 / 0.8)
