"""Empty and wrong parameters of `COCOeval` and `LVISEval`, and results that hold NumPy's arrays and numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.predictions import cocoeval_runs as parity
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import LVISEval, cocoeval, evaluate

theirs = pytest.importorskip("pycocotools.cocoeval")
coco = pytest.importorskip("pycocotools.coco")

# what pycocotools evaluates, and whether it can summarise it
EMPTY = {
    "no area range": ({"areaRng": []}, "4 names for 0 area ranges"),
    "no area range and no name": ({"areaRng": [], "areaRngLbl": []}, None),
    "fewer ranges than names": ({"areaRng": [[0, 1e10]]}, "4 names for 1 area ranges"),
    "more ranges than names": ({"areaRngLbl": ["all"]}, None),
    "no threshold": ({"iouThrs": []}, "no IoU threshold to summarise"),
    "no recall": ({"recThrs": np.array([])}, None),
    "no image": ({"imgIds": []}, None),
    "no category": ({"catIds": []}, None),
    "no category, pooled": ({"catIds": [], "useCats": 0}, None),
    "nothing at all": ({"catIds": [], "imgIds": [], "recThrs": []}, None),
    "one image": ({"imgIds": 1}, None),
}


@pytest.mark.parametrize("change", EMPTY)
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_empty_parameters_are_pycocotools_or_one_clear_error(iou_type, change):
    truth, results = parity.case(4, iou_type)
    values, problem = EMPTY[change]
    runs = []
    for kind, evaluator in ((coco.COCO, theirs.COCOeval), (cocoeval.COCO, cocoeval.COCOeval)):
        run = evaluator(*parity.indexed(kind, truth, results), iou_type)
        for name, value in values.items():
            setattr(run.params, name, copy.deepcopy(value))
        parity.quiet(run.evaluate)
        parity.quiet(run.accumulate)
        runs.append(run)
    reference, ours = runs
    if problem:
        with pytest.raises(PermafrostError, match=problem):
            ours.summarize()
    else:
        lines = [parity.quiet(run.summarize)[1] for run in runs]
        assert lines[0] == lines[1]
    parity.assert_same(ours, reference)
    parity.assert_same_images(ours, reference)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("maxDets", [], "no cap on detections"),
        ("maxDets", 100, "must be a list of numbers, not 100"),
        ("iouThrs", 0.5, "must be a list of numbers, not 0.5"),
        ("iouThrs", "0.5", "must be a list of numbers"),
        ("recThrs", None, "must be a list of numbers"),
        ("areaRng", [0, 1e10], r"must be a list of \[low, high\]"),
        ("areaRng", [[0, 1, 2]], r"must be a list of \[low, high\]"),
    ],
)
def test_wrong_parameters_are_named(name, value, words):
    truth, results = parity.case(4, "bbox")
    run = cocoeval.COCOeval(*parity.indexed(cocoeval.COCO, truth, results), "bbox")
    setattr(run.params, name, value)
    with pytest.raises(PermafrostError, match=f"params.{name}: .*{words}"):
        run.evaluate()


@pytest.mark.parametrize(
    ("name", "shape", "problem"),
    [
        ("iou_thrs", (0, 101, 5, 4), "no IoU threshold to summarise"),
        ("rec_thrs", (10, 0, 5, 4), None),
        ("area_rng", (10, 101, 5, 0), "4 names for 0 area ranges"),
        ("img_ids", (10, 101, 5, 4), None),
    ],
)
def test_empty_parameters_of_lvis(name, shape, problem):
    truth, results = coco_case(5, categories=5, crowds=0.0)
    run = LVISEval(federate(truth, 5), results, "bbox")
    setattr(run.params, name, [])
    run.evaluate()
    run.accumulate()
    assert run.eval["precision"].shape == shape
    if problem:
        with pytest.raises(PermafrostError, match=problem):
            run.summarize()
    else:
        run.summarize()
        assert run.results["AP"] == -1
    run.params.area_rng = 3
    with pytest.raises(PermafrostError, match=r"params.area_rng: .*\[low, high\]"):
        run.evaluate()


def as_numpy(results, iou_type):
    """The same results with arrays and numbers of NumPy."""
    out = []
    for entry in copy.deepcopy(results):
        for key in ("bbox", "keypoints"):
            if key in entry:
                entry[key] = np.array(entry[key])
        entry["score"] = np.float64(entry["score"])
        entry["image_id"] = np.int64(entry["image_id"])
        out.append(entry)
    return out


@pytest.mark.parametrize("iou_type", parity.IOU_TYPES)
def test_results_of_numpy_are_results(iou_type):
    truth, results = parity.case(6, iou_type)
    data = cocoeval.COCO(truth)
    reference, _ = parity.run(cocoeval.COCOeval, data, data.loadRes(results), iou_type)
    given = as_numpy(results, iou_type)
    ours, _ = parity.run(cocoeval.COCOeval, data, data.loadRes(given), iou_type)
    parity.assert_same(ours, reference)
    indexed = data.loadRes(given)
    assert [e["area"] for e in indexed.anns.values()] == [
        e["area"] for e in data.loadRes(results).anns.values()
    ]
    ours, _ = parity.run(cocoeval.COCOeval, data, indexed, iou_type)
    parity.assert_same(ours, reference)
    for mode in ("strict", "corrected"):
        one, other = (evaluate(truth, r, iou_type=iou_type, mode=mode) for r in (given, results))
        assert np.array_equal(one.stats, other.stats) and one.stats[0] > 0


def test_polygons_of_numpy_are_polygons():
    truth, results = parity.case(7, "segm")
    changed = copy.deepcopy(truth)
    count = 0
    for place, entry in enumerate(changed["annotations"]):
        if isinstance(entry["segmentation"], list):
            arrays = [np.array(polygon, np.float64) for polygon in entry["segmentation"]]
            numbers = [list(polygon) for polygon in arrays]
            entry["segmentation"] = (arrays, numbers, np.array(arrays[:1]))[
                place % (3 if len(arrays) == 1 else 2)
            ]
            count += 1
    one, other = (evaluate(t, results, iou_type="segm") for t in (changed, truth))
    assert count and np.array_equal(one.stats, other.stats) and one.stats[0] > 0
    changed["annotations"][0]["segmentation"] = [np.array([True, False] * 3)]
    with pytest.raises(PermafrostError, match="a coordinate is not a number"):
        evaluate(changed, results, iou_type="segm")


@pytest.mark.parametrize("box", [[1, 2, 3], np.array([1, 2, 3]), 7, "abcd"])
def test_a_box_that_is_none_is_named(box):
    truth, _ = parity.case(8, "bbox")
    image, category = truth["images"][0]["id"], truth["categories"][0]["id"]
    entry = {"image_id": image, "category_id": category, "bbox": box, "score": 0.5}
    data = cocoeval.COCO(truth)
    with pytest.raises(PermafrostError, match="bbox is not a list"):
        _ = data.loadRes([entry]).anns
    with pytest.raises(PermafrostError, match="bbox is not a list"):
        cocoeval.COCOeval(data, data.loadRes([entry]), "bbox").evaluate()
