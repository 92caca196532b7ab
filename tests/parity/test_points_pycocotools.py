"""Average precision of points against pycocotools, which is given nearness in the place of the IoU."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from helpers.predictions.objects import coco, predictions, without
from permafrost.metrics.objects.point_precision import point_average_precision

pytest.importorskip("pycocotools")
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

DISTANCE = 10.0


class NearPoints(COCOeval):
    """1 at the point itself, 0.5 at the distance; falls as the distance grows, so the nearest wins."""

    def computeIoU(self, image, category):
        truths, found = self._gts[image, category], self._dts[image, category]
        if not truths or not found:
            return []
        order = np.argsort([-one["score"] for one in found], kind="mergesort")
        here = np.array([one["bbox"][:2] for one in truths])
        there = np.array([found[place]["bbox"][:2] for place in order])
        return 1 - np.hypot(*(there[:, None] - here[None]).transpose(2, 0, 1)) / (2 * DISTANCE)


def peer(found) -> np.ndarray:
    truth, made = coco(found)
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = truth
        known.createIndex()
        run = NearPoints(known, known.loadRes(made), "bbox")
        # strictly nearer than the distance
        run.params.iouThrs = np.array([np.nextafter(0.5, 1)])
        run.params.areaRng, run.params.areaRngLbl = [[0, 1e10]], ["all"]
        run.params.maxDets = [10_000]
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"][0, :, :, 0, 0]
    return np.where((precision > -1).all(axis=0), precision.mean(axis=0), np.nan)


def ours(found, **change) -> np.ndarray:
    arguments = {"classes": len(found.classes), "distance": DISTANCE} | change
    return point_average_precision(found.objects, found.detections, **arguments)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ties", [False, True])
def test_average_precision_equals_that_of_pycocotools(seed, ties):
    found = predictions(
        "point_detection", seed=seed, ties=ties, classes=1 + seed % 3, objects=20, images=15
    )
    expected = peer(found)
    assert 0.05 < np.nanmin(expected) < 0.95
    np.testing.assert_allclose(ours(found), expected, rtol=1e-13)
    np.testing.assert_allclose(
        found.evaluate()["class_point_ap"], ours(found), rtol=0, equal_nan=True
    )


def test_a_class_without_truth_and_images_without_anything():
    found = predictions("point_detection", classes=3, objects=8)
    found = without(found, truth=True, images=range(6))
    kept = [one.take(one.classes != 1) for one in found.objects]
    found = type(found)(**{**vars(found), "objects": kept})
    expected = peer(found)
    assert np.isnan(expected[1]) and np.isfinite(expected[[0, 2]]).all()
    np.testing.assert_allclose(ours(found), expected, rtol=1e-13)
