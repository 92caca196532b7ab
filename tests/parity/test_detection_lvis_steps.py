"""Subclasses of `LVISEval` that override a step give what the same subclass of lvis' gives."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.evaluators.detection import LVISEval, LVISResults


def case(seed, iou_type="bbox"):
    truth, results = coco_case(
        seed, geometry=iou_type, categories=7, images=8, truths=8.0, crowds=0.0
    )
    return federate(truth, seed), results


def less_alike(base):
    class Less(base):
        def compute_iou(self, img_id, cat_id):
            found = super().compute_iou(img_id, cat_id)
            return found if not len(found) else np.asarray(found) * 0.8

    return Less


def other_matches(base):
    class Other(base):
        def evaluate_img(self, img_id, cat_id, area_rng):
            found = super().evaluate_img(img_id, cat_id, area_rng)
            if found is not None:
                found["dt_ignore"] = found["dt_ignore"] | (np.array(found["dt_scores"]) < 0.3)
            return found

    return Other


def other_entries(base):
    class Entries(base):
        def _prepare(self):
            super()._prepare()
            for place, entry in enumerate(self.lvis_gt.anns.values()):
                entry["ignore"] = int(place % 3 == 0)

    return Entries


def other_groups(base):
    class Groups(base):
        def _prepare_freq_group(self):
            return [[0, 1, 2], [3], [4, 5]]

        def _get_gt_dt(self, img_id, cat_id):
            gt, dt = super()._get_gt_dt(img_id, cat_id)
            return gt, [each for each in dt if each["score"] > 0.2]

    return Groups


def other_summary(base):
    class Summary(base):
        def _summarize(self, *arguments, **options):
            return super()._summarize(*arguments, **options) * 2

    return Summary


def patched(base):
    def make(*arguments):
        found = base(*arguments)
        found.compute_iou = lambda image, category: np.full(
            (len(found._dts[image, category]), len(found._gts[image, category])), 0.6
        )
        return found

    return make


KINDS = {
    each.__name__: each
    for each in (less_alike, other_matches, other_entries, other_groups, other_summary, patched)
}


@pytest.mark.parametrize("cap", [300, 5, -1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_a_step_that_is_overridden_decides(iou_type, kind, cap, tmp_path, monkeypatch):
    lvis = pytest.importorskip("lvis")
    # lvis asks for a type that NumPy no longer has
    monkeypatch.setattr(np, "float", float, raising=False)
    truth, results = case(31, iou_type)
    before = copy.deepcopy(truth)
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    data = lvis.LVIS(str(path))
    prepared = lvis.LVISResults(data, copy.deepcopy(results), max_dets=cap)
    reference = KINDS[kind](lvis.LVISEval)(data, prepared, iou_type)
    ours = KINDS[kind](LVISEval)(truth, LVISResults(truth, results, max_dets=cap), iou_type)
    for run in (reference, ours):
        run.run()
    assert ours.get_results() == reference.get_results()
    for name in ("precision", "recall"):
        assert np.array_equal(ours.eval[name], reference.eval[name])
    for one, other in zip(ours.eval_imgs, reference.eval_imgs, strict=True):
        assert (one is None) == (other is None)
        for key in other or ():
            assert np.array_equal(one[key], other[key]), key
    assert set(ours.ious) == set(reference.ious)
    for key, value in reference.ious.items():
        assert np.array_equal(ours.ious[key], value)
    assert truth == before


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "boundary"])
@pytest.mark.parametrize("use_cats", [0, 1])
def test_image_by_image_gives_what_columns_give(iou_type, use_cats):
    truth, results = case(32, "bbox" if iou_type == "bbox" else "segm")

    class Steps(LVISEval):
        def evaluate_img(self, *cell):
            return super().evaluate_img(*cell)

    runs = [kind(truth, results, iou_type) for kind in (LVISEval, Steps)]
    for run in runs:
        run.params.use_cats = use_cats
        run.run()
        run.run()
    columns, steps = runs
    assert steps.evaluation is None and columns.evaluation is not None
    assert steps.results == columns.results and (columns.results["AP"] > 0) == bool(use_cats)
    assert np.array_equal(steps.eval["precision"], columns.eval["precision"])
    assert sum(map(len, steps._gts.values())) == sum(map(len, columns._gts.values())) > 0
    assert steps.freq_groups == columns.freq_groups
    assert type(columns.ious) is dict and columns.ious.keys() == steps.ious.keys()
    for key, value in columns.ious.items():
        assert np.array_equal(value, steps.ious[key])


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_changes_the_figures(kind):
    truth, results = case(33)
    runs = [make(truth, results, "bbox") for make in (LVISEval, KINDS[kind](LVISEval))]
    for run in runs:
        run.run()
    assert runs[0].results != runs[1].results
