"""LVIS: strict mode equals lvis 0.5.3 bit for bit."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.evaluators.detection import evaluate

CASES = {
    "ties": {},
    "no ties": {"ties": False, "whole": False},
    "explicit ignore": {"ignores": 0.3},
    "identity 0": {"first_id": 0},
    "more than 300 in an image": {"images": 3, "detections": 400, "truths": 30},
    "large objects": {"scale": 4.0},
}

# AP, AP50, AP75, APs, APm, APl, APr, APc, APf, AR, ARs, ARm, ARl of lvis 0.5.3 for seed 0
RECORDED: dict[str, list[str]] = {
    "ties": [
        "0x1.03ba2657e0ad2p-3",
        "0x1.eaffa34dd99e4p-3",
        "0x1.50fcfb88c026ap-4",
        "0x1.342c54cd8e505p-3",
        "0x1.363dd8759ba0bp-4",
        "-0x1.0000000000000p+0",
        "0x1.b314eb59dca66p-4",
        "0x1.a6c7bb0eb373fp-5",
        "0x1.dd09e6ec80045p-3",
        "0x1.89c09c09c09c1p-3",
        "0x1.8f14d40b6c999p-3",
        "0x1.6666666666666p-4",
        "-0x1.0000000000000p+0",
    ],
    "no ties": [
        "0x1.6e9cbe334d27bp-3",
        "0x1.2278a645f4d90p-2",
        "0x1.107064ce89bd8p-3",
        "0x1.757df70c8eb19p-3",
        "0x1.9999999999999p-3",
        "-0x1.0000000000000p+0",
        "0x1.fc8d88f9011d8p-3",
        "0x1.97c669a4f48b1p-3",
        "0x1.c2278a645f4d7p-5",
        "0x1.cc6ab80a969adp-3",
        "0x1.b148cb6824392p-3",
        "0x1.da740da740da6p-3",
        "-0x1.0000000000000p+0",
    ],
    "explicit ignore": [
        "0x1.2251fb69254cbp-3",
        "0x1.10e164fd53d0fp-2",
        "0x1.d514723a774c4p-4",
        "0x1.0979fbec824ffp-3",
        "0x1.58b67ebb90798p-3",
        "-0x1.0000000000000p+0",
        "0x1.9cd827be4d419p-4",
        "0x1.3c3ce3be03199p-2",
        "0x1.280c2a9509a1bp-5",
        "0x1.e645b4d05455ap-3",
        "0x1.f7eb61744326ep-3",
        "0x1.5555555555554p-3",
        "-0x1.0000000000000p+0",
    ],
    "identity 0": [
        "0x1.f57e954003661p-4",
        "0x1.d260511be1959p-3",
        "0x1.50fcfb88c026ap-4",
        "0x1.262b62345d101p-3",
        "0x1.363dd8759ba0bp-4",
        "-0x1.0000000000000p+0",
        "0x1.892ce9ffcc171p-4",
        "0x1.a6c7bb0eb373fp-5",
        "0x1.dd09e6ec80045p-3",
        "0x1.7908b51d9afe5p-3",
        "0x1.7e5ced1f46fbbp-3",
        "0x1.6666666666666p-4",
        "-0x1.0000000000000p+0",
    ],
    "more than 300 in an image": [
        "0x1.a25bd76a42109p-2",
        "0x1.0e1d1a39483adp-1",
        "0x1.a0693141adbbcp-2",
        "0x1.bedf4da629f5ep-2",
        "0x1.8a3d70a3d70a4p-2",
        "-0x1.0000000000000p+0",
        "0x1.2266fcea32549p-2",
        "0x1.1b19445b4cd4fp-1",
        "0x1.ce746dde02118p-2",
        "0x1.85bac212878f0p-1",
        "0x1.84c118de5ab29p-1",
        "0x1.ccccccccccccdp-1",
        "-0x1.0000000000000p+0",
    ],
    "large objects": [
        "0x1.fd157d314c3cdp-4",
        "0x1.eaffa34dd99e4p-3",
        "0x1.6df4a7874d5dfp-4",
        "0x1.cccccccccccccp-2",
        "0x1.239b18be383ecp-3",
        "0x1.238260b3fc0a8p-3",
        "0x1.c8d88f9011d81p-4",
        "0x1.a6c7bb0eb373fp-5",
        "0x1.ba9140a68b2b5p-3",
        "0x1.8c89ed311c365p-3",
        "0x1.ccccccccccccdp-2",
        "0x1.8af8af8af8af9p-3",
        "0x1.7120aba453deep-3",
    ],
}


def case(seed: int, name: str, geometry: str = "bbox"):
    options = {"categories": 7, "images": 8, "truths": 8.0, "crowds": 0.0, **CASES[name]}
    truth, results = coco_case(seed, geometry=geometry, **options)
    return federate(truth, seed), results


def reference(truth, results, iou_type, folder, monkeypatch, *, use_categories=True, cap=300):
    lvis = pytest.importorskip("lvis")
    # lvis asks for a type that NumPy no longer has
    monkeypatch.setattr(np, "float", float, raising=False)
    path = folder / "truth.json"
    path.write_text(json.dumps(truth))
    data = lvis.LVIS(str(path))
    run = lvis.LVISEval(
        data, lvis.LVISResults(data, copy.deepcopy(results), max_dets=cap), iou_type
    )
    run.params.use_cats = int(use_categories)
    run.evaluate()
    run.accumulate()
    if use_categories:  # without, it stumbles over the groups by frequency
        run.summarize()
    return run


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
@pytest.mark.parametrize("name", CASES)
def test_every_number_is_the_same(name, iou_type, tmp_path, monkeypatch):
    for seed in range(3):
        if iou_type == "segm" and name.startswith("more"):
            continue
        truth, results = case(seed, name, iou_type)
        expected = reference(truth, results, iou_type, tmp_path, monkeypatch)
        found = evaluate(truth, results, iou_type=iou_type, mode="strict", lvis=True)
        assert np.array_equal(found.precision, expected.eval["precision"])
        assert np.array_equal(found.recall, expected.eval["recall"])
        assert np.array_equal(found.stats, list(expected.results.values()))
        assert found.stats[0] > 0
        assert list(found.names) == list(expected.results)


@pytest.mark.parametrize("cap", [5, -1])
def test_other_caps_per_image(cap, tmp_path, monkeypatch):
    truth, results = case(1, "ties")
    expected = reference(truth, results, "bbox", tmp_path, monkeypatch, cap=cap)
    found = evaluate(truth, results, iou_type="bbox", mode="strict", lvis=True, max_dets=cap)
    assert np.array_equal(found.precision, expected.eval["precision"])
    assert np.array_equal(found.recall, expected.eval["recall"])


def test_without_categories_lvis_finds_nothing(tmp_path, monkeypatch):
    truth, results = case(2, "ties")
    expected = reference(truth, results, "bbox", tmp_path, monkeypatch, use_categories=False)
    found = evaluate(
        truth, results, iou_type="bbox", mode="strict", lvis=True, use_categories=False
    )
    assert np.array_equal(found.precision, expected.eval["precision"])
    pooled = evaluate(truth, results, iou_type="bbox", lvis=True, use_categories=False)
    assert found.stats[0] == -1 and pooled.stats[0] > 0


def test_objects_without_area_are_passed_over(tmp_path, monkeypatch):
    truth, results = case(0, "ties")
    truth["annotations"][0]["area"] = 0
    results[0]["bbox"][2] = 0
    expected = reference(truth, results, "bbox", tmp_path, monkeypatch)
    found = evaluate(truth, results, iou_type="bbox", mode="strict", lvis=True)
    assert np.array_equal(found.precision, expected.eval["precision"])
    assert sum(found.dropped.values()) == 2
    corrected = evaluate(truth, results, iou_type="bbox", lvis=True)
    assert len(corrected.truths) == len(found.truths) + 1


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_values_of_lvis(name):
    truth, results = case(0, name)
    found = evaluate(truth, results, iou_type="bbox", mode="strict", lvis=True)
    assert [value.hex() for value in found.stats.tolist()] == RECORDED[name]
