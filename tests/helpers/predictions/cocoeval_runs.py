"""Runs of `COCOeval`, ours or pycocotools', and what must agree in them."""

from __future__ import annotations

import contextlib
import copy
import io

import numpy as np

from helpers.predictions.detections import coco_case

IOU_TYPES = ["bbox", "segm", "keypoints"]


def quiet(call):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        found = call()
    return found, text.getvalue()


def indexed(kind, truth, results):
    """Truth and results as `kind`, a class `COCO`."""

    def make():
        data = kind()
        data.dataset = copy.deepcopy(truth)
        data.createIndex()
        return data, data.loadRes(copy.deepcopy(results)) if results else kind()

    return quiet(make)[0]


def run(kind, data, found, iou_type, change=None, *, accumulate=None):
    evaluation = kind(data, found, iou_type)
    if change:
        change(evaluation.params)

    def steps():
        evaluation.evaluate()
        evaluation.accumulate(*([accumulate(evaluation)] if accumulate else []))
        evaluation.summarize()

    printed = quiet(steps)[1].splitlines()
    return evaluation, [line for line in printed if "@[" in line]


def segm_results(results):
    """Those that pycocotools' `loadRes` takes: compressed run lengths."""
    return [e for e in results if isinstance(e.get("segmentation", {}).get("counts", ""), str)]


def case(seed, iou_type, **options):
    truth, results = coco_case(
        seed, geometry=iou_type, **{"images": 6, "detections": 10, **options}
    )
    return truth, segm_results(results) if iou_type == "segm" else results


def assert_same(ours, reference):
    for name in ("precision", "recall", "scores"):
        one, other = ours.eval[name], reference.eval[name]
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.array_equal(one, other), name
    assert ours.eval["counts"] == reference.eval["counts"]
    assert set(ours.eval) == set(reference.eval)
    assert np.array_equal(ours.stats, reference.stats)


def assert_same_images(ours, reference):
    assert len(ours.evalImgs) == len(reference.evalImgs)
    for one, other in zip(ours.evalImgs, reference.evalImgs, strict=True):
        assert (one is None) == (other is None)
        if one is None:
            continue
        assert set(one) == set(other)
        for key, value in other.items():
            mine = one[key]
            assert np.array_equal(mine, value), key
            if isinstance(value, np.ndarray):
                assert (mine.dtype, mine.shape) == (value.dtype, value.shape), key
    assert set(ours.ious) == set(reference.ious) and len(ours.ious) == len(reference.ious)
    for key, value in reference.ious.items():
        assert np.array_equal(ours.ious[key], value), key


CHANGES = {
    "as they are": None,
    "no categories": lambda p: setattr(p, "useCats", 0),
    "some images": lambda p: setattr(p, "imgIds", p.imgIds[::2][::-1]),
    "some categories": lambda p: setattr(p, "catIds", [p.catIds[2], p.catIds[0]]),
    "some categories, pooled": lambda p: (
        setattr(p, "catIds", p.catIds[1:3]),
        setattr(p, "useCats", 0),
    ),
    "unknown ids": lambda p: (p.imgIds.append(987654), p.catIds.append(9876)),
    "other axes": lambda p: (
        setattr(p, "iouThrs", np.array([0.75, 0.3, 0.5])),
        setattr(p, "recThrs", np.array([0.0, 0.1, 0.1, 0.5, 0.9])),
        setattr(p, "maxDets", [20, 3, 100]),
        setattr(p, "areaRng", [[0, 400], [0, 1e10], [100, 900]]),
        setattr(p, "areaRngLbl", ["small", "all", "odd"]),
    ),
    "recalls in disorder": lambda p: setattr(p, "recThrs", [0.1, 0.3, 0.0, 0.9, 0.2]),
    "recalls that cannot be": lambda p: setattr(p, "recThrs", [-0.5, 0.5, 1.5]),
}
