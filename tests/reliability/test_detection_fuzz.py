"""Any input at all: a result or one error for the user; no crash, no hang, no silent change."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, compress, masks_of_images
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.masks.codec import decode, encode
from permafrost.metrics.detection.masks.polygons import rasterise
from permafrost.metrics.detection.masks.runs import masks_of_runs

FUZZ = settings(max_examples=80, deadline=None)

runs = st.lists(st.integers(0, 40), min_size=1, max_size=30).filter(lambda r: sum(r) > 0)


@FUZZ
@given(st.lists(runs, min_size=1, max_size=5))
def test_any_runs_survive_the_code(many):
    strings = [compress(counts).encode() for counts in many]
    sizes = [sum(counts) for counts in many]
    masks, measures, problems = decode(strings, sizes, [1] * len(many))
    assert problems == {}
    assert measures[:, 0].tolist() == [sum(counts[1::2]) for counts in many]
    plain = [np.repeat(np.arange(len(c)) % 2, c) for c in many]
    for i, pixels in enumerate(plain):
        assert np.array_equal(masks.dense(i)[:, 0], pixels)
    # writing gives the shortest code, and reading that gives the same mask
    again, _, problems = decode(encode(masks), sizes, [1] * len(many))
    assert problems == {}
    assert all(np.array_equal(again.dense(i), masks.dense(i)) for i in range(len(many)))


@FUZZ
@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 50), st.integers(1, 50))
def test_any_bytes_are_a_mask_or_a_problem(strings, height, width):
    sizes = [height] * len(strings), [width] * len(strings)
    masks, measures, problems = decode(strings, *sizes)
    for i, string in enumerate(strings):
        alone, _, problem = decode([string], [height], [width])
        # neighbours do not matter
        assert problem.get(0) == problems.get(i)
        assert np.array_equal(alone.dense(0), masks.dense(i))
        assert masks.dense(i).sum() == measures[i, 0]
        if i in problems:
            assert measures[i, 0] == 0


@FUZZ
@given(st.text(alphabet=[chr(c) for c in range(48, 112)], max_size=30))
def test_any_text_of_the_alphabet_is_read_like_a_plain_reader(text):
    values, at, fine = [], 0, True
    while at < len(text) and fine:
        value, place, more = 0, 0, True
        while more and at < len(text):
            digit = ord(text[at]) - 48
            value |= (digit & 31) << 5 * place
            more, at, place = bool(digit & 32), at + 1, place + 1
            if not more and digit & 16:
                value -= 1 << 5 * place
        fine = not more and place <= 7
        values.append(value + values[-2] if len(values) > 2 else value)
    fine = fine and all(v >= 0 for v in values) and 0 < sum(values) < 1 << 31
    size = sum(values) if fine else 5
    masks, measures, problems = decode([text.encode()], [size], [1])
    assert (problems == {}) == fine
    if fine:
        assert measures[0, 0] == sum(values[1::2])


@pytest.mark.parametrize("seed", range(5))
def test_polygons_and_masks_equal_pycocotools(seed):
    tools = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(seed)
    rings, owners, sizes, expected = [], [], [], []
    for i in range(150):
        height, width = (int(n) for n in rng.integers(1, 60, 2))
        mine = []
        for _ in range(1 if rng.random() < 0.7 else 3):
            ring = rng.uniform(-0.3, 1.3, (rng.integers(3, 10), 2)) * [width, height]
            mine.append(np.round(ring * 10) / 10 if rng.random() < 0.3 else ring)
            mine[-1] = np.round(mine[-1] * 2) / 2 if rng.random() < 0.4 else mine[-1]
        rings += mine
        owners += [i] * len(mine)
        sizes.append((height, width))
        flat = [ring.ravel().tolist() for ring in mine]
        expected.append(tools.merge(tools.frPyObjects(flat, height, width)))
    heights, widths = np.array(sizes).T
    masks = rasterise(
        np.concatenate(rings), [len(r) for r in rings], np.array(owners), heights, widths
    )
    assert encode(masks) == [e["counts"] for e in expected]
    assert np.array_equal(masks.areas(), tools.area(expected))
    assert np.array_equal(masks.boxes(), tools.toBbox(expected))
    assert all(np.array_equal(masks.dense(i), tools.decode(e)) for i, e in enumerate(expected))


@FUZZ
@given(st.lists(st.integers(0, 30), min_size=1, max_size=20).filter(sum), st.integers(1, 6))
def test_areas_and_boxes_of_runs_of_length_0(counts, height):
    tools = pytest.importorskip("pycocotools.mask")
    total = sum(counts)
    padded = [*counts, *([0] if len(counts) % 2 == 0 else []), -total % height]
    width = sum(padded) // height
    theirs = tools.frPyObjects({"size": [height, width], "counts": padded}, height, width)
    ours = masks_of_runs([len(padded)], np.array(padded), [height], [width])
    assert ours.areas()[0] == tools.area(theirs)
    assert np.array_equal(ours.dense(0), tools.decode(theirs))
    if ours.areas()[0]:  # of stretches that are all empty, pycocotools makes a box of 2**32 pixels
        assert np.array_equal(ours.boxes()[0], tools.toBbox(theirs))
    else:
        assert not ours.boxes().any()


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["bbox", "counts", "size"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(["bbox", "segm", "keypoints", "boundary"]),
    st.sampled_from(["strict", "corrected"]),
    st.sampled_from(["error", "drop"]),
    st.data(),
)
def test_one_value_replaced_by_anything(iou_type, mode, invalid, data):
    geometry = "segm" if iou_type == "boundary" else iou_type
    truth, results = copy.deepcopy(_case(geometry))
    section = data.draw(st.sampled_from(["images", "categories", "annotations", "results"]))
    entries = results if section == "results" else truth[section]
    entry = entries[data.draw(st.integers(0, len(entries) - 1))]
    entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(junk)
    try:
        found = evaluate(truth, results, iou_type=iou_type, mode=mode, invalid=invalid)
    except PermafrostError:
        return
    assert ((found.stats >= -1) & (found.stats <= 1)).all()
    # what is not evaluated is counted
    there = len(truth["annotations"]) + len(results)
    left = sum(count for what, count in found.dropped.items() if what[:3] in ("ann", "det"))
    assert len(found.truths) + len(found.detections) + left == there


_CASES: dict = {}


def _case(geometry: str):
    if geometry not in _CASES:
        _CASES[geometry] = coco_case(1, images=3, truths=3, detections=4, geometry=geometry)
    return _CASES[geometry]


@settings(max_examples=100, deadline=None)
@given(junk, junk)
def test_anything_for_a_file(truth, results):
    with pytest.raises(PermafrostError):
        evaluate(truth, results, iou_type="bbox")


def test_masks_of_random_pixels_survive_both_ways():
    rng = np.random.default_rng(0)
    images = [rng.random(rng.integers(1, 30, 2)) < p for p in rng.random(60)]
    masks = masks_of_images(images)
    again, _, problems = decode(encode(masks), masks.heights, masks.widths)
    assert problems == {}
    assert all(np.array_equal(again.dense(i), image) for i, image in enumerate(images))
