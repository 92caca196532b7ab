"""`COCO` and `COCOeval` equal pycocotools': figures, matches, likenesses, printed lines, index."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from helpers.predictions.cocoeval_runs import (
    CHANGES,
    IOU_TYPES,
    assert_same,
    assert_same_images,
    case,
    indexed,
    quiet,
    run,
)
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import cocoeval

theirs = pytest.importorskip("pycocotools.cocoeval")
coco = pytest.importorskip("pycocotools.coco")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_everything_is_the_same(iou_type, change):
    best = -1.0
    for seed in range(3):
        truth, results = case(seed, iou_type)
        reference, lines = run(
            theirs.COCOeval, *indexed(coco.COCO, truth, results), iou_type, CHANGES[change]
        )
        for kind in (cocoeval.COCO, coco.COCO):
            ours, printed = run(
                cocoeval.COCOeval, *indexed(kind, truth, results), iou_type, CHANGES[change]
            )
            assert_same(ours, reference)
            assert printed == lines
            assert_same_images(ours, reference)
            assert str(ours).splitlines() == lines
        best = max(best, ours.stats[0])
    # pycocotools finds no keypoints without categories
    pooled = change in ("no categories", "some categories, pooled")
    assert (best > 0) == (iou_type != "keypoints" or not pooled)


@pytest.mark.parametrize("first_id", [0, 1])
@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_files_are_read_as_they_are(iou_type, first_id, tmp_path):
    truth, results = case(4, iou_type, first_id=first_id, crowds=0.4)
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps(results))
    reference, _ = run(theirs.COCOeval, *indexed(coco.COCO, truth, results), iou_type)
    for given in (tmp_path / "truth.json", str(tmp_path / "truth.json"), truth):
        data = cocoeval.COCO(given)
        for found in (tmp_path / "found.json", str(tmp_path / "found.json"), results):
            ours, _ = run(cocoeval.COCOeval, data, data.loadRes(found), iou_type)
            assert_same(ours, reference)
    assert_same_images(ours, reference)
    # entries that somebody has seen are evaluated as they are now
    seen = data.loadRes(results)
    assert len(seen.anns) == len(results)
    ours, _ = run(cocoeval.COCOeval, data, seen, iou_type)
    assert_same(ours, reference)


@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_the_index_of_results_is_the_same(iou_type):
    truth, results = case(5, iou_type)
    if iou_type == "segm":
        for entry in results:
            del entry["bbox"]
    (_, reference), (_, ours) = (
        indexed(kind, truth, results) for kind in (coco.COCO, cocoeval.COCO)
    )
    assert set(ours.dataset) >= {"images", "categories", "annotations"}
    assert ours.imgToAnns.keys() == reference.imgToAnns.keys()
    for identity, entry in reference.anns.items():
        mine = ours.anns[identity]
        assert set(mine) == set(entry)
        for key, value in entry.items():
            assert np.array_equal(mine[key], value) if key == "bbox" else mine[key] == value


def test_results_are_numbered_whatever_ids_they_come_with():
    truth, results = case(5, "bbox")
    for place, entry in enumerate(results):
        entry["id"] = 7 * (place // 2)
    runs = []
    for kind, evaluator in ((coco.COCO, theirs.COCOeval), (cocoeval.COCO, cocoeval.COCOeval)):
        runs.append(run(evaluator, *indexed(kind, truth, results), "bbox")[0])
    assert_same(runs[1], runs[0])
    assert_same_images(runs[1], runs[0])


def test_the_index_of_a_truth_is_the_same():
    truth, _ = case(6, "segm")
    for number, category in enumerate(truth["categories"]):
        category["supercategory"] = "ab"[number % 2]
    reference, _ = indexed(coco.COCO, truth, [])
    ours = cocoeval.COCO(truth)
    images, categories = reference.getImgIds()[:3], reference.getCatIds()[:2]
    calls = [
        ("getAnnIds", {}),
        ("getAnnIds", {"imgIds": images}),
        ("getAnnIds", {"imgIds": images[0], "catIds": categories}),
        ("getAnnIds", {"areaRng": [100, 900], "iscrowd": False}),
        ("getAnnIds", {"catIds": categories[0], "iscrowd": True}),
        ("getCatIds", {}),
        ("getCatIds", {"catNms": ["kind 1", "kind 2"]}),
        ("getCatIds", {"supNms": "a"}),
        ("getCatIds", {"catIds": categories}),
        ("getImgIds", {}),
        ("getImgIds", {"imgIds": images, "catIds": categories[0]}),
        ("getImgIds", {"catIds": categories}),
        ("loadImgs", {"ids": images}),
        ("loadCats", {"ids": categories[0]}),
        ("loadAnns", {"ids": reference.getAnnIds()[:4]}),
    ]
    for name, options in calls:
        assert getattr(ours, name)(**options) == getattr(reference, name)(**options), (
            name,
            options,
        )
    for entry in reference.loadAnns(reference.getAnnIds()):
        assert np.array_equal(ours.annToMask(entry), reference.annToMask(entry))
        assert ours.annToRLE(entry) == reference.annToRLE(entry)


def test_rows_of_an_array_are_results():
    truth, results = case(7, "bbox")
    rows = np.array([[e["image_id"], *e["bbox"], e["score"], e["category_id"]] for e in results])
    data, _ = indexed(coco.COCO, truth, [])
    reference, _ = run(theirs.COCOeval, data, quiet(lambda: data.loadRes(rows))[0], "bbox")
    ours = cocoeval.COCO(truth)
    assert_same(run(cocoeval.COCOeval, ours, ours.loadRes(rows), "bbox")[0], reference)
    with pytest.raises(PermafrostError, match=r"must be \(N, 7\)"):
        ours.loadRes(rows[:, :6])


def test_results_with_ids_and_areas_of_their_own():
    truth, results = case(8, "bbox", images=8)
    for place, entry in enumerate(results):
        entry.update(id=1000 - place, area=float(place * 7 % 2000), iscrowd=0)
    # on an image that the truth does not have: passed over
    results.append({**results[0], "id": 5000, "image_id": 99999})
    runs = []
    for kind, evaluator in ((coco.COCO, theirs.COCOeval), (cocoeval.COCO, cocoeval.COCOeval)):
        data, found = indexed(kind, truth, [])
        found.dataset = {"annotations": copy.deepcopy(results), "images": [], "categories": []}
        quiet(found.createIndex)
        runs.append(run(evaluator, data, found, "bbox")[0])
    assert_same(runs[1], runs[0])
    assert_same_images(runs[1], runs[0])


@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_nothing_detected_and_nothing_there(iou_type):
    truth, results = case(9, iou_type)
    for data, found in ((truth, []), ({**truth, "annotations": []}, results)):
        found = copy.deepcopy(found)
        pairs = []
        for kind, evaluator in ((coco.COCO, theirs.COCOeval), (cocoeval.COCO, cocoeval.COCOeval)):
            gt, dt = indexed(kind, data, found)
            if not found:
                dt.dataset = {**data, "annotations": []}
                quiet(dt.createIndex)
            pairs.append(run(evaluator, gt, dt, iou_type)[0])
        assert_same(pairs[1], pairs[0])
        assert_same_images(pairs[1], pairs[0])
    # an empty list, which pycocotools does not take
    ours = cocoeval.COCO(truth)
    found, _ = run(cocoeval.COCOeval, ours, ours.loadRes([]), iou_type)
    assert found.stats[0] == 0


def by_batches(kind, evaluator, truth, results, iou_type, recalls=None):
    """As torchvision's references evaluate: batch by batch, results per image gathered at the end."""
    data, _ = indexed(kind, truth, [])
    evaluation = evaluator(data, iouType=iou_type)
    if recalls is not None:
        evaluation.params.recThrs = np.array(recalls)
    ids, parts = [], []
    for batch in (data.getImgIds()[:2], data.getImgIds()[2:5], data.getImgIds()[5:]):
        own = [copy.deepcopy(entry) for entry in results if entry["image_id"] in batch]
        evaluation.cocoDt = quiet(lambda own=own: data.loadRes(own) if own else kind())[0]
        evaluation.params.imgIds = list(batch)
        quiet(evaluation.evaluate)
        p = evaluation.params
        shape = -1, len(p.areaRng), len(p.imgIds)
        parts.append(np.asarray(evaluation.evalImgs).reshape(shape))
        ids += p.imgIds
    order = np.argsort(ids)
    evaluation.evalImgs = list(np.concatenate(parts, 2)[..., order].flatten())
    evaluation.params.imgIds = np.array(ids)[order].tolist()
    evaluation._paramsEval = copy.deepcopy(evaluation.params)
    quiet(lambda: (evaluation.accumulate(), evaluation.summarize()))
    return evaluation


@pytest.mark.parametrize("recalls", [None, [0.1, 0.9, 0.0, 0.2]])
@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_results_of_batches_that_are_gathered(iou_type, recalls):
    truth, results = case(10, iou_type, images=7)
    reference = by_batches(coco.COCO, theirs.COCOeval, truth, results, iou_type, recalls)
    for kind in (coco.COCO, cocoeval.COCO):
        ours = by_batches(kind, cocoeval.COCOeval, truth, results, iou_type, recalls)
        assert_same(ours, reference)

    def change(p):
        p.recThrs = p.recThrs if recalls is None else recalls

    whole, _ = run(cocoeval.COCOeval, *indexed(cocoeval.COCO, truth, results), iou_type, change)
    assert np.array_equal(whole.stats, reference.stats)


def test_other_recalls_and_caps_when_counting():
    truth, results = case(11, "bbox")

    def changed(evaluation):
        p = copy.deepcopy(evaluation.params)
        p.recThrs, p.maxDets = np.array([0.0, 0.5]), [10, 100]
        evaluation.params.maxDets = [10, 100, 100]
        return p

    runs = []
    for kind, evaluator in ((coco.COCO, theirs.COCOeval), (cocoeval.COCO, cocoeval.COCOeval)):
        evaluation = evaluator(*indexed(kind, truth, results), "bbox")
        quiet(
            lambda evaluation=evaluation: (
                evaluation.evaluate(),
                evaluation.accumulate(changed(evaluation)),
            )
        )
        runs.append(evaluation)
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(runs[1].eval[name], runs[0].eval[name])


@pytest.mark.parametrize(
    ("name", "value"),
    [("iouThrs", [0.5]), ("catIds", []), ("imgIds", [1]), ("useCats", 0), ("maxDets", [1, 7, 100])],
)
def test_what_was_not_evaluated_cannot_be_counted(name, value):
    truth, results = case(12, "bbox")
    ours = cocoeval.COCOeval(*indexed(cocoeval.COCO, truth, results), "bbox")
    with pytest.raises(PermafrostError, match=r"call evaluate\(\) first"):
        ours.accumulate()
    with pytest.raises(PermafrostError, match=r"call accumulate\(\) first"):
        ours.summarize()
    ours.evaluate()
    setattr(ours.params, name, value)
    with pytest.raises(PermafrostError, match=f"params.{name}"):
        ours.accumulate()


def test_nothing_that_is_given_is_changed_and_all_can_be_repeated():
    truth, results = case(13, "segm")
    before = copy.deepcopy((truth, results))
    data = cocoeval.COCO(truth)
    ours = cocoeval.COCOeval(data, data.loadRes(results), "segm")
    ours.params.useCats = 0
    quiet(lambda: (ours.evaluate(), ours.accumulate(), ours.summarize()))
    first = ours.stats
    quiet(lambda: (ours.evaluate(), ours.accumulate(), ours.summarize()))
    assert first[0] > 0 and np.array_equal(ours.stats, first)
    assert ours.evalImgs and len(ours.cocoDt.anns) == len(results)
    assert (truth, results) == before


def test_what_follows_from_an_evaluation_follows_here_too():
    from permafrost.metrics.detection.analysis import error_kinds

    truth, results = case(14, "bbox")
    ours, _ = run(cocoeval.COCOeval, *indexed(cocoeval.COCO, truth, results), "bbox")
    assert error_kinds(ours.evaluation).precision == pytest.approx(ours.stats[0])
    assert np.array_equal(ours.evaluation.stats, ours.stats)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda data: data.loadRes("/nowhere/found.json"), "does not exist"),
        (lambda data: data.loadRes({"a": 1}), "must be a list"),
        (lambda data: data.loadRes([{"image_id": 99999, "bbox": [0, 0, 1, 1]}]).anns, "image_id"),
        (lambda data: data.loadRes([{"image_id": 1, "score": 1}]).anns, "neither bbox"),
        (lambda data: data.showAnns([]), "not available"),
        (lambda data: data.download(), "not available"),
        (lambda data: cocoeval.COCO([1]), "must be an object"),
        (lambda data: cocoeval.COCO({"images": [{}]}).imgs, r"has no id \(|images\[0\]"),
        (lambda data: cocoeval.COCOeval(data, data, "boxes"), "no iou_type 'boxes'"),
    ],
)
def test_mistakes_are_named(call, words):
    truth, _ = case(15, "bbox")
    truth["images"][0]["id"] = 1
    with pytest.raises(PermafrostError, match=words):
        call(cocoeval.COCO({**truth, "annotations": []}))
