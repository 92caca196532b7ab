"""The evaluator as a whole: modes, orders, inputs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection import matching as matching_module
from permafrost.metrics.detection import pairs as pairs_module


def same(one, two) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("precision", "recall", "scores")
    ) and np.array_equal(one.stats, two.stats, equal_nan=True)


@pytest.mark.parametrize("geometry", ["bbox", "segm", "keypoints", "boundary"])
def test_both_modes_agree_where_no_quirk_is_met(geometry):
    made = "segm" if geometry == "boundary" else geometry
    truth, results = coco_case(1, ties=False, whole=False, geometry=made, images=6)
    strict, corrected = (
        evaluate(truth, results, iou_type=geometry, mode=mode) for mode in ("strict", "corrected")
    )
    assert same(strict, corrected) and strict.stats[0] > 0


@pytest.mark.parametrize("use_categories", [True, False])
@pytest.mark.parametrize("geometry", ["bbox", "segm", "keypoints"])
def test_corrected_results_do_not_depend_on_the_order_of_the_file(geometry, use_categories):
    truth, results = coco_case(2, geometry=geometry, images=6, detections=20)
    rng = np.random.default_rng(0)
    first = evaluate(truth, results, iou_type=geometry, use_categories=use_categories)
    for _ in range(3):
        mixed = [results[i] for i in rng.permutation(len(results))]
        again = evaluate(truth, mixed, iou_type=geometry, use_categories=use_categories)
        assert same(first, again)


def test_strict_results_do_depend_on_it():
    truth, results = coco_case(2, images=6, detections=20)
    rng = np.random.default_rng(0)
    found = {
        evaluate(
            truth,
            [results[i] for i in rng.permutation(len(results))],
            iou_type="bbox",
            mode="strict",
        ).stats[0]
        for _ in range(5)
    }
    assert len(found) > 1


def test_nothing_that_is_given_is_changed():
    truth, results = coco_case(3, geometry="segm", images=4)
    before = copy.deepcopy((truth, results))
    for mode in ("strict", "corrected"):
        evaluate(truth, results, iou_type="segm", mode=mode)
        evaluate(truth, results, iou_type="bbox", mode=mode)
    assert (truth, results) == before


def test_blocks_do_not_matter(monkeypatch):
    truth, results = coco_case(4, truths=12, detections=40, images=5, categories=2)
    whole = evaluate(truth, results, iou_type="bbox")
    monkeypatch.setattr(pairs_module, "_BLOCK", 7)
    monkeypatch.setattr(matching_module, "_BLOCK", 40)
    assert same(whole, evaluate(truth, results, iou_type="bbox"))


def test_data_frames_give_the_same():
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    truth, results = coco_case(5, ignores=0.3)
    expected = evaluate(truth, results, iou_type="bbox")
    frames = {name: pandas.DataFrame(rows) for name, rows in truth.items()}
    assert frames["annotations"]["ignore"].isna().any()
    assert same(expected, evaluate(frames, pandas.DataFrame(results), iou_type="bbox"))
    tables = {name: arrow.Table.from_pandas(frame) for name, frame in frames.items()}
    assert same(expected, evaluate(tables, arrow.Table.from_pylist(results), iou_type="bbox"))


def test_words_may_be_identities():
    truth, results = coco_case(6)
    expected = evaluate(truth, results, iou_type="bbox")
    for entry in [*truth["annotations"], *results]:
        entry["image_id"] = f"image {entry['image_id']:04d}"
    for image in truth["images"]:
        image["id"] = f"image {image['id']:04d}"
    assert same(expected, evaluate(truth, results, iou_type="bbox"))


def test_the_summary_of_each_kernel_has_the_familiar_length():
    truth, results = coco_case(7)
    assert len(evaluate(truth, results, iou_type="bbox").stats) == 12
    federated = evaluate(federate(truth, 0), results, iou_type="bbox", lvis=True)
    assert len(federated.stats) == 13 and federated.precision.ndim == 4
    truth, results = coco_case(7, geometry="keypoints")
    assert len(evaluate(truth, results, iou_type="keypoints").stats) == 10


def test_lvis_without_frequencies_warns_and_leaves_the_groups_undefined():
    truth, results = coco_case(8)
    truth = federate(truth, 0)
    for category in truth["categories"]:
        del category["frequency"]
    found = evaluate(truth, results, iou_type="bbox", lvis=True)
    values = dict(zip(found.names, found.stats, strict=True))
    assert values["APr"] == values["APc"] == values["APf"] == -1 and values["AP"] >= 0
    assert any("no frequency" in text for text in found.warnings)


def test_per_category_precision_averages_to_the_headline():
    truth, results = coco_case(9)
    found = evaluate(truth, results, iou_type="bbox")
    each = found.average_precision()
    assert found.stats[0] == pytest.approx(each[each > -1].mean(), abs=1e-12)
    each = found.average_precision(threshold=0.5)
    assert found.stats[1] == pytest.approx(each[each > -1].mean(), abs=1e-12)


def test_what_is_kept_of_the_matching_is_consistent():
    truth, results = coco_case(10, detections=20)
    found = evaluate(truth, results, iou_type="bbox")
    matching = found.matching
    for area in range(len(found.axes.area_names)):
        for threshold in range(len(found.axes.thresholds)):
            taken = matching.matched(area, threshold)
            regular = taken[taken >= 0]
            regular = regular[~found.truths.crowd[found.cells.truths[regular]]]
            assert len(np.unique(regular)) == len(regular)
            back = matching.truth_matched(area, threshold)
            assert set(np.flatnonzero(back >= 0)) == set(taken[taken >= 0])
            hits = matching.hits()[:, area, threshold]
            assert not (hits & matching.excused()[:, area, threshold]).any()
    assert (matching.similarity[matching.column >= 0] >= 0.5).all()
