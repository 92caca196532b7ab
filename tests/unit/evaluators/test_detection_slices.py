"""Slices of an evaluation are evaluations of their images alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.detection.slices import UNASSIGNED, crossed, read_manifest, slices
from permafrost.evaluators.detection.subset import subset
from permafrost.metrics.detection.analysis import (
    category_table,
    confusion_matrix,
    error_kinds,
    image_table,
    pair_table,
)

# LVIS has no keypoints
KERNELS = [
    (kernel, options)
    for kernel in ("bbox", "segm", "boundary", "keypoints")
    for options in ({}, {"use_categories": False}, {"lvis": True})
    if not (kernel == "keypoints" and options.get("lvis"))
]
TENSORS = ("precision", "recall", "scores")


def alone(truth, results, ids):
    """Truth and detections of some images."""
    kept = set(ids)
    sections = {
        "images": [entry for entry in truth["images"] if entry["id"] in kept],
        "annotations": [entry for entry in truth["annotations"] if entry["image_id"] in kept],
    }
    return {**truth, **sections}, [entry for entry in results if entry["image_id"] in kept]


def same(one, two) -> bool:
    tensors = all(np.array_equal(getattr(one, name), getattr(two, name)) for name in TENSORS)
    return tensors and np.array_equal(one.stats, two.stats, equal_nan=True)


@pytest.mark.parametrize("mode", ["strict", "corrected"])
@pytest.mark.parametrize(("kernel", "options"), KERNELS)
def test_a_subset_is_the_evaluation_of_its_images(kernel, options, mode):
    geometry = "segm" if kernel == "boundary" else kernel
    truth, results = coco_case(4, geometry=geometry, first_id=0, images=8, detections=12)
    truth = federate(truth, 1) if options.get("lvis") else truth
    whole = evaluate(truth, results, iou_type=kernel, mode=mode, **options)
    chosen = np.random.default_rng(0).random(8) < 0.5
    for mask in (chosen, ~chosen, np.ones(8, bool), np.zeros(8, bool)):
        part = subset(whole, mask)
        ids = whole.truths.images.ids[mask].tolist()
        expected = evaluate(*alone(truth, results, ids), iou_type=kernel, mode=mode, **options)
        assert same(part, expected)
    assert same(subset(whole, np.ones(8, bool)), whole)


@pytest.mark.parametrize("kernel", ["bbox", "segm"])
def test_all_analyses_of_a_subset_are_those_of_its_images(kernel):
    truth, results = coco_case(5, geometry=kernel, ties=False, whole=False, detections=12)
    whole = evaluate(truth, results, iou_type=kernel)
    chosen = np.arange(12) % 3 > 0
    part = subset(whole, chosen)
    ids = whole.truths.images.ids[chosen].tolist()
    expected = evaluate(*alone(truth, results, ids), iou_type=kernel)
    for table in (image_table, category_table, pair_table):
        one, two = table(part), table(expected)
        for name in set(one) - {"detection_id"}:
            assert np.array_equal(one[name], two[name], equal_nan=one[name].dtype.kind == "f")
    assert error_kinds(part) == error_kinds(expected)
    assert np.array_equal(confusion_matrix(part), confusion_matrix(expected))


def manifest_rows(ids):
    rows = [
        {"key": key, "sky": ("fog", "sun")[n % 2], "site": "ab"[n > 4]} for n, key in enumerate(ids)
    ]
    return rows[:-2]


def test_slices_by_every_axis_with_the_unassigned_last():
    truth, results = coco_case(6)
    whole = evaluate(truth, results, iou_type="bbox")
    ids = whole.truths.images.ids
    manifest = read_manifest(
        {"manifest_version": "1", "key_kind": "image_id", "rows": manifest_rows(ids.tolist())}, ids
    )
    parts = slices(whole, manifest)
    labels = [(part.axis, part.label) for part in parts]
    assert labels == [
        *(("sky", label) for label in ("fog", "sun", UNASSIGNED)),
        *(("site", label) for label in ("a", "b", UNASSIGNED)),
    ]
    for axis in ("sky", "site"):
        own = [part for part in parts if part.axis == axis]
        assert (sum(part.chosen.astype(int) for part in own) == 1).all()
        assert sum(len(part.evaluation.detections) for part in own) == len(results)
    fog = parts[0]
    expected = evaluate(*alone(truth, results, ids[fog.chosen].tolist()), iou_type="bbox")
    assert same(fog.evaluation, expected)


def test_combinations_of_labels_are_one_more_axis():
    ids = np.arange(12)
    manifest = read_manifest(manifest_rows(ids.tolist()), ids)
    both = crossed(manifest)
    assert list(both.labels) == ["sky & site"]
    labels = both.labels["sky & site"]
    assert labels[0] == "fog & a" and labels[5] == "sun & b" and labels[11] == UNASSIGNED
    assert list(crossed(manifest, ["site"]).labels) == ["site"]
    with pytest.raises(PermafrostError, match="no axis 'skye'.*did you mean 'sky'"):
        crossed(manifest, ["skye"])


@pytest.mark.parametrize("form", ["json", "csv", "rows"])
def test_a_manifest_in_any_form_says_the_same(tmp_path, form):
    ids = np.array([3, 5, 9])
    rows = [{"key": 5, "sky": "fog"}, {"key": 3, "sky": ""}, {"key": 77, "sky": "sun"}]
    source = rows
    if form == "json":
        source = tmp_path / "m.json"
        source.write_text(json.dumps({"manifest_version": "1", "rows": rows}))
    if form == "csv":
        source = tmp_path / "m.csv"
        source.write_text("\ufeffimage_id, sky\n5,fog\n3,\n\n77,sun\n", encoding="utf-8")
    found = read_manifest(source, ids)
    assert found.labels["sky"].tolist() == [UNASSIGNED, "fog", UNASSIGNED]
    assert "1 images of the manifest are not in the truth (the first is 77)" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs a column image_id"),
        ("id,sky\n1,a\n", "needs a column image_id"),
        ("image_id,sky,sky\n1,a,b\n", "different names"),
        ("image_id\n1\n", "no axis"),
        ("image_id,sky\n1,a\n1,b\n", "named twice"),
        ("image_id,sky\n1,a,b\n", "line 2: 3 cells under 2 names"),
        ("image_id,sky\n,a\n", "row 1: has no image_id"),
        ('{"rows": 3}', "must have rows"),
        ('{"manifest_version": "2", "rows": []}', "manifest_version must be '1'"),
        ('{"key_kind": "path", "rows": []}', "key_kind must be 'image_id'"),
        ("{nonsense", "not a JSON file"),
        ("[1, 2]", "must have rows"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path, text, words):
    path = tmp_path / "manifest"
    path.write_text(text)
    with pytest.raises(PermafrostError, match=words):
        read_manifest(path, np.array([1, 2]))
    with pytest.raises(PermafrostError, match="cannot be read"):
        read_manifest(tmp_path / "absent", np.array([1]))
