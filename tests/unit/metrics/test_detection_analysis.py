"""Tables, confusions, kinds of errors, oLRP and calibration against plain recounts."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.analysis import (
    calibrate,
    category_table,
    confusion_matrix,
    curve_table,
    detection_table,
    error_kinds,
    image_table,
    optimal_lrp,
    pair_table,
)


def case(seed=1, **options):
    return coco_case(seed, **{"ties": False, "whole": False, "detections": 12, **options})


def test_tables_agree_with_each_other_and_with_the_scores():
    truth, results = case()
    found = evaluate(truth, results, iou_type="bbox")
    images, categories = image_table(found), category_table(found)
    detections = detection_table(found)
    assert images["n_dt"].sum() == categories["n_dt"].sum() == len(results)
    regular = [a for a in truth["annotations"] if not a["iscrowd"]]
    assert images["n_gt"].sum() == categories["n_gt"].sum() == len(regular)
    status = detections["status"]
    for name, column in (("tp", "tp50"), ("fp", "fp50")):
        assert (status == name).sum() == images[column].sum()
    assert (images["tp50"] + images["fn50"] == images["n_gt"]).all()
    assert (images["tp75"] <= images["tp50"]).all()
    assert np.array_equal(detections["score"], [entry["score"] for entry in results])
    assert (detections["best_iou"][status == "tp"] >= 0.5).all()
    partner = {entry["id"]: entry for entry in truth["annotations"]}
    for i, entry in enumerate(results):
        if detections["truth_id"][i] is not None:
            assert partner[detections["truth_id"][i]]["image_id"] == entry["image_id"]
    defined = categories["ap"] > -1
    assert found.stats[0] == pytest.approx(categories["ap"][defined].mean())
    assert found.stats[8] == pytest.approx(categories["ar_100"][defined].mean())


def test_the_mean_iou_of_an_image_is_that_of_its_hits():
    truth, results = case(2)
    found = evaluate(truth, results, iou_type="bbox")
    images, pairs = image_table(found), pair_table(found)
    detections = detection_table(found)
    likeness = {
        (d, t): iou
        for d, t, iou in zip(pairs["detection_id"], pairs["truth_id"], pairs["iou"], strict=True)
    }
    for i, image in enumerate(images["image_id"]):
        mine = (detections["image_id"] == image) & (detections["status"] == "tp")
        values = [
            likeness[d, t]
            for d, t in zip(
                detections["detection_id"][mine], detections["truth_id"][mine], strict=True
            )
        ]
        if values:
            assert images["tp50_mean_iou"][i] == pytest.approx(np.mean(values))
        else:
            assert np.isnan(images["tp50_mean_iou"][i])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"recall_grid": [0.1, 0.5]},
        {"iou_thresholds": [0.6]},
        {"lvis": True},
        {"use_categories": False},
    ],
    ids=str,
)
def test_curves_are_the_tensors_without_what_is_not_there(options):
    truth, results = case(3)
    truth["categories"].append({"id": 99, "name": "unicorn"})
    if options.get("lvis"):
        truth = federate(truth, 1)
    found = evaluate(truth, results, iou_type="bbox", **options)
    areas, caps = found.axes.area_names, found.axes.max_dets
    table = curve_table(found, areas=areas, caps=caps)
    rows = {
        tuple(
            column[i] if column[i] == column[i] else None for column in list(table.values())[:6]
        ): (
            table["precision"][i],
            table["score"][i],
        )
        for i in range(len(table["recall"]))
    }
    assert len(rows) == len(table["recall"])
    categories = found.truths.categories
    names = list(zip(categories.ids.tolist(), categories.names, strict=True))
    if not found.settings.use_categories:
        names = [(None, "all categories")]
    curves, axes = found.curves, found.axes
    expected = set()
    for a, area in enumerate(areas):
        for m, cap in enumerate(caps):
            there = [k for k in range(len(names)) if curves.recall[0, k, a, m] > -1]
            for threshold in (0.5, 0.75, None):
                if threshold is not None and threshold not in axes.thresholds:
                    continue
                for r, recall in enumerate(axes.recall_grid):
                    means = []
                    for k in there:
                        key = (*names[k], threshold, area, cap, recall)
                        values = curves.precision[:, r, k, a, m]
                        if threshold is None:
                            assert rows[key][0] == pytest.approx(values.mean())
                            assert np.isnan(rows[key][1])
                        else:
                            t = axes.threshold_index(threshold)
                            assert rows[key][0] == values[t]
                            if curves.recall[t, k, a, m] < recall:
                                assert values[t] == 0 and np.isnan(rows[key][1])
                            else:
                                assert rows[key][1] == curves.scores[t, r, k, a, m]
                        means.append(rows[key][0])
                        expected.add(key)
                    if means and found.settings.use_categories:
                        key = (None, "__mean__", threshold, area, cap, recall)
                        assert rows[key][0] == pytest.approx(np.mean(means))
                        expected.add(key)
    assert set(rows) == expected
    assert set(curve_table(found)["area"]) == {"all"}
    assert set(curve_table(found)["max_dets"]) == {caps[-1]}


def test_too_many_pairs_are_refused(monkeypatch):
    from permafrost.metrics.detection.analysis import tables

    monkeypatch.setattr(tables, "MOST_PAIRS", 3)
    with pytest.raises(PermafrostError, match="higher likeness"):
        pair_table(evaluate(*case(), iou_type="bbox"))


def test_confusions_counted_by_hand():
    boxes = [[0, 0, 50, 50], [100, 0, 50, 50], [200, 0, 50, 50], [300, 0, 80, 80]]
    truth = {
        "images": [{"id": 1, "width": 500, "height": 500}],
        "categories": [{"id": 1}, {"id": 2}],
        "annotations": [
            {"id": i + 1, "image_id": 1, "category_id": k, "bbox": box, "area": 2500, "iscrowd": c}
            for i, (box, k, c) in enumerate(zip(boxes, [1, 1, 2, 1], [0, 0, 0, 1], strict=True))
        ],
    }
    results = [
        {"image_id": 1, "category_id": k, "bbox": box, "score": score}
        for box, k, score in [
            (boxes[0], 1, 0.9),
            (boxes[1], 2, 0.8),
            ([0, 300, 9, 9], 2, 0.7),
            ([310, 10, 20, 20], 2, 0.6),  # inside the crowd: counts nowhere
        ]
    ]
    found = evaluate(truth, results, iou_type="bbox")
    assert confusion_matrix(found).tolist() == [[1, 1, 0], [0, 0, 1], [0, 1, 0]]
    pooled = evaluate(truth, results, iou_type="bbox", use_categories=False)
    with pytest.raises(PermafrostError, match="pooled"):
        confusion_matrix(pooled)


def test_confusions_of_many_categories_are_pairs_and_no_matrix(monkeypatch):
    from permafrost.metrics.detection.analysis import confused_pairs, confusion

    found = evaluate(*case(), iou_type="bbox")
    matrix = confusion_matrix(found)
    true, predicted, counts = confused_pairs(found)
    assert (true.tolist(), predicted.tolist()) == tuple(p.tolist() for p in np.nonzero(matrix))
    assert matrix[true, predicted].tolist() == counts.tolist()
    monkeypatch.setattr(confusion, "_MOST_BYTES", 100)
    with pytest.raises(PermafrostError, match="matrix of 4 categories would take.*confused_pairs"):
        confusion_matrix(found)


def test_a_hundred_false_alarms_of_one_category_hide_no_hit_of_another():
    truth, results = case(3, images=1, categories=2, truths=0, detections=0)
    image = truth["images"][0]["id"]
    hit = [10.0, 10.0, 30.0, 30.0]
    truth["annotations"] = [
        {"id": 1, "image_id": image, "category_id": 7, "bbox": hit, "area": 900, "iscrowd": 0}
    ]
    results = [
        {"image_id": image, "category_id": 2, "bbox": [60.0, 5.0, 9.0, 9.0], "score": 0.9}
        for _ in range(100)
    ] + [{"image_id": image, "category_id": 7, "bbox": hit, "score": 0.1}]
    found = evaluate(truth, results, iou_type="bbox")
    assert confusion_matrix(found)[1].tolist() == [0, 1, 0]
    kinds = error_kinds(found)
    assert kinds.gain["missed"] == 0 and kinds.counts["missed"] == 0


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "boundary"])
def test_leaving_out_errors_gains_what_a_new_evaluation_says(iou_type):
    geometry = "bbox" if iou_type == "bbox" else "segm"
    truth, results = case(4, geometry=geometry, images=6)
    found = evaluate(truth, results, iou_type=iou_type)
    kinds = error_kinds(found)
    assert kinds.precision == found.stats[0]
    status = detection_table(found)["status"]
    alarms = sum(kinds.counts[kind] for kind in kinds.counts if kind != "missed")
    assert alarms == (status == "fp").sum() > 0
    rest = [entry for entry, what in zip(results, status, strict=True) if what != "fp"]
    again = evaluate(truth, rest, iou_type=iou_type)
    assert kinds.no_false_alarms == pytest.approx(again.stats[0] - found.stats[0], abs=1e-12)
    # truths that nothing found, ignored
    found_ids = set(detection_table(found)["truth_id"].tolist())
    lenient = copy.deepcopy(truth)
    for entry in lenient["annotations"]:
        if entry["id"] not in found_ids:
            entry["ignore"] = 1
    again = evaluate(lenient, results, iou_type=iou_type)
    assert kinds.gain["missed"] == pytest.approx(again.stats[0] - found.stats[0], abs=1e-12)


@pytest.mark.parametrize("geometry", ["bbox", "segm"])
def test_one_error_of_each_kind(geometry):
    truth, _ = case(5, images=1, categories=2, truths=0, detections=0)
    image = truth["images"][0]  # 60 high, 80 wide

    def entry(box, category, **more):
        x, y, w, h = box
        ring = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        return {
            "image_id": image["id"],
            "category_id": category,
            "bbox": [float(v) for v in box],
            "segmentation": [[float(v) for v in ring[0]]],
            **more,
        }

    truth["annotations"] = [
        entry(box, category, id=i + 1, area=400.0, iscrowd=0)
        for i, (box, category) in enumerate([((0, 0, 20, 20), 2), ((40, 0, 20, 20), 7)])
    ]
    results = [
        entry((0, 0, 20, 20), 2, score=0.9),
        entry((0, 0, 20, 19), 2, score=0.8),  # duplicate
        entry((40, 0, 20, 20), 2, score=0.7),  # category
        entry((40, 12, 20, 20), 7, score=0.6),  # localisation
        entry((48, 12, 20, 20), 2, score=0.5),  # both
        entry((0, 35, 20, 20), 2, score=0.4),  # background
    ]
    found = evaluate(truth, results, iou_type=geometry)
    kinds = error_kinds(found)
    # the localisation error leaves its truth unmatched
    assert kinds.counts == dict.fromkeys(kinds.counts, 1)
    assert kinds.gain["category"] > 0.4 and kinds.gain["localisation"] > 0.4
    assert kinds.gain["background"] == kinds.gain["duplicate"] == 0


def test_nearer_to_another_category_is_no_error_of_localisation():
    truth, results = case(5, images=1, categories=2, truths=0, detections=0)
    image = truth["images"][0]["id"]
    common = {"image_id": image, "area": 400, "iscrowd": 0}
    truth["annotations"] = [
        {"id": 1, "category_id": 2, "bbox": [0, 0, 20, 20], **common},
        {"id": 2, "category_id": 7, "bbox": [10, 0, 20, 20], **common},
    ]
    # a fifth of its own truth, a third of the other
    results = [{"image_id": image, "category_id": 2, "bbox": [8, 9, 20, 20], "score": 0.5}]
    counts = error_kinds(evaluate(truth, results, iou_type="bbox")).counts
    assert counts["both"] == 1 and counts["localisation"] == 0


def test_kinds_of_errors_are_refused_where_they_are_not_defined():
    truth, results = case(1, geometry="keypoints")
    with pytest.raises(PermafrostError, match="not defined"):
        error_kinds(evaluate(truth, results, iou_type="keypoints"))
    truth, results = case(1)
    with pytest.raises(PermafrostError, match="not defined"):
        error_kinds(evaluate(federate(truth, 1), results, iou_type="bbox", lvis=True))
    with pytest.raises(PermafrostError, match="0 < near"):
        error_kinds(evaluate(truth, results, iou_type="bbox"), near=0.6)


@pytest.mark.parametrize("geometry", ["bbox", "keypoints"])
def test_optimal_lrp_is_the_smallest_of_a_plain_scan(geometry):
    truth, results = case(6, geometry=geometry, detections=20)
    found = evaluate(truth, results, iou_type=geometry)
    table, pairs = detection_table(found), pair_table(found, lowest=0.5)
    likeness = {
        (d, t): iou
        for d, t, iou in zip(pairs["detection_id"], pairs["truth_id"], pairs["iou"], strict=True)
    }
    lrp, categories = optimal_lrp(found), category_table(found)
    for k, category in enumerate(categories["category_id"]):
        own = table["category_id"] == category
        best = (np.inf, None)
        for score in np.linspace(0, 1, 101):
            kept = own & (table["score"] >= score)
            hits = kept & (table["status"] == "tp")
            alarms = (kept & (table["status"] == "fp")).sum()
            errors = sum(
                (1 - likeness[table["detection_id"][i], table["truth_id"][i]]) / 0.5
                for i in np.flatnonzero(hits)
            )
            total = categories["n_gt"][k] + alarms
            value = (errors + total - hits.sum()) / total if total else 0
            best = min(best, (value, -score))
        assert lrp.value[k] == pytest.approx(best[0])
        assert lrp.score[k] == pytest.approx(-best[1])
    assert lrp.means["olrp"] == pytest.approx(np.nanmean(lrp.value))


def test_optimal_lrp_without_hits_and_without_truths():
    truth, results = case(7, categories=3)
    truth["annotations"] = [a for a in truth["annotations"] if a["category_id"] != 2]
    results = [entry for entry in results if entry["category_id"] != 7]
    lrp = optimal_lrp(evaluate(truth, results, iou_type="bbox"))
    assert np.isnan(lrp.value[0])
    assert lrp.value[1] == 1 and lrp.misses[1] == 1 and np.isnan(lrp.score[1])


def test_calibration_is_that_of_plain_counts():
    truth, results = case(8, detections=40, images=20)
    found = evaluate(truth, results, iou_type="bbox")
    result = calibrate(found, bins=5)
    table = detection_table(found)
    kept = (table["status"] != "ignored") & (table["score"] >= 0.05)
    scores, hit = table["score"][kept], table["status"][kept] == "tp"
    expected = 0.0
    for b in range(5):
        low, high = result.edges[b], result.edges[b + 1]
        own = (scores >= low) & ((scores < high) | (b == 4))
        assert result.counts[b] == own.sum() > 0
        assert result.accuracy[b] == pytest.approx(hit[own].mean())
        assert result.low[b] <= result.accuracy[b] <= result.high[b]
        expected += own.mean() * abs(hit[own].mean() - scores[own].mean())
    assert result.expected == pytest.approx(expected)
    assert result.macro == pytest.approx(np.nanmean(result.per_category))
    with pytest.raises(PermafrostError, match="no counted detection"):
        calibrate(found, lowest_score=2.0)
