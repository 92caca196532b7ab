"""Statistics on resamples of the images against evaluations of images that are really copied."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection import resampled
from permafrost.metrics.detection.accumulate import Ranked
from permafrost.metrics.detection.resampled import replicates
from permafrost.metrics.detection.summarise import Statistic

IMAGES = 9


def copied(truth, results, ids, counts):
    """Truth and detections with every image as often as `counts` say, copies numbered in a row."""
    entries = {image["id"]: image for image in truth["images"]}
    images, annotations, found = [], [], []
    for identity in np.repeat(ids, counts).tolist():
        number = len(images) + 1
        images.append({**entries[identity], "id": number})
        for source, target in ((truth["annotations"], annotations), (results, found)):
            for entry in source:
                if entry["image_id"] == identity:
                    target.append({**entry, "image_id": number, "id": len(target) + 1})
    return {**truth, "images": images, "annotations": annotations}, found


def check(truth, results, copied_results=None, *, resamples=5, seed=0, **options):
    found = evaluate(truth, results, **options)
    counts = np.random.default_rng(seed).poisson(1, (len(truth["images"]), resamples))
    counts[:, 0] = 1
    got = replicates(found, list(found.statistics), counts, each=1)
    for b in range(resamples):
        again = evaluate(
            *copied(
                truth, copied_results or results, found.truths.images.ids.tolist(), counts[:, b]
            ),
            **options,
        )
        expected = np.array([again.value(statistic) for statistic in found.statistics])
        expected = np.where(expected == -1, np.nan, expected)
        np.testing.assert_allclose(got.values[:, b], expected, rtol=0, atol=1e-13)
        each = again.average_precision()
        each = np.where(each == -1, np.nan, each)
        if found.statistics[0].frequency is None and options.get("mode") != "strict":
            np.testing.assert_allclose(got.categories[0, :, b], each, rtol=0, atol=1e-13)
    return found, got


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "strict"},
        {"use_categories": False},
        {"lvis": True},
        {"max_dets": [2, 4, 100], "iou_thresholds": [0.3, 0.5, 0.75]},
        {"area_ranges": {"all": (0, 1e10), "tiny": (0, 900)}, "max_dets": [3]},
        {"recall_grid": [0.0, 0.01, 0.02, 0.03, 0.9, 0.95, 1.0]},
        {"recall_grid": [0.3, 0.31, 1 / 3, 0.5]},
        {"recall_grid": np.linspace(0, 1, 11), "mode": "strict"},
        {"recall_grid": [1.0]},
        {"recall_grid": [0.0]},
    ],
    ids=str,
)
def test_weighing_equals_copying_the_images(seed, options):
    # explicit ignores of 0 make crowds that count, which can be hit many times: recall beyond 1
    truth, results = coco_case(
        seed, ties=False, images=IMAGES, truths=9, detections=20, ignores=0.2, scale=2
    )
    truth = federate(truth, seed) if options.get("lvis") else truth
    check(truth, results, iou_type="bbox", seed=seed, **options)


@pytest.mark.parametrize("geometry", ["keypoints", "segm"])
def test_weighing_equals_copying_with_other_kernels(geometry):
    truth, results = coco_case(3, ties=False, images=5, geometry=geometry, scale=1.5)
    check(truth, results, iou_type=geometry, resamples=3)


def test_ties_between_images_are_decided_as_for_copies():
    """Equal scores, but none twice in one category of one image: copies stay together."""
    truth, results = coco_case(4, ties=True, images=IMAGES, detections=20)
    seen: dict = {}
    for entry in results:
        cell = entry["image_id"], entry["category_id"]
        seen[cell] = seen.get(cell, 0) + 1
        entry["score"] = 1 - seen[cell] / 64
    check(truth, results, iou_type="bbox")
    check(truth, results, iou_type="bbox", mode="strict")


def test_of_ties_within_an_image_each_copy_follows_its_original():
    """Equal scores in one cell: as if the ranking of the whole were written into the scores."""
    truth, results = coco_case(5, ties=True, images=IMAGES, detections=20)
    found = evaluate(truth, results, iou_type="bbox")
    cells = found.cells
    order = np.lexsort((-found.detections.scores[cells.detections], cells.detection_bucket))
    distinct = [dict(entry) for entry in results]
    for place, row in enumerate(cells.detections[order].tolist()):
        distinct[row]["score"] = 1 - place / 4096
    again = evaluate(truth, distinct, iou_type="bbox")
    assert np.array_equal(found.precision, again.precision)
    check(truth, results, distinct, iou_type="bbox")


def test_every_image_once_is_the_score_itself():
    truth, results = coco_case(6, detections=20)
    found = evaluate(truth, results, iou_type="bbox")
    got = replicates(found, list(found.statistics), np.ones((12, 1), np.uint8))
    expected = np.where(found.stats == -1, np.nan, found.stats)
    np.testing.assert_allclose(got.values[:, 0], expected, rtol=0, atol=1e-14)


def test_blocks_of_resamples_do_not_matter(monkeypatch):
    truth, results = coco_case(7, detections=20)
    found = evaluate(truth, results, iou_type="bbox")
    counts = np.random.default_rng(1).poisson(1, (12, 50)).astype(np.uint8)
    whole = replicates(found, list(found.statistics), counts, each=2)
    monkeypatch.setattr(resampled, "_BLOCK_BYTES", 1)
    single = replicates(found, list(found.statistics), counts, each=2)
    assert np.array_equal(whole.values, single.values, equal_nan=True)
    assert np.array_equal(whole.categories, single.categories, equal_nan=True)


def test_nothing_to_find_is_undefined_and_what_was_not_evaluated_too():
    truth, results = coco_case(8)
    found = evaluate(truth, results, iou_type="bbox")
    absent = [
        Statistic("AP", "precision", None, "all", 7),
        Statistic("x", "recall", 0.51, "all", 1),
    ]
    got = replicates(found, [*found.statistics, *absent], np.zeros((12, 2), np.uint8))
    assert np.isnan(got.values).all()
    assert np.isnan(replicates(found, absent, np.ones((12, 2), np.uint8)).values).all()


def test_an_evaluation_of_nothing_has_replicates_too():
    truth, _ = coco_case(9)
    found = evaluate(truth, [], iou_type="bbox")
    got = replicates(found, list(found.statistics), np.ones((12, 3), np.uint8))
    assert (got.values[0] == 0).all()
    empty = evaluate(
        {"images": [], "annotations": [], "categories": []},
        [],
        iou_type="bbox",
        use_categories=False,
    )
    assert np.isnan(
        replicates(empty, list(empty.statistics), np.ones((0, 3), np.uint8)).values
    ).all()


def crowded_case(seed: int, **options):
    """Ties, crowds that count, extreme scores, an image and a category with nothing, detections and no truth."""
    truth, results = coco_case(seed, images=IMAGES, truths=9, detections=20, ignores=0.2, **options)
    for place, score in enumerate((0.0, 5e-324, 1e9, -1e9, 1.0)):
        results[place]["score"] = score
    empty = truth["images"][0]["id"]
    truth["annotations"] = [one for one in truth["annotations"] if one["image_id"] != empty]
    return truth, results


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "strict"}, {"use_categories": False}, {"lvis": True}, {"max_dets": [1, 3, 100]}],
    ids=str,
)
def test_curves_of_images_drawn_once_are_those_of_the_evaluation_bit_by_bit(seed, options):
    """A grid of one recall: the mean over it is the precision there, and nothing is rounded anew."""
    truth, results = crowded_case(seed)
    truth = federate(truth, seed) if options.get("lvis") else truth
    compared = 0
    for want in [0.0, 0.01, 0.29, 1 / 3, 0.5, 0.57, 0.99, 1.0]:
        found = evaluate(truth, results, iou_type="bbox", recall_grid=[want], **options)
        source = resampled.ResampledCurves(found, list(found.statistics))
        curves = source.curves(np.ones((len(found.truths.images), 2), np.int32))
        for (area, cap), (precision, recall) in curves.items():
            known = found.curves.precision[:, 0, :, area, cap]
            if source.wanted[area, cap]:
                assert np.array_equal(
                    precision[..., 1], np.where(known == -1, np.nan, known), equal_nan=True
                )
            known = found.curves.recall[:, :, area, cap]
            assert np.array_equal(
                recall[..., 1], np.where(known == -1, np.nan, known), equal_nan=True
            )
            compared += np.count_nonzero(known > 0)
    assert compared > 50


def test_the_ranking_names_the_image_of_every_row():
    truth, results = coco_case(10)
    found = evaluate(truth, results, iou_type="bbox")
    scores = found.detections.scores[found.cells.detections]
    ranked = Ranked(found.cells, found.matching, scores)
    pairs = sorted(zip(ranked.image.tolist(), ranked.scores.tolist(), strict=True))
    detections = found.detections
    assert pairs == sorted(zip(detections.image.tolist(), detections.scores.tolist(), strict=True))
