"""VOC's rules equal the loop of DOTA_devkit, written out from its definition, with shapely's overlaps."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from helpers.predictions.oriented import in_form, oriented_case, ring
from permafrost.evaluators.detection import evaluate_voc
from permafrost.evaluators.intervals.voc import VocScores
from permafrost.metrics.detection.voc import average_precision


def oriented_overlaps(box, boxes) -> np.ndarray:
    a, b = (
        shapely.polygons(np.reshape(box, (4, 2))),
        shapely.polygons(np.reshape(boxes, (-1, 4, 2))),
    )
    shared = shapely.area(shapely.intersection(a, b))
    return shared / (shapely.area(a) + shapely.area(b) - shared)


def upright_overlaps(extra):
    """Of x, y, width, height; `extra` 1: the edges' pixels belong to the boxes."""

    def overlaps(box, boxes) -> np.ndarray:
        (x, y, w, h), others = box, np.asarray(boxes).T
        right, bottom = (
            np.minimum(x + w, others[0] + others[2]),
            np.minimum(y + h, others[1] + others[3]),
        )
        width = np.maximum(right - np.maximum(x, others[0]) + extra, 0)
        height = np.maximum(bottom - np.maximum(y, others[1]) + extra, 0)
        shared = width * height
        areas = (others[2] + extra) * (others[3] + extra)
        return shared / ((w + extra) * (h + extra) + areas - shared)

    return overlaps


def voc_eval(annotations, detections, category, threshold, points, overlaps, key) -> float:
    """One class, detection by detection."""
    of_class = [e for e in annotations if e["category_id"] == category]
    found = [e for e in detections if e["category_id"] == category]
    truths: dict = {}
    for entry in of_class:
        truths.setdefault(entry["image_id"], []).append(entry)
    taken = {entry["id"]: False for entry in of_class}
    positives = sum(not entry["ignore"] for entry in of_class)
    right, wrong = [], []
    for entry in sorted(found, key=lambda e: (-e["score"], e["image_id"])):
        own = truths.get(entry["image_id"], [])
        best, place = -np.inf, None
        if own:
            each = overlaps(entry[key], [truth[key] for truth in own])
            best, place = each.max(), own[int(each.argmax())]
        hit = best > threshold
        if hit and place["ignore"]:
            right.append(0)
            wrong.append(0)
            continue
        fresh = bool(hit) and not taken[place["id"]]
        right.append(int(fresh))
        wrong.append(int(not fresh))
        if fresh:
            taken[place["id"]] = True
    if not positives:
        return np.nan
    right, wrong = np.cumsum(right), np.cumsum(wrong)
    recall = right / float(positives)
    precision = right / np.maximum(right + wrong, np.finfo(np.float64).eps)
    if points == 11:
        area = 0.0
        for t in np.arange(0.0, 1.1, 0.1):
            area += (np.max(precision[recall >= t]) if np.sum(recall >= t) else 0) / 11.0
        return area
    recall = np.concatenate(([0.0], recall, [1.0]))
    precision = np.concatenate(([0.0], precision, [0.0]))
    for i in range(precision.size - 1, 0, -1):
        precision[i - 1] = np.maximum(precision[i - 1], precision[i])
    change = np.where(recall[1:] != recall[:-1])[0]
    return np.sum((recall[change + 1] - recall[change]) * precision[change + 1])


def case(seed: int, form):
    truth, found = oriented_case(seed, images=30)
    random = np.random.default_rng(seed)
    annotations = in_form(truth["annotations"], form)
    for entry in annotations:
        entry.pop("iscrowd")
        entry["ignore"] = int(random.random() < 0.2)
    detections = in_form(found, form)
    # without ties, whose order DOTA_devkit's sorting does not define
    scores = random.permutation(len(detections)) / len(detections)
    for entry, score in zip(detections, scores.tolist(), strict=True):
        entry["score"] = score
    return {**truth, "annotations": annotations}, detections


def upright(entry):
    x, y, width, height = np.round(entry["obb"][:4]).tolist()
    return {"bbox": [x, y, max(width, 1.0), max(height, 1.0)]}


KINDS = {
    "oriented": (lambda e: {"poly": ring(e)}, oriented_overlaps, "poly", {"iou_type": "oriented"}),
    "upright": (upright, upright_overlaps(0), "bbox", {"iou_type": "bbox"}),
    "inclusive": (upright, upright_overlaps(1), "bbox", {"iou_type": "bbox", "inclusive": True}),
}


@pytest.mark.parametrize("protocol", ["voc07", "voc12"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_every_class_and_threshold(kind, protocol, seed):
    form, overlaps, key, options = KINDS[kind]
    truth, found = case(seed, form)
    thresholds = [0.3, 0.5, 0.75]
    ours = evaluate_voc(
        truth, found, protocol=protocol, mode="strict", iou_thresholds=thresholds, **options
    )
    points = 11 if protocol == "voc07" else None
    expected = [
        [voc_eval(truth["annotations"], found, k, t, points, overlaps, key) for k in (1, 2, 3)]
        for t in thresholds
    ]
    assert np.nanmin(expected) < np.nanmax(expected)
    assert ours.average_precision == pytest.approx(np.array(expected), abs=1e-13, nan_ok=True)


@pytest.mark.parametrize("protocol", ["voc07", "voc12"])
def test_resamples_are_evaluations_of_copied_images(protocol):
    form, _, _, options = KINDS["oriented"]
    truth, found = case(4, form)
    images = [image["id"] for image in truth["images"]]
    counts = np.random.default_rng(0).poisson(1.0, (len(images), 5))
    scores = VocScores(evaluate_voc(truth, found, protocol=protocol, **options))
    moved = scores.replicates(counts)
    for column in range(counts.shape[1]):
        copies = [(i, n) for i, k in zip(images, counts[:, column], strict=True) for n in range(k)]
        name = {copy: number for number, copy in enumerate(copies, 1)}
        annotations, detections = [], []
        for (image, _), number in name.items():
            for source, target in ((truth["annotations"], annotations), (found, detections)):
                target += [{**e, "image_id": number} for e in source if e["image_id"] == image]
        annotations = [{**e, "id": n} for n, e in enumerate(annotations, 1)]
        drawn = {**truth, "annotations": annotations, "images": [{"id": n} for n in name.values()]}
        expected = VocScores(evaluate_voc(drawn, detections, protocol=protocol, **options)).values
        for key, value in expected.items():
            assert moved[key][column] == pytest.approx(value, abs=1e-13, nan_ok=True), key


def test_a_recall_is_reached_where_it_is():
    # 3 of 10 truths, all right: the points 0, 0.1, 0.2 and 0.3
    right, wrong = np.ones((3, 1), int), np.zeros((3, 1), int)
    exact, _ = average_precision(right, wrong, np.array([10]), 11)
    devkit, _ = average_precision(right, wrong, np.array([10]), 11, strict=True)
    assert exact[0] == pytest.approx(4 / 11) and devkit[0] == pytest.approx(3 / 11)
    assert np.arange(0.0, 1.1, 0.1)[3] > 3 / 10


def test_the_rules_where_they_differ_from_cocos():
    square = [0, 0, 10, 0, 10, 10, 0, 10]
    near = [1, 0, 11, 0, 11, 10, 1, 10]
    truth = {
        "images": [{"id": 1}],
        "categories": [{"id": 1, "name": "a"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "poly": square},
            {"id": 2, "image_id": 1, "category_id": 1, "poly": near},
        ],
    }
    # both detections overlap the first truth most: the second is wrong, although the other truth is free
    found = [
        {"image_id": 1, "category_id": 1, "poly": square, "score": score} for score in (0.9, 0.8)
    ]
    ours = evaluate_voc(truth, found, iou_type="oriented", protocol="voc12")
    assert ours.right.ravel().tolist() == [True, False]
    assert ours.wrong.ravel().tolist() == [False, True]
    # a detection at the threshold finds nothing
    half = [0, 0, 5, 0, 5, 10, 0, 10]
    at = evaluate_voc(truth, [{**found[0], "poly": half}], iou_type="oriented")
    assert at.wrong.all()
    # a difficult truth is neither right nor wrong, however often it is met
    truth["annotations"][0]["ignore"] = 1
    hard = evaluate_voc(truth, found, iou_type="oriented")
    assert not hard.right.any() and not hard.wrong.any() and hard.positives.sum() == 1


def test_nothing_detected_and_no_truth():
    truth, found = case(5, KINDS["oriented"][0])
    assert (evaluate_voc(truth, [], iou_type="oriented").average_precision == 0).all()
    empty = evaluate_voc({**truth, "annotations": []}, found, iou_type="oriented")
    assert np.isnan(empty.average_precision).all()
