"""Subclasses of `COCOeval` that override a step give what the same subclass of pycocotools' gives."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.predictions import cocoeval_runs as parity
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import cocoeval

theirs = pytest.importorskip("pycocotools.cocoeval")
coco = pytest.importorskip("pycocotools.coco")


def half_alike(base):
    class Half(base):
        def computeIoU(self, imgId, catId):
            found = super().computeIoU(imgId, catId)
            return found if not len(found) else np.asarray(found) * 0.8

        def computeOks(self, imgId, catId):
            found = super().computeOks(imgId, catId)
            return found if not len(found) else found**3

    return Half


def by_centres(base):
    """As evaluators of rotated boxes are written: from `_gts` and `_dts`, without the class above."""

    class Centres(base):
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
            dt = [dt[i] for i in inds][: p.maxDets[-1]]
            centres = [
                np.array([e["bbox"] for e in side]) @ [[1, 0], [0, 1], [0.5, 0], [0, 0.5]]
                for side in (dt, gt)
            ]
            apart = np.linalg.norm(centres[0][:, None] - centres[1][None], axis=2)
            # as a tensor library would: single precision
            return np.exp(-apart / 20).astype(np.float32)

        computeOks = computeIoU

    return Centres


def other_matches(base):
    class Other(base):
        def evaluateImg(self, imgId, catId, aRng, maxDet):
            found = super().evaluateImg(imgId, catId, aRng, min(maxDet, 5))
            if found is not None and imgId == self.params.imgIds[0]:
                return None
            if found is not None:
                found["dtIgnore"] = found["dtIgnore"] | (np.array(found["dtScores"]) < 0.3)
            return found

    return Other


def other_entries(base):
    class Entries(base):
        def _prepare(self):
            super()._prepare()
            for place, entry in enumerate(self.cocoGt.anns.values()):
                if place % 3 == 0:
                    entry["ignore"] = 1
            for key, found in self._dts.items():
                self._dts[key] = [dt for dt in found if dt["score"] > 0.2]

    return Entries


def other_sums(base):
    class Sums(base):
        def accumulate(self, p=None):
            p = copy.deepcopy(self.params)
            p.recThrs = np.array([0.0, 0.5, 1.0])
            super().accumulate(p)
            self.eval["precision"] = self.eval["precision"] / 2
            assert len(self.evalImgs) and len(self._gts) and len(self._dts)

        def summarize(self):
            super().summarize()
            self.stats = self.stats * 2

    return Sums


def patched(base):
    def make(*arguments):
        found = base(*arguments)
        found.computeIoU = found.computeOks = lambda image, category: np.full(
            (len(found._dts[image, category]), len(found._gts[image, category])), 0.6
        )
        return found

    return make


KINDS = {
    each.__name__: each
    for each in (half_alike, by_centres, other_matches, other_entries, other_sums, patched)
}
CHANGES = {
    name: parity.CHANGES[name]
    for name in ("as they are", "no categories", "some images", "some categories", "unknown ids")
    + ("other axes", "recalls in disorder")
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("iou_type", parity.IOU_TYPES)
def test_a_step_that_is_overridden_decides(iou_type, kind, change):
    truth, results = parity.case(21, iou_type, crowds=0.2, categories=3)
    before = copy.deepcopy(truth)
    reference, lines = parity.run(
        KINDS[kind](theirs.COCOeval),
        *parity.indexed(coco.COCO, truth, results),
        iou_type,
        CHANGES[change],
    )
    ours_index = cocoeval.COCO(truth)
    indices = (
        (ours_index, ours_index.loadRes(results)),
        parity.indexed(coco.COCO, truth, results),
    )
    for index in indices:
        made = KINDS[kind](cocoeval.COCOeval)
        ours, printed = parity.run(made, *index, iou_type, CHANGES[change])
        parity.assert_same(ours, reference)
        assert printed == lines
        parity.assert_same_images(ours, reference)
        if kind != "other_sums":
            assert ours.evaluation is None
            plain, _ = parity.run(cocoeval.COCOeval, *index, iou_type, CHANGES[change])
            pooled_points = iou_type == "keypoints" and change == "no categories"
            assert pooled_points or not np.array_equal(
                plain.eval["precision"], ours.eval["precision"]
            )
    assert truth == before


def test_a_patched_class_and_a_patched_index_decide(monkeypatch):
    truth, results = parity.case(22, "segm", crowds=0.2)
    indices = {kind: parity.indexed(kind, truth, results) for kind in (coco.COCO, cocoeval.COCO)}
    runs = ((theirs.COCOeval, coco.COCO), (cocoeval.COCOeval, cocoeval.COCO))
    plain = parity.run(*runs[1][:1], *indices[cocoeval.COCO], "segm")[0]
    for evaluator, _ in runs:
        step = evaluator.computeIoU
        monkeypatch.setattr(
            evaluator,
            "computeIoU",
            lambda self, *cell, step=step: [] if cell[0] % 2 else step(self, *cell),
        )
    found = [parity.run(evaluator, *indices[kind], "segm")[0] for evaluator, kind in runs]
    parity.assert_same(found[1], found[0])
    assert found[1].stats[0] < plain.stats[0]
    monkeypatch.undo()
    parity.assert_same(parity.run(*runs[1][:1], *indices[cocoeval.COCO], "segm")[0], plain)
    # every truth is the same triangle
    triangle = {"segmentation": [[2, 2, 30, 2, 20, 30]]}
    for data, _ in indices.values():
        data.annToRLE = lambda entry, step=data.annToRLE: step({**entry, **triangle})
    found = [parity.run(evaluator, *indices[kind], "segm")[0] for evaluator, kind in runs]
    parity.assert_same(found[1], found[0])
    assert not np.array_equal(found[1].eval["precision"], plain.eval["precision"])


@pytest.mark.parametrize("iou_type", [*parity.IOU_TYPES, "boundary"])
@pytest.mark.parametrize("pooled", [0, 1])
def test_image_by_image_gives_what_columns_give(iou_type, pooled):
    """Also for boundaries, which pycocotools has not."""
    truth, results = parity.case(23, "segm" if iou_type == "boundary" else iou_type)
    data = cocoeval.COCO(truth)

    def change(p):
        p.useCats = 1 - pooled

    columns, _ = parity.run(cocoeval.COCOeval, data, data.loadRes(results), iou_type, change)

    class Steps(cocoeval.COCOeval):
        def evaluateImg(self, *cell):
            return super().evaluateImg(*cell)

    steps, _ = parity.run(Steps, data, data.loadRes(results), iou_type, change)
    parity.assert_same(steps, columns)
    parity.assert_same_images(steps, columns)
    steps.params.maxDets = [1, 10, 1000]
    with pytest.raises(PermafrostError, match="1000 detections were not evaluated"):
        steps.accumulate()
    steps.params.maxDets = columns.params.maxDets
    # a second evaluation, and figures of the columns after those of the steps
    steps.evaluate()
    steps.accumulate()
    assert np.array_equal(steps.eval["precision"], columns.eval["precision"])
    again, _ = parity.run(cocoeval.COCOeval, data, data.loadRes(results), iou_type, change)
    parity.assert_same(again, columns)


def test_likenesses_are_a_dictionary_that_can_be_made_again():
    truth, results = parity.case(24, "bbox")
    data = cocoeval.COCO(truth)
    ours, _ = parity.run(cocoeval.COCOeval, data, data.loadRes(results), "bbox")
    assert type(ours.ious) is dict and ours.ious is ours.ious
    assert type(ours.ious)(ours.ious.items()).keys() == ours.ious.keys()
    copied = copy.deepcopy(ours)
    assert copied.ious.keys() == ours.ious.keys() and len(copied._gts) == len(ours._gts)


@pytest.mark.parametrize("threshold", [1.0, 1 - 1e-10, 0.5])
def test_a_threshold_of_1_forgives_rounding_and_no_more(threshold):
    box = [42.2, 37.9, 21.0, 12.9]
    given = {"image_id": 1, "category_id": 1, "bbox": box, "score": 0.9}
    truth = {
        "images": [{"id": 1, "width": 90, "height": 90}],
        "categories": [{"id": 1, "name": "one"}],
        "annotations": [{**given, "id": 1, "area": 270.9, "iscrowd": 0}],
    }
    for share, found in ((1, 1.0), (1 - 1e-9, float(threshold < 1 - 1e-9))):
        results = [{**given, "bbox": [*box[:3], box[3] * share]}]
        stats = []
        for index, base in ((coco.COCO, theirs.COCOeval), (cocoeval.COCO, cocoeval.COCOeval)):
            for kind in (base, type("Steps", (base,), {"computeIoU": alike(base)})):
                run = kind(*parity.indexed(index, truth, results), "bbox")
                run.params.iouThrs = np.array([threshold])
                parity.quiet(lambda run=run: (run.evaluate(), run.accumulate()))
                stats.append(run.eval["recall"][0, 0, 0, -1])
        assert stats == [found] * 4


def alike(base):
    return lambda self, *cell: base.computeIoU(self, *cell)
