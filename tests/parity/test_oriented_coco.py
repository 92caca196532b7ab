"""Oriented boxes by COCO's rules: pycocotools with shapely's IoU, detectron2's class, and hotcoco."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from helpers.predictions.oriented import in_form, oriented_case
from permafrost.data.labels.oriented import corners_of
from permafrost.evaluators.detection import COCO, COCOeval, evaluate

coco = pytest.importorskip("pycocotools.coco")
theirs = pytest.importorskip("pycocotools.cocoeval")

#: of `oriented_case(11, images=40)`, by hotcoco 1.3.0 (COCOeval(truth, results, "obb")), made with
#: python tests/parity/test_oriented_coco.py FOLDER && python -c "import hotcoco as h; t = h.COCO('truth.json');
#: e = h.COCOeval(t, t.loadRes('found.json'), 'obb'); e.evaluate(); e.accumulate(); e.summarize(); print(e.stats)"
HOTCOCO = [
    0.18818788173269274,
    0.34207859121895595,
    0.16161947146336933,
    0.19169190896196933,
    0.19995271744919765,
    0.7029702970297029,
    0.1683681185722928,
    0.4342193486590038,
    0.4342193486590038,
    0.44127267041901186,
    0.4148366013071895,
    0.7,
]


def shapely_iou(detected, true, crowd, *, single: bool = False) -> np.ndarray:
    """(D, G) by shapely; `single`: of corners in single precision, as detectron2's tensors."""
    sides = [corners_of(np.asarray(side, np.float64), "le90") for side in (detected, true)]
    if single:
        sides = [side.astype(np.float32) for side in sides]
    a, b = shapely.polygons(sides[0])[:, None], shapely.polygons(sides[1])[None]
    shared = shapely.area(shapely.intersection(a, b))
    union = np.where(crowd, shapely.area(a), shapely.area(a) + shapely.area(b) - shared)
    return shared / union


def rotated(base, *, single: bool = False):
    """A class as detectron2's RotatedCOCOeval: `computeIoU` from `_gts` and `_dts`, boxes of five numbers."""

    class RotatedCOCOeval(base):
        def compute_iou_dt_gt(self, dt, gt, crowd):
            return shapely_iou(dt, gt, crowd, single=single)

        def computeIoU(self, imgId, catId):
            p = self.params
            if p.useCats:
                gt, dt = self._gts[imgId, catId], self._dts[imgId, catId]
            else:
                gt = [_ for cId in p.catIds for _ in self._gts[imgId, cId]]
                dt = [_ for cId in p.catIds for _ in self._dts[imgId, cId]]
            if len(gt) == 0 or len(dt) == 0:
                return []
            inds = np.argsort([-d["score"] for d in dt], kind="mergesort")
            dt = [dt[i] for i in inds]
            if len(dt) > p.maxDets[-1]:
                dt = dt[0 : p.maxDets[-1]]
            assert p.iouType == "bbox"
            crowd = [int(o["iscrowd"]) for o in gt]
            return self.compute_iou_dt_gt([d["bbox"] for d in dt], [g["bbox"] for g in gt], crowd)

    return RotatedCOCOeval


def run(index, kind, truth, found, iou_type="bbox", **options):
    data = index()
    data.dataset = truth
    data.createIndex()
    evaluation = kind(data, data.loadRes(found), iou_type, **options)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


def as_bbox(entries):
    """Boxes of five numbers under `bbox`, as detectron2 writes them."""
    return in_form(entries, lambda entry: {"bbox": entry["obb"]})


def case(seed: int):
    truth, found = oriented_case(seed)
    return {**truth, "annotations": as_bbox(truth["annotations"])}, as_bbox(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("single", [False, True])
def test_detectron2s_class_on_our_evaluation_and_on_pycocotools(seed, single):
    truth, found = case(seed)
    expected = run(coco.COCO, rotated(theirs.COCOeval, single=single), truth, found)
    ours = run(COCO, rotated(COCOeval, single=single), truth, found)
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(expected.eval[name], ours.eval[name])
    assert np.array_equal(expected.stats, ours.stats)


@pytest.mark.parametrize("seed", range(8))
def test_our_iou_type_is_pycocotools_with_shapelys_iou(seed):
    truth, found = case(seed)
    expected = run(coco.COCO, rotated(theirs.COCOeval), truth, found)
    ours = run(COCO, COCOeval, truth, found, "oriented", box_convention="le90")
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(expected.eval[name], ours.eval[name])
    plain = evaluate(truth, found, iou_type="oriented", box_convention="le90", mode="strict")
    assert np.array_equal(plain.stats, expected.stats)
    for cell, likeness in ours.ious.items():
        assert np.shape(likeness) == np.shape(expected.ious[cell])
        assert np.asarray(likeness) == pytest.approx(np.asarray(expected.ious[cell]), abs=1e-12)


@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_upright_boxes_have_the_scores_of_bbox(mode):
    truth, found = oriented_case(5)

    def upright(entry):
        x, y, width, height = np.round(entry["obb"][:4]).tolist()
        box = [x, y, max(width, 1.0), max(height, 1.0)]
        return {"bbox": [box[0] - box[2], box[1] - box[3], 2 * box[2], 2 * box[3]]}

    def turned(entry):
        x, y, width, height = entry["bbox"]
        return {"obb": [x + width / 2, y + height / 2, width, height, 0]}

    bbox = in_form(truth["annotations"], upright), in_form(found, upright)
    obb = [in_form(side, turned) for side in bbox]
    expected = evaluate({**truth, "annotations": bbox[0]}, bbox[1], iou_type="bbox", mode=mode)
    ours = evaluate(
        {**truth, "annotations": obb[0]},
        obb[1],
        iou_type="oriented",
        mode=mode,
        box_convention="detectron2",
    )
    assert np.array_equal(expected.precision, ours.precision)
    assert np.array_equal(expected.stats, ours.stats)


def test_the_figures_of_hotcoco():
    truth, found = oriented_case(11, images=40)
    ours = evaluate(truth, found, iou_type="oriented", mode="strict", box_convention="le90")
    assert ours.stats == pytest.approx(HOTCOCO, abs=1e-15)


if __name__ == "__main__":
    import json
    import sys
    from pathlib import Path

    for name, content in zip(("truth", "found"), oriented_case(11, images=40), strict=True):
        (Path(sys.argv[1]) / f"{name}.json").write_text(json.dumps(content))
