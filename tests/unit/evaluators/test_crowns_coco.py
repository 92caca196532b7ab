"""Average precision of tables of crowns: that of the same as COCO JSON, and exact for polygons."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from helpers.predictions.crowns import (
    CORNERS,
    as_coco,
    box,
    point,
    polygon,
    scored_crowns,
)
from permafrost.core.errors import PermafrostError
from permafrost.evaluators import detection
from permafrost.evaluators.crowns import evaluate
from permafrost.evaluators.crowns.coco import evaluate_precision


@pytest.mark.parametrize("seed", range(8))
def test_average_precision_is_that_of_the_same_boxes_as_coco_json(seed):
    rng = np.random.default_rng(seed)
    truth, predictions = scored_crowns(rng, 7)
    crowns = evaluate(truth, predictions, unlisted="empty")
    cap = (100, 5)[seed % 2]
    found = evaluate_precision(crowns, max_detections=cap)
    expected = detection.evaluate(
        *as_coco(truth, predictions), iou_type="bbox", max_dets=[1, 10, cap][-1:]
    )
    assert found.stats.tolist() == expected.stats[:3].tolist()
    assert 0 < found.stats[0] < 1
    np.testing.assert_array_equal(found.average_precision(), expected.average_precision())


@pytest.mark.parametrize("seed", range(6))
def test_average_precision_is_pycocotools(seed, capsys):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, predictions = scored_crowns(np.random.default_rng(100 + seed), 6)
    # equal scores are put in order by position here, and by the order of the file there
    predictions = [{**row, "score": place / 1000} for place, row in enumerate(predictions)]
    truths, entries = as_coco(truth, predictions)
    oracle = COCO()
    oracle.dataset = truths
    oracle.createIndex()
    run = COCOeval(oracle, oracle.loadRes(entries), "bbox")
    run.evaluate()
    run.accumulate()
    run.summarize()
    found = evaluate_precision(evaluate(truth, predictions, unlisted="empty"))
    np.testing.assert_allclose(found.stats, run.stats[:3], rtol=0, atol=1e-12)


def as_polygons(rows):
    plain = [{k: v for k, v in row.items() if k not in CORNERS} for row in rows]
    shapes = [shapely.box(*(row[name] for name in CORNERS)) for row in rows]
    return [{**row, "geometry": shape} for row, shape in zip(plain, shapes, strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_rectangles_have_the_average_precision_of_boxes(seed):
    truth, predictions = scored_crowns(np.random.default_rng(200 + seed), 5)
    boxes = evaluate_precision(evaluate(truth, predictions, unlisted="empty"))
    shapes = evaluate(as_polygons(truth), as_polygons(predictions), unlisted="empty")
    assert shapes.kind == "polygon"
    np.testing.assert_allclose(evaluate_precision(shapes).stats, boxes.stats, atol=1e-9)


def test_polygons_on_whole_pixels_have_the_average_precision_of_their_masks():
    """Shapes of unit squares: their masks are exact, so that pixels and areas agree."""
    rng = np.random.default_rng(5)
    truth, predictions, masks = [], [], ([], [])
    for number in range(60):
        x, y, w, h = (*rng.integers(0, 40, 2), *rng.integers(4, 20, 2))
        bite = rng.integers(1, 3)
        for side, rows in enumerate((truth, predictions)):
            shift = rng.integers(0, 3, 2) * side
            corner = np.array([x, y]) + shift
            ring = [(0, 0), (w, 0), (w, h - bite), (w - bite, h - bite), (w - bite, h), (0, h)]
            ring = corner + np.array(ring)
            image = f"i{number % 5}"
            rows.append(polygon(image, shapely.Polygon(ring), score=float(rng.random())))
            mask = np.zeros((64, 64), np.uint8)
            mask[corner[1] : corner[1] + h, corner[0] : corner[0] + w] = 1
            mask[corner[1] + h - bite : corner[1] + h, corner[0] + w - bite : corner[0] + w] = 0
            masks[side].append(mask)
    from pycocotools import mask as codec

    def entries(side, rows):
        out = []
        for number, (row, mask) in enumerate(zip(rows, masks[side], strict=True), 1):
            code = codec.encode(np.asfortranarray(mask))
            code["counts"] = code["counts"].decode()
            entry = {
                "image_id": int(row["image_path"][1:]) + 1,
                "category_id": 1,
                "segmentation": code,
            }
            entry |= {"id": number, "iscrowd": 0} if not side else {"score": row["score"]}
            out.append(entry)
        return out

    truths = {
        "images": [{"id": n, "width": 64, "height": 64} for n in range(1, 6)],
        "categories": [{"id": 1, "name": "Tree"}],
        "annotations": [
            {**e, "area": int(m.sum())} for e, m in zip(entries(0, truth), masks[0], strict=True)
        ],
    }
    expected = detection.evaluate(truths, entries(1, predictions), iou_type="segm")
    found = evaluate_precision(evaluate(truth, predictions))
    np.testing.assert_allclose(found.stats, expected.stats[:3], atol=1e-12)
    assert 0.1 < found.stats[0] < 1


def test_what_the_rules_leave_out_is_left_out():
    truth, predictions = scored_crowns(np.random.default_rng(3), 6)
    truth = [row for row in truth if row["image_path"] != "i0"] + [box("i0", (0, 0, 0, 0))]
    listed = {row["image_path"] for row in truth}
    predictions = [row for row in predictions if row["image_path"] in listed]
    full = evaluate_precision(evaluate(truth, predictions))
    skipped = evaluate_precision(evaluate(truth, predictions, without_truth="skip"))
    without = [row for row in predictions if row["image_path"] != "i0"]
    assert skipped.stats.tolist() == evaluate_precision(evaluate(truth, without)).stats.tolist()
    assert skipped.stats[0] > full.stats[0]
    scored = evaluate_precision(evaluate(truth, predictions, min_score=0.5))
    high = [row for row in predictions if row["score"] >= 0.5]
    assert scored.stats.tolist() == evaluate_precision(evaluate(truth, high)).stats.tolist()


def test_what_has_no_average_precision_is_refused():
    truth = [box("a", (0, 0, 9, 9))]
    with pytest.raises(PermafrostError, match="needs a column 'score'"):
        evaluate_precision(evaluate(truth, [box("a", (0, 0, 9, 9))]))
    with pytest.raises(PermafrostError, match="points have no IoU"):
        evaluate_precision(evaluate([point("a", 1, 1)], [point("a", 1, 1, score=1.0)]))
    right = [{**truth[0], "score": 1.0}]
    assert evaluate_precision(evaluate(truth, right)).stats.tolist() == pytest.approx([1] * 3)
    nothing = {name: [] for name in ("image_path", "label", "score", *CORNERS)}
    assert evaluate_precision(evaluate(truth, nothing)).stats.tolist() == [0] * 3
