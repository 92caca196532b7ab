"""Confusions, kinds of errors and oLRP of boxes equal vernier's where its caps do not bite."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.analysis import confusion_matrix, error_kinds, optimal_lrp

instance = pytest.importorskip("vernier.instance")

NAMES = {
    "category": "cls",
    "localisation": "loc",
    "both": "both",
    "duplicate": "dupe",
    "background": "bkg",
    "missed": "missed",
}


@pytest.fixture(params=range(6), name="case")
def _case(request):
    truth, results = coco_case(request.param, ties=False, whole=False, detections=12, crowds=0.0)
    both = json.dumps(truth).encode(), json.dumps(results).encode()
    return evaluate(truth, results, iou_type="bbox"), both


def test_kinds_of_errors(case):
    found, both = case
    ours, theirs = error_kinds(found), instance.error_decomposition(*both, iou=instance.Bbox())
    assert ours.precision == pytest.approx(theirs.baseline_map, abs=1e-12)
    assert ours.no_false_alarms == pytest.approx(theirs.delta_all_fp_removed, abs=1e-12)
    for name, other in NAMES.items():
        assert ours.gain[name] == pytest.approx(theirs.delta[other], abs=1e-12)


def test_optimal_lrp(case):
    found, both = case
    ours, theirs = optimal_lrp(found), instance.optimal_lrp(*both, iou=instance.Bbox())
    assert ours.means["olrp"] == pytest.approx(theirs.olrp, abs=1e-12)
    assert ours.means["localisation"] == pytest.approx(theirs.loc, abs=1e-12)
    assert ours.means["false_alarms"] == pytest.approx(theirs.fp, abs=1e-12)
    assert ours.means["misses"] == pytest.approx(theirs.fn, abs=1e-12)
    scores = [category.tau for category in theirs.per_class]
    assert ours.score == pytest.approx(scores, abs=1e-9, nan_ok=True)


def test_confusions(case):
    found, both = case
    pytest.importorskip("polars")
    table = instance.confusion_matrix(*both, iou=instance.Bbox())
    ids = [*map(str, found.truths.categories.ids), "__none__"]
    theirs = np.zeros((len(ids), len(ids)), int)
    for row in table.to_dicts():
        row = row if "count" in row else next(iter(row.values()))
        theirs[ids.index(row["gt_class"]), ids.index(row["dt_class"])] = row["count"]
    assert np.array_equal(confusion_matrix(found), theirs)
