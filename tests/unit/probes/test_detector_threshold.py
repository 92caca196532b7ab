"""The score threshold against trying each, and average precision of both kinds of objects."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from permafrost.data.labels.objects import Objects
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.point_precision import point_average_precision
from permafrost.probes.detection.object_splits import WholeImage
from permafrost.probes.detection.scoring import (
    THRESHOLDS,
    average_precision,
    choose_threshold,
    hits,
)
from permafrost.probes.detection.shapes import POINTS, UPRIGHT


def made(count=6, *, points=False, seed=0):
    """A split of images, and detections that are mostly near their objects, with round scores."""
    rng = np.random.default_rng(seed)
    images, found = [], []
    for i in range(count):
        low = rng.uniform(0, 80, (rng.integers(0, 6), 2))
        boxes = np.hstack([low, low if points else low + rng.uniform(8, 20, low.shape)])
        labels = rng.integers(0, 2, len(boxes))
        images.append(
            WholeImage(
                str(i),
                "g",
                np.array([i]),
                (100, 100),
                Objects.of(boxes, labels, crowd=low[:, 0] > 70),
            )
        )
        moved = boxes + np.tile(rng.normal(size=low.shape) * 3, 2)
        more = rng.uniform(0, 80, (4, 2))
        boxes = np.vstack([moved, np.hstack([more, more if points else more + 9])])
        scores = rng.integers(1, 20, len(boxes)) / 20
        found.append(Detected(boxes, np.append(labels, [0, 1, 0, 1]), scores).ranked())
    split = SimpleNamespace(
        images=images,
        classes=["a", "b"],
        shape=POINTS if points else UPRIGHT,
        detection={"max_detections": 100, "match_distance": 10.0 if points else None},
        object_count=sum(int((~image.objects.crowd).sum()) for image in images),
    )
    return split, found


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_threshold_has_the_best_f1_of_all(points, seed):
    split, found = made(points=points, seed=seed)
    values = []
    for threshold in THRESHOLDS:
        counts = [
            hits(split, image, each.above(threshold))
            for image, each in zip(split.images, found, strict=True)
        ]
        matched, truths, made_here = np.sum(counts, axis=0)
        values.append(2 * matched / (truths + made_here))
    chosen, value = choose_threshold(split, found)
    assert value == pytest.approx(max(values)) and chosen == THRESHOLDS[int(np.argmax(values))]


def test_average_precision_of_boxes_is_that_of_cocos_own_evaluator(tmp_path):
    import contextlib
    import io
    import json

    from permafrost.probes.detection.coco_json import detections_json, truth_json
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    split, found = made()
    truth = tmp_path / "truth.json"
    truth.write_text(json.dumps(truth_json(split.images, split.classes, UPRIGHT)))
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(truth))
        evaluation = COCOeval(coco, coco.loadRes(detections_json(found, UPRIGHT)), "bbox")
        evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()
    assert average_precision(split, found) == pytest.approx(evaluation.stats[0], abs=0.01)


def test_average_precision_of_points_is_the_mean_over_classes_with_truth():
    split, found = made(points=True)
    objects = [image.objects for image in split.images]
    values = point_average_precision(objects, found, classes=2, distance=10.0)
    assert average_precision(split, found) == pytest.approx(np.nanmean(values))
    split.classes = ["a", "b", "never"]
    assert average_precision(split, found) == pytest.approx(np.nanmean(values))


@pytest.mark.parametrize("points", [False, True])
def test_nothing_to_find_has_no_average_precision(points):
    split, found = made(points=points)
    split.images = [
        WholeImage(each.name, "g", each.rows, each.size, each.objects.take(slice(0)))
        for each in split.images
    ]
    split.object_count = 0
    assert average_precision(split, found) is None
