"""The rules of COCO evaluation one by one, on cases small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.accumulate import hits_needed
from permafrost.metrics.detection.ragged import in_blocks, max_each, places_within, spans, sum_each

BOTH = pytest.mark.parametrize("mode", ["strict", "corrected"])


def truth_of(*annotations, categories=(1,), images=(1,)):
    """Ground truth of (box, further keys) in image 1 and category 1 unless said otherwise."""
    return {
        "images": [{"id": i, "width": 1000, "height": 1000} for i in images],
        "categories": [{"id": k, "name": f"kind {k}"} for k in categories],
        "annotations": [
            {
                "id": n + 1,
                "image_id": 1,
                "category_id": 1,
                "bbox": list(box),
                "area": box[2] * box[3],
                "iscrowd": 0,
                **more,
            }
            for n, (box, more) in enumerate(annotations)
        ],
    }


def found_of(*detections):
    """Detections of (box, score, further keys)."""
    return [
        {"image_id": 1, "category_id": 1, "bbox": list(box), "score": score, **more}
        for box, score, more in detections
    ]


def outcome(result, area=0, threshold=0):
    """Per detection in file order: id of its truth or None, and whether it is ignored."""
    cells, matching = result.cells, result.matching
    out = {}
    taken, ignored = matching.matched(area, threshold), matching.ignored(area, threshold)
    for row, place in enumerate(cells.detections):
        partner = None if taken[row] < 0 else result.truths.ids[cells.truths[taken[row]]]
        out[int(place)] = (partner, bool(ignored[row]))
    return [out[place] for place in range(len(out))]


BOX = (100, 100, 50, 50)
# a single hit has precision 1 / (1 + spacing of 1), as in pycocotools
PERFECT = 1 / (1 + np.spacing(1))


@BOTH
def test_a_likeness_equal_to_the_threshold_matches(mode):
    # half of the truth, exactly
    result = evaluate(
        truth_of((BOX, {})),
        found_of(((100, 100, 25, 50), 0.9, {})),
        iou_type="bbox",
        mode=mode,
    )
    assert outcome(result, threshold=0) == [(1, False)]
    assert outcome(result, threshold=1) == [(None, False)]


@BOTH
def test_perfect_overlap_matches_at_threshold_1(mode):
    result = evaluate(
        truth_of((BOX, {})),
        found_of((BOX, 0.9, {})),
        iou_type="bbox",
        mode=mode,
        iou_thresholds=[1.0],
    )
    assert outcome(result) == [(1, False)]


@BOTH
def test_equal_boxes_match_at_threshold_1_though_rounding_makes_their_overlap_less(mode):
    box, shorter = (42.2, 37.9, 21.0, 12.9), (42.2, 37.9, 21.0, 12.9 * (1 - 1e-9))
    for detected, found in ((box, 1), (shorter, None)):
        result = evaluate(
            truth_of((box, {})),
            found_of((detected, 0.9, {})),
            iou_type="bbox",
            mode=mode,
            iou_thresholds=[0.5, 1.0],
        )
        assert result.pairs.similarity[0] < 1
        assert outcome(result, threshold=1) == [(found, False)]


@BOTH
def test_boxes_that_touch_share_nothing(mode):
    result = evaluate(
        truth_of((BOX, {})),
        found_of(((150, 100, 50, 50), 0.9, {})),
        iou_type="bbox",
        mode=mode,
        iou_thresholds=[0.0],
    )
    # at threshold 0 everything matches; the likeness is what is asked here
    assert result.matching.similarity.max() == 0


@BOTH
def test_of_equally_good_truths_the_later_is_taken(mode):
    result = evaluate(
        truth_of((BOX, {}), (BOX, {})), found_of((BOX, 0.9, {})), iou_type="bbox", mode=mode
    )
    assert outcome(result) == [(2, False)]


@BOTH
def test_the_better_score_chooses_first_and_a_truth_is_taken_once(mode):
    near = (102, 100, 50, 50)
    result = evaluate(
        truth_of((BOX, {})), found_of((BOX, 0.3, {}), (near, 0.9, {})), iou_type="bbox", mode=mode
    )
    assert outcome(result) == [(None, False), (1, False)]


@BOTH
def test_a_truth_that_counts_is_preferred_to_a_better_crowd(mode):
    crowd = ((100, 100, 200, 200), {"iscrowd": 1})
    result = evaluate(
        truth_of(crowd, ((90, 100, 60, 50), {})),
        found_of((BOX, 0.9, {})),
        iou_type="bbox",
        mode=mode,
    )
    assert outcome(result) == [(2, False)]


@BOTH
def test_a_crowd_takes_many_small_detections_and_none_of_them_counts(mode):
    crowd = ((0, 0, 500, 500), {"iscrowd": 1})
    tiny = [((10 * i, 5, 8, 8), 0.9 - i / 10, {}) for i in range(4)]
    result = evaluate(truth_of(crowd), found_of(*tiny), iou_type="bbox", mode=mode)
    assert outcome(result, threshold=9) == [(1, True)] * 4
    assert (result.stats == -1).all()  # a crowd is nothing to find


@BOTH
def test_area_bounds_belong_to_both_ranges(mode):
    side = (100, 100, 32, 32)
    result = evaluate(truth_of((side, {})), found_of((side, 0.9, {})), iou_type="bbox", mode=mode)
    values = dict(zip(result.names, result.stats, strict=True))
    assert values["APs"] == values["APm"] == PERFECT and values["APl"] == -1


@BOTH
def test_an_unmatched_detection_of_another_size_does_not_count_but_a_matched_one_does(mode):
    small, large = (100, 100, 30, 30), (100, 100, 36, 30)
    result = evaluate(
        truth_of((small, {})),
        found_of((large, 0.9, {}), ((500, 500, 200, 200), 0.95, {})),
        iou_type="bbox",
        mode=mode,
    )
    area = result.axes.area_index("small")
    assert outcome(result, area=area) == [(1, False), (None, True)]
    assert outcome(result) == [(1, False), (None, False)]


@BOTH
def test_the_cap_counts_per_image_and_category(mode):
    boxes = [((60 * i, 0, 50, 50), {}) for i in range(3)]
    found = [(box, 0.9 - i / 10, {}) for i, (box, _) in enumerate(boxes)]
    result = evaluate(truth_of(*boxes), found_of(*found), iou_type="bbox", mode=mode)
    values = dict(zip(result.names, result.stats, strict=True))
    assert values["AR@1"] == pytest.approx(1 / 3) and values["AR@10"] == 1


def test_an_explicit_ignore_is_honoured_in_corrected_mode_only():
    other = (500, 500, 50, 50)
    truth = truth_of((BOX, {}), (other, {"ignore": 1}))
    found = found_of((BOX, 0.9, {}))
    assert evaluate(truth, found, iou_type="bbox").stats[8] == 1
    assert evaluate(truth, found, iou_type="bbox", mode="strict").stats[8] == 0.5
    counted = truth_of((BOX, {}), (other, {"ignore": 0, "iscrowd": 1}))
    assert evaluate(counted, found, iou_type="bbox").stats[8] == 0.5
    assert evaluate(counted, found, iou_type="bbox", mode="strict").stats[8] == 1


def test_identity_0_counts_as_missed_in_strict_mode_with_a_warning():
    truth = truth_of((BOX, {"id": 0}))
    found = found_of((BOX, 0.9, {}), (BOX, 0.8, {}))
    strict = evaluate(truth, found, iou_type="bbox", mode="strict")
    assert strict.stats[0] == 0 and any("id 0" in text for text in strict.warnings)
    # the truth is taken all the same
    assert outcome(strict) == [(0, False), (None, False)]
    corrected = evaluate(truth, found, iou_type="bbox")
    assert corrected.stats[0] == PERFECT and not corrected.warnings


def test_the_headline_is_read_at_the_largest_cap_in_corrected_mode():
    truth, found = truth_of((BOX, {})), found_of((BOX, 0.9, {}))
    options = {"iou_type": "bbox", "max_dets": [1, 5, 50]}
    assert evaluate(truth, found, mode="strict", **options).stats[0] == -1
    assert evaluate(truth, found, **options).stats[0] == PERFECT


def test_unknown_thresholds_are_nan_in_corrected_and_minus_1_in_strict_mode():
    truth, found = truth_of((BOX, {})), found_of((BOX, 0.9, {}))
    options = {"iou_type": "bbox", "iou_thresholds": [0.5]}
    assert np.isnan(evaluate(truth, found, **options).stats[2])
    assert evaluate(truth, found, mode="strict", **options).stats[2] == -1


def test_own_area_ranges_name_the_summary():
    ranges = {"all": (0, 1e10), "sapling": (0, 100), "tree": (100, 1e10)}
    result = evaluate(
        truth_of((BOX, {})), found_of((BOX, 0.9, {})), iou_type="bbox", area_ranges=ranges
    )
    values = dict(zip(result.names, result.stats, strict=True))
    assert values["AP_tree"] == PERFECT and values["AP_sapling"] == -1
    assert len(result.lines()) == len(result.stats) == 3 + 2 + 3 + 2


def test_ties_follow_the_file_in_strict_and_the_boxes_in_corrected_mode():
    truth = truth_of((BOX, {}))
    off = (103, 100, 50, 50)
    found = found_of((off, 0.9, {}), (BOX, 0.9, {}))
    for order in (found, found[::-1]):
        corrected = evaluate(truth, order, iou_type="bbox")
        # the box further to the left comes first
        assert corrected.curves.precision[9, 0, 0, 0, 2] == PERFECT
    strict = [
        evaluate(truth, order, iou_type="bbox", mode="strict").stats[0]
        for order in (found, found[::-1])
    ]
    assert strict[0] != strict[1]


def test_keypoints_without_categories_are_scored_in_corrected_mode_only():
    points = [float(v) for i in range(17) for v in (10 * i, 10 * i, 2)]
    truth = truth_of(((0, 0, 160, 160), {"keypoints": points, "num_keypoints": 17}))
    found = [{"image_id": 1, "category_id": 1, "score": 0.5, "keypoints": points}]
    options = {"iou_type": "keypoints", "use_categories": False}
    assert evaluate(truth, found, **options).stats[0] == PERFECT
    assert evaluate(truth, found, mode="strict", **options).stats[0] == 0


def test_sigmas_of_a_category_of_its_own():
    points = [0.0, 0.0, 2.0, 100.0, 0.0, 2.0]
    shifted = [0.0, 5.0, 1.0, 100.0, 5.0, 1.0]
    truth = truth_of(
        ((0, 0, 100, 100), {"keypoints": points, "num_keypoints": 2}),
        ((0, 0, 100, 100), {"keypoints": points, "num_keypoints": 2, "category_id": 2}),
        categories=(1, 2),
    )
    found = [{"image_id": 1, "category_id": k, "score": 0.5, "keypoints": shifted} for k in (1, 2)]
    result = evaluate(truth, found, iou_type="keypoints", sigmas={1: [0.01, 0.01], 2: [0.1, 0.1]})
    first, second = result.average_precision()
    assert first == 0 and second == PERFECT
    expected = np.exp(-25 / (0.2**2) / (10000 + np.spacing(1)) / 2)
    assert result.matching.similarity.max() == expected


def test_the_area_of_a_detection_is_its_box_or_its_mask_as_asked():
    mask = {"size": [1000, 1000], "counts": [500_500, 40, 960, 40, 498_460]}
    truth = truth_of((BOX, {"segmentation": {"size": [1000, 1000], "counts": [1000000]}}))
    found = found_of(((500, 500, 40, 40), 0.9, {"segmentation": mask}))
    areas = {
        option: float(
            evaluate(truth, found, iou_type="segm", detection_area=option).detections.areas[0]
        )
        for option in ("auto", "bbox", "mask")
    }
    assert areas == {"auto": 1600, "bbox": 1600, "mask": 80}
    del found[0]["bbox"]
    assert evaluate(truth, found, iou_type="segm").detections.areas[0] == 80


def test_nothing_found_scores_0_and_nothing_to_find_is_undefined():
    assert evaluate(truth_of((BOX, {})), [], iou_type="bbox").stats[0] == 0
    assert evaluate(truth_of(), found_of((BOX, 0.9, {})), iou_type="bbox").stats[0] == -1


def test_own_identities_of_detections_are_kept():
    found = found_of((BOX, 0.9, {"id": 70}), (BOX, 0.8, {"id": 7}))
    assert evaluate(truth_of((BOX, {})), found, iou_type="bbox").detections.ids.tolist() == [70, 7]
    strict = evaluate(truth_of((BOX, {})), found, iou_type="bbox", mode="strict")
    assert strict.detections.ids.tolist() == [70, 7]


@pytest.mark.parametrize("positives", [1, 2, 3, 7, 10, 99, 100, 101, 997, 36000])
def test_hits_needed_are_those_that_a_search_finds(positives):
    grid = np.linspace(0, 1, 101)
    recalls = np.arange(1, positives + 1) / positives
    expected = np.searchsorted(recalls, grid, side="left") + 1
    found = hits_needed(np.array([positives]), grid)[0]
    assert np.array_equal(np.maximum(found, 1), expected)


def test_index_tricks():
    assert spans([5, 9, 2], [2, 0, 3]).tolist() == [5, 6, 2, 3, 4]
    assert places_within([2, 0, 3]).tolist() == [0, 1, 0, 1, 2]
    offsets = np.array([0, 2, 2, 5])
    assert sum_each(np.arange(5), offsets).tolist() == [1, 0, 9]
    assert max_each(np.arange(5), offsets, -7).tolist() == [1, -7, 4]
    blocks = list(in_blocks([3, 3, 9, 1, 1], 6))
    assert [(b.start, b.stop) for b in blocks] == [(0, 2), (2, 3), (3, 5)]
