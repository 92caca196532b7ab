"""`LVISEval` equals lvis 0.5.3: figures, matches, likenesses, printed lines."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import LVIS, LVISEval, LVISResults, evaluate


def case(seed, iou_type="bbox", **options):
    options = {"categories": 7, "images": 8, "truths": 8.0, "crowds": 0.0, **options}
    truth, results = coco_case(seed, geometry=iou_type, **options)
    return federate(truth, seed), results


CHANGES = {
    "as they are": lambda p: None,
    "some images": lambda p: setattr(p, "img_ids", p.img_ids[::2][::-1]),
    "some categories": lambda p: setattr(p, "cat_ids", p.cat_ids[1:5]),
    "other axes": lambda p: (
        setattr(p, "iou_thrs", np.array([0.75, 0.3, 0.5])),
        setattr(p, "rec_thrs", np.array([0.0, 0.1, 0.1, 0.9])),
        setattr(p, "area_rng", [[0, 1e10], [0, 400], [100, 900], [900, 1e10]]),
    ),
    "recalls in disorder": lambda p: setattr(p, "rec_thrs", np.array([0.1, 0.0, 0.9, 0.2])),
}


@pytest.mark.parametrize("cap", [300, 5, -1])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_everything_is_the_same(iou_type, change, cap, tmp_path, monkeypatch, capsys):
    lvis = pytest.importorskip("lvis")
    # lvis asks for a type that NumPy no longer has
    monkeypatch.setattr(np, "float", float, raising=False)
    truth, results = case(1, iou_type)
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    data = lvis.LVIS(str(path))
    prepared = lvis.LVISResults(data, copy.deepcopy(results), max_dets=cap)
    reference = lvis.LVISEval(data, prepared, iou_type)
    ours = LVISEval(path, LVISResults(str(path), results, max_dets=cap), iou_type)
    for run in (reference, ours):
        CHANGES[change](run.params)
        run.run()
    assert ours.get_results() == reference.get_results() and reference.results["AP50"] >= 0
    assert list(ours.results) == list(reference.results)
    for name in ("precision", "recall"):
        assert np.array_equal(ours.eval[name], reference.eval[name])
    assert ours.eval["counts"] == reference.eval["counts"]
    for one, other in zip(ours.eval_imgs, reference.eval_imgs, strict=True):
        assert (one is None) == (other is None)
        for key in other or ():
            assert np.array_equal(one[key], other[key]), key
        assert set(one or ()) == set(other or ())
    assert set(ours.ious) == set(reference.ious)
    for key, value in reference.ious.items():
        assert np.array_equal(ours.ious[key], value)
    capsys.readouterr()
    ours.print_results()
    printed = capsys.readouterr().out
    reference.print_results()
    assert printed == capsys.readouterr().out
    # the index
    for entry in prepared.load_anns():
        mine = ours.lvis_dt.anns[entry["id"]]
        assert mine["area"] == entry["area"] and mine["score"] == entry["score"]
    image, category = data.get_img_ids()[0], data.get_cat_ids()[:3]
    assert ours.lvis_gt.get_ann_ids([image], category) == data.get_ann_ids([image], category)
    assert ours.lvis_gt.load_cats(category) == data.load_cats(category)
    assert len(ours.lvis_dt.get_top_results(image, 0.5)) == len(
        prepared.get_top_results(image, 0.5)
    )


def test_figures_are_those_of_evaluate():
    truth, results = case(2, detections=60)
    before = copy.deepcopy((truth, results))
    ours = LVISEval(LVIS(truth), results, "bbox")
    ours.run()
    found = evaluate(truth, results, iou_type="bbox", mode="strict", lvis=True)
    assert ours.results == dict(zip(found.names, found.stats.tolist(), strict=True))
    assert np.array_equal(ours.evaluation.stats, found.stats) and found.stats[0] > 0
    assert (truth, results) == before
    ours.params.use_cats = 0
    ours.run()
    assert set(ours.results.values()) == {-1.0}


def test_mistakes_are_named():
    truth, results = case(3)
    ours = LVISEval(truth, results, "bbox")
    with pytest.raises(PermafrostError, match=r"call evaluate\(\) first"):
        ours.accumulate()
    ours.evaluate()
    with pytest.raises(PermafrostError, match=r"call accumulate\(\) first"):
        ours.summarize()
    ours.params.iou_thrs = [0.5]
    with pytest.raises(PermafrostError, match="iou_thrs was changed after the evaluation"):
        ours.accumulate()
    ours.params.cat_ids = ours.params.cat_ids[::-1]
    with pytest.raises(PermafrostError, match="cat_ids must ascend"):
        ours.evaluate()
    with pytest.raises(PermafrostError, match="LVIS has no keypoints"):
        LVISEval(truth, results, "keypoints")
    with pytest.raises(PermafrostError, match="prepared by another program"):
        LVISEval(truth, LVIS(truth), "bbox")
    ours = LVISEval(truth, results, "bbox")
    ours.run()
    with pytest.raises(PermafrostError, match="dt_pointers are not available"):
        ours.eval["dt_pointers"]
