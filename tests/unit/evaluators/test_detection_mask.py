"""`mask` gives what `pycocotools.mask` gives."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import mask as ours

theirs = pytest.importorskip("pycocotools.mask")


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(other, dict | list):
        assert one == other
    else:
        assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("seed", range(20))
def test_masks_are_written_read_measured_and_compared_the_same(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 30, 2)
    pixels = rng.random((*shape, 1 + seed % 4)) < rng.choice([0, 0.1, 0.5, 1])
    pixels = np.asfortranarray(pixels.astype(np.uint8))
    rles = theirs.encode(pixels)
    assert_same(ours.encode(pixels), rles)
    assert_same(ours.encode(pixels[:, :, 0].astype(bool)), rles[0])
    for given in (rles, rles[0]):
        for name in ("decode", "area", "toBbox"):
            assert_same(getattr(ours, name)(given), getattr(theirs, name)(given))
    for intersect in (False, True):
        assert_same(ours.merge(rles, intersect), theirs.merge(rles, intersect))
    crowd = rng.integers(0, 2, len(rles)).tolist()
    assert_same(ours.iou(rles[::-1], rles, crowd), theirs.iou(rles[::-1], rles, crowd))
    assert_same(ours.iou([], rles, crowd), theirs.iou([], rles, crowd))


@pytest.mark.parametrize("seed", range(10))
def test_boxes_and_polygons_are_drawn_and_compared_the_same(seed):
    rng = np.random.default_rng(seed)
    boxes, others = rng.random((4, 4)) * 20, rng.random((3, 4)) * 20
    for given in (boxes, boxes.tolist()):
        assert_same(
            ours.iou(given, type(given)(others) if given is not boxes else others, [0, 1, 0]),
            theirs.iou(given, others.tolist() if given is not boxes else others, [0, 1, 0]),
        )
    drawn = theirs.frPyObjects(boxes, 50, 60)
    assert_same(ours.frPyObjects(boxes, 50, 60), drawn)
    assert ours.frPyObjects(boxes.tolist(), 50, 60) == drawn
    assert ours.frPyObjects(boxes[0].tolist(), 50, 60) == drawn[0]
    polygons = [(rng.random(2 * corners) * 50).tolist() for corners in (3, 5, 7)]
    assert_same(ours.frPyObjects(polygons, 50, 60), theirs.frPyObjects(polygons, 50, 60))
    runs = [ours.run_lengths(rng.random((50, 60)) < 0.5) for _ in range(2)]
    for given in (runs, runs[0]):
        assert_same(ours.frPyObjects(given, 50, 60), theirs.frPyObjects(given, 50, 60))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ours.encode(np.zeros(3)), "must be"),
        (lambda: ours.area([{"size": [2, 2]}]), "mask 0: .*no mask"),
        (lambda: ours.area([{"size": [2, 2], "counts": [3]}]), "mask 0"),
        (lambda: ours.iou([[0, 0, 1, 1]], [[0, 0, 1, 1]], []), "iscrowd"),
        (lambda: ours.iou([[0, 0, 1]], [[0, 0, 1, 1]], [0]), "either masks, or boxes"),
        (
            lambda: ours.merge([ours.encode(np.ones(shape)) for shape in ((3, 4), (4, 3))]),
            "sizes",
        ),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(PermafrostError, match=words):
        call()
