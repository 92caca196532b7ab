"""What fuzzing found, once each, and the fuzz targets on good and on random inputs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.fuzzing.detections import TARGETS, case, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.detection.slices import read_manifest

FAST = ("codec", "polygons", "crowns")


@pytest.fixture(autouse=True)
def _needs_peer(request):
    if "polygons" in request.node.name:
        pytest.importorskip("pycocotools")


@pytest.mark.parametrize("name", TARGETS)
def test_good_inputs_and_their_halves_keep_all_promises(name):
    for content in seeds(name):
        for part in (content, content[: len(content) // 2], content[3:], b""):
            TARGETS[name](part)


@pytest.mark.parametrize("name", TARGETS)
def test_random_inputs_keep_all_promises(name):
    @settings(max_examples=150 if name in FAST else 40, deadline=None)
    @given(st.binary(max_size=200))
    def tried(data):
        TARGETS[name](data)

    tried()


@pytest.mark.parametrize("name", ["codec", "crowns", "truth", "predictions"])
def test_good_inputs_with_some_bytes_changed_keep_all_promises(name):
    good = seeds(name)

    @settings(max_examples=150 if name in FAST else 60, deadline=None)
    @given(
        st.sampled_from(good),
        st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4),
    )
    def tried(content, changes):
        content = bytearray(content)
        for place, value in changes:
            content[place % len(content)] = value
        TARGETS[name](bytes(content))

    tried()


def test_what_is_passed_over_is_not_counted_twice():
    """An annotation of no known category whose box is wrong too was counted for both."""
    truth, results = case("bbox")
    truth["annotations"][0].update(category_id=999, bbox=[float("nan")] * 4)
    results[0].update(category_id=999, score="high")
    found = evaluate(truth, results, iou_type="bbox", mode="strict", invalid="drop")
    assert sorted(found.dropped.values()) == [1, 1]
    assert len(found.truths) + len(found.detections) + 2 == len(truth["annotations"]) + len(results)


@pytest.mark.parametrize("place", [0, 3])
def test_a_coordinate_beyond_all_floats_is_refused(place):
    """An integer that no float can hold escaped as an OverflowError where polygons were gathered."""
    truth, results = case("segm")
    entry = next(e for e in truth["annotations"] if isinstance(e["segmentation"], list))
    entry["segmentation"] = copy.deepcopy(entry["segmentation"])
    entry["segmentation"][0][place] = 10**400
    with pytest.raises(PermafrostError, match="gigantic"):
        evaluate(truth, results, iou_type="segm")
    found = evaluate(truth, results, iou_type="segm", invalid="drop")
    assert sum(found.dropped.values()) == 1


@pytest.mark.parametrize("value", [True, 1.5, "1", None, 10**30, -1, [2, 3]])
@pytest.mark.parametrize("place", [0, 1])
def test_sizes_of_masks_are_checked_however_many_there_are(value, place):
    """Sizes of many compressed masks are read at once; nothing must pass that one alone would not."""
    truth, results = case("segm")
    results = [e for e in results if isinstance(e["segmentation"]["counts"], str)]
    assert len(results) > 2
    results[1]["segmentation"]["size"][place] = value
    for mode in ("strict", "corrected"):
        with pytest.raises(PermafrostError, match=r"\[1\].*size|\[1\].*mask is|\[1\].*add up"):
            evaluate(truth, results, iou_type="segm", mode=mode)
    found = evaluate(truth, results, iou_type="segm", invalid="drop")
    assert len(found.detections) == len(results) - 1


def test_one_mask_of_true_by_true_pixels_is_no_mask_of_one_pixel():
    truth, results = case("segm")
    truth["images"][0].update(width=1, height=1)
    mine = [e for e in results if e["image_id"] == truth["images"][0]["id"]]
    others = [e for e in results if e not in mine and isinstance(e["segmentation"]["counts"], str)]
    truth["annotations"] = [
        e for e in truth["annotations"] if e["image_id"] != truth["images"][0]["id"]
    ]
    pixel = {**results[0], "image_id": truth["images"][0]["id"], "bbox": [0, 0, 1, 1]}
    fine = {**pixel, "segmentation": {"size": [1, 1], "counts": "1"}}
    evaluate(truth, [*others, fine], iou_type="segm")
    wrong = {**pixel, "segmentation": {"size": [True, True], "counts": "1"}}
    with pytest.raises(PermafrostError, match="size is not"):
        evaluate(truth, [*others, wrong], iou_type="segm")


def test_a_manifest_with_an_endless_cell_is_refused(tmp_path):
    """The limit of the csv module escaped as its own error."""
    path = tmp_path / "slices.csv"
    path.write_text("image_id,weather\n10," + "a" * 200_000 + "\n")
    with pytest.raises(PermafrostError, match=r"slices.csv: not a CSV file"):
        read_manifest(path, np.array([10]))


def test_masks_given_as_strings_bytes_and_lists_score_the_same():
    """Compressed masks alone are read another way than beside others."""
    truth, results = case("segm")
    results = [e for e in results if isinstance(e["segmentation"]["counts"], str)]
    one = evaluate(truth, results, iou_type="segm")
    for changed in (1, len(results)):
        mixed = copy.deepcopy(results)
        for entry in mixed[:changed]:
            entry["segmentation"]["counts"] = entry["segmentation"]["counts"].encode()
        other = evaluate(truth, mixed, iou_type="segm")
        assert np.array_equal(one.precision, other.precision)
        assert np.array_equal(one.scores, other.scores)
