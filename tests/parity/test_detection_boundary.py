"""Boundary IoU equals boundary-iou-api's rules, written here plainly on top of pycocotools."""

from __future__ import annotations

import contextlib
import copy
import io

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, masks_of_images
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.kernels.boundary import band_widths
from permafrost.metrics.detection.masks.packed import bands, pack

pytest.importorskip("pycocotools")
ndimage = pytest.importorskip("scipy.ndimage")


def plain_band(mask: np.ndarray, ratio: float) -> np.ndarray:
    """What repeated 3 x 3 erosions of the mask, framed by one pixel of ground, take away."""
    height, width = mask.shape
    times = max(1, int(round(ratio * np.sqrt(height**2 + width**2))))
    framed = np.pad(mask, 1)
    kept = ndimage.binary_erosion(framed, np.ones((3, 3)), iterations=times, border_value=1)
    return mask - kept[1:-1, 1:-1].astype(np.uint8)


def reference(truth, results, ratio):
    """pycocotools with the lesser of mask and band IoU where the truth is no crowd."""
    from pycocotools import mask as mask_tools
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    class Boundary(COCOeval):
        def computeIoU(self, imgId, catId):
            plain = super().computeIoU(imgId, catId)
            truths, found = self._gts[imgId, catId], self._dts[imgId, catId]
            if not len(truths) or not len(found):
                return plain
            order = np.argsort([-d["score"] for d in found], kind="mergesort")
            sides = ([found[i] for i in order[: self.params.maxDets[-1]]], truths)
            edges = [
                [
                    mask_tools.encode(
                        np.asfortranarray(plain_band(mask_tools.decode(a["segmentation"]), ratio))
                    )
                    for a in side
                ]
                for side in sides
            ]
            crowd = np.array([int(t["iscrowd"]) for t in truths])
            outline = np.array(mask_tools.iou(*edges, crowd))
            plain = np.array(plain)
            plain[:, crowd == 0] = np.minimum(plain, outline)[:, crowd == 0]
            return plain

    with contextlib.redirect_stdout(io.StringIO()):
        data = COCO()
        data.dataset = copy.deepcopy(truth)
        data.createIndex()
        run = Boundary(data, data.loadRes(copy.deepcopy(results)), "segm")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run


@pytest.mark.parametrize("ratio", [0.02, 0.008, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_every_number_is_the_same(seed, ratio):
    truth, results = coco_case(seed, geometry="segm", images=6, scale=1.0 + seed)
    expected = reference(truth, results, ratio)
    found = evaluate(truth, results, iou_type="boundary", mode="strict", boundary_ratio=ratio)
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(found, name), expected.eval[name]), name
    assert np.array_equal(found.stats, expected.stats)
    assert found.stats[0] > 0


def test_an_explicit_ignore_counts_here_even_in_strict_mode():
    truth, results = coco_case(4, geometry="segm", images=6, ignores=0.5, crowds=0.0)
    found = evaluate(truth, results, iou_type="boundary", mode="strict")
    ignored = {a["id"] for a in truth["annotations"] if a.get("ignore")}
    kept = set(found.truths.ids[~found.truths.ignored].tolist())
    assert ignored and kept.isdisjoint(ignored)
    assert len(kept) + len(ignored) == len(truth["annotations"])


@pytest.mark.parametrize("seed", range(20))
def test_bands_of_random_masks(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 150, 2))
    images = []
    for _ in range(8):
        mask = rng.random(shape) < rng.choice([0.02, 0.5, 0.97, 1.0])
        if rng.random() < 0.7:
            mask = ndimage.binary_dilation(mask, iterations=int(rng.integers(1, 12)))
        images.append(mask.astype(np.uint8))
    masks = masks_of_images(images)
    assert np.array_equal(pack(masks).counts(), [image.sum() for image in images])
    ratio = float(rng.choice([0.008, 0.02, 0.06]))
    found = bands(masks, band_widths(masks.heights, masks.widths, ratio))
    assert np.array_equal(found.counts(), [plain_band(image, ratio).sum() for image in images])


def test_band_widths_round_half_to_even_and_are_never_zero():
    # 3-4-5 triangles: diagonals 50 and 150; half a pixel and one and a half
    widths = band_widths(np.array([30, 90, 3]), np.array([40, 120, 4]), 0.01)
    assert widths.tolist() == [1, 2, 1]
