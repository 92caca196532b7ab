"""Strict mode equals pycocotools bit for bit: every statistic and the full tensors."""

from __future__ import annotations

import contextlib
import copy
import io
import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.evaluators.detection import evaluate

pytest.importorskip("pycocotools")


def reference(truth, results, iou_type, *, use_categories=True, change=None):
    """What pycocotools makes of it; `change` may alter the parameters."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        data = COCO()
        data.dataset = copy.deepcopy(truth)
        data.createIndex()
        found = data.loadRes(copy.deepcopy(results)) if results else COCO()
        if not results:
            found.dataset = {**copy.deepcopy(truth), "annotations": []}
            found.createIndex()
        run = COCOeval(data, found, iou_type)
        run.params.useCats = int(use_categories)
        if change:
            change(run.params)
        run.evaluate()
        run.accumulate()
        try:
            run.summarize()
        except IndexError:
            run.stats = None
    return run


def assert_equal(truth, results, iou_type, *, use_categories=True, change=None, **options):
    expected = reference(truth, results, iou_type, use_categories=use_categories, change=change)
    found = evaluate(
        truth, results, iou_type=iou_type, mode="strict", use_categories=use_categories, **options
    )
    for name in ("precision", "recall", "scores"):
        theirs, ours = expected.eval[name], getattr(found, name)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert np.array_equal(ours, theirs), name
    assert np.array_equal(found.stats, expected.stats)
    return found


CASES = {
    "ties": {},
    "no ties": {"ties": False, "whole": False},
    "explicit ignore": {"ignores": 0.4},
    "identity 0": {"first_id": 0},
    "large objects": {"scale": 4.0, "whole": False},
    "crowded": {"images": 3, "truths": 25, "detections": 60, "categories": 2},
    "many crowds": {"crowds": 0.6},
    "one category": {"categories": 1},
    "two images": {"images": 2, "truths": 20, "detections": 40},
    "few truths": {"truths": 0.3},
}


@pytest.mark.parametrize("use_categories", [True, False])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
def test_every_number_is_the_same(iou_type, case, use_categories):
    best = []
    for seed in range(3):
        options = {**CASES[case], "geometry": iou_type}
        if iou_type == "segm":
            options["images"] = min(options.get("images", 6), 6)
        truth, results = coco_case(seed, **options)
        found = assert_equal(truth, results, iou_type, use_categories=use_categories)
        best.append(found.stats[0])
    # the case has something in it; pycocotools finds no keypoints without categories
    assert (max(best) > 0) == (use_categories or iou_type != "keypoints")


def test_custom_axes():
    truth, results = coco_case(5, images=8, truths=10, detections=30, categories=2)
    thresholds = [0.75, 0.3, 0.5, 0.0, 1.0]
    areas = {"all": (0, 1e10), "small": (0, 400), "large": (400, 900), "medium": (100, 500)}

    def change(params):
        params.iouThrs = np.array(thresholds)
        params.areaRng = [list(bounds) for bounds in areas.values()]
        params.areaRngLbl = list(areas)
        params.maxDets = [7, 2, 100, 4]

    assert_equal(
        truth,
        results,
        "bbox",
        change=change,
        iou_thresholds=thresholds,
        area_ranges=areas,
        max_dets=[7, 2, 100, 4],
    )


@pytest.mark.parametrize(
    "grid",
    [np.linspace(0, 1, 11), [0.5], [0.0, 0.01, 0.05, 0.9, 1.0], [0.33, 1 / 3, 0.34]],
    ids=str,
)
def test_a_recall_grid_of_ones_own(grid):
    def change(params):
        params.recThrs = np.array(grid)

    for seed in range(4):
        truth, results = coco_case(seed, images=8, truths=10, detections=30, categories=3)
        assert_equal(truth, results, "bbox", change=change, recall_grid=grid)


@pytest.mark.parametrize("caps", [[5, 20, 50], [1, 2, 3], [10, 100, 300]])
def test_the_headline_is_tied_to_a_cap_of_100(caps):
    truth, results = coco_case(6, images=4, truths=20, detections=60, categories=1)

    def change(params):
        params.maxDets = list(caps)

    found = assert_equal(truth, results, "bbox", change=change, max_dets=caps)
    assert (found.stats[0] == -1) == (100 not in caps)


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
def test_nothing_detected_and_nothing_there(iou_type):
    truth, results = coco_case(7, geometry=iou_type, images=4)
    found = assert_equal(truth, [], iou_type)
    assert found.stats[0] == 0
    nothing = {**truth, "annotations": []}
    found = assert_equal(nothing, results, iou_type)
    assert (found.stats == -1).all()
    assert_equal(nothing, [], iou_type)


@pytest.mark.parametrize("use_categories", [True, False])
def test_a_truth_without_categories(use_categories):
    truth, results = coco_case(8)
    truth["categories"] = []
    assert_equal(truth, results, "bbox", use_categories=use_categories)


def test_what_belongs_to_no_image_or_category_is_passed_over_and_counted():
    truth, results = coco_case(9)
    truth["annotations"][3]["image_id"] = 99999
    truth["annotations"][4]["category_id"] = 99999
    results[2]["category_id"] = 99999
    found = assert_equal(truth, results, "bbox")
    assert_equal(truth, results, "bbox", use_categories=False)
    assert sum(found.dropped.values()) == 3


def test_boxes_stand_for_masks_and_masks_for_boxes():
    truth, results = coco_case(10, geometry="segm", images=6)
    boxes = [{k: v for k, v in entry.items() if k != "segmentation"} for entry in results]
    assert_equal(truth, boxes, "segm")
    strings = [e for e in results if isinstance(e["segmentation"]["counts"], str)]
    masks = [{k: v for k, v in entry.items() if k != "bbox"} for entry in strings]
    assert_equal(truth, masks, "segm")
    assert_equal(truth, masks, "bbox")


def test_the_first_detection_decides_the_branch():
    truth, results = coco_case(11, geometry="segm", images=6)
    results = [e for e in results if isinstance(e["segmentation"]["counts"], str)]
    for entry in results[1::2]:
        del entry["segmentation"]
    assert_equal(truth, results, "segm")
    whole = [e for e in results if "segmentation" in e]
    del whole[0]["bbox"]
    assert_equal(truth, whole, "segm")
    assert_equal(truth, whole, "bbox")


def test_masks_of_another_size_match_nothing():
    truth, results = coco_case(12, geometry="segm", images=6)
    for entry in results[::3]:
        entry["segmentation"] = {"size": [30, 31], "counts": [100, 500, 330]}
    assert_equal(truth, results, "segm")


def test_an_odd_last_number_and_a_second_polygon_of_two_points_are_passed_over():
    truth, results = coco_case(13, geometry="segm", images=6)
    plain = [e for e in truth["annotations"] if not e["iscrowd"]]
    for entry in plain:
        x, y, w, h = entry["bbox"]
        entry["segmentation"] = [[x, y, x + w, y, x + w, y + h, x, y + h, 3.0], [x, y, x + w, y]]
    assert_equal(truth, results, "segm")


def test_files_give_the_same_as_objects(tmp_path):
    truth, results = coco_case(14)
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps(results))
    one = evaluate(tmp_path / "truth.json", tmp_path / "found.json", iou_type="bbox")
    two = evaluate(truth, results, iou_type="bbox")
    assert np.array_equal(one.stats, two.stats)
