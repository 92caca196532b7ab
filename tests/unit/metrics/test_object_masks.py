"""Masks of objects against dense arrays and pycocotools."""

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import Objects
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects import masks as ours
from permafrost.metrics.objects.overlaps import find_pairs, suppress
from pycocotools import mask as coco

SIZE = (23, 31)


def some(rng, count, size=SIZE):
    """Dense masks: noise, blobs, full and empty ones."""
    out = np.zeros((count, *size), bool)
    for one in out:
        kind = rng.integers(4)
        if kind == 0:
            one[:] = rng.random(size) < rng.choice([0.02, 0.5, 1.0])
        elif kind < 3:
            top, left = rng.integers(0, size[0]), rng.integers(0, size[1])
            one[top : top + rng.integers(1, 15), left : left + rng.integers(1, 15)] = True
            one &= rng.random(size) < 0.9
    return out


def runs(dense):
    codes = [coco.encode(np.asfortranarray(one.astype(np.uint8)))["counts"] for one in dense]
    return ours.masks_of_texts(
        [code.decode() for code in codes], *sizes(len(dense), dense.shape[1:])
    )


def sizes(count, size=SIZE):
    return np.full(count, size[0]), np.full(count, size[1])


def same(masks, dense):
    """Equal, and in the shortest form, which the code of pycocotools shows."""
    np.testing.assert_array_equal([masks.dense(i) for i in range(len(masks))], dense)
    codes = [coco.encode(np.asfortranarray(one.astype(np.uint8)))["counts"] for one in dense]
    assert ours.texts_of(masks) == [code.decode() for code in codes]


@pytest.mark.parametrize("seed", range(5))
def test_masks_are_placed_clipped_and_joined_like_dense_arrays(seed):
    rng = np.random.default_rng(seed)
    dense = some(rng, 12)
    masks = runs(dense)
    same(masks, dense)

    by = rng.integers(-9, 10, (12, 2))
    wanted = np.zeros((12, 40, 35), bool)
    for one, target, (right, down) in zip(dense, wanted, by, strict=True):
        for row, column in np.argwhere(one):
            if 0 <= row + down < 40 and 0 <= column + right < 35:
                target[row + down, column + right] = True
    same(ours.moved(masks, by, *sizes(12, (40, 35))), wanted)

    bounds = np.sort(rng.integers(0, 32, (12, 2, 2)), axis=1).reshape(12, 4)
    wanted = np.zeros_like(dense)
    for one, target, (left, top, right, bottom) in zip(dense, wanted, bounds, strict=True):
        target[top:bottom, left:right] = one[top:bottom, left:right]
    same(ours.clipped(masks, bounds), wanted)

    groups = [np.array([0]), np.array([3, 1, 4]), np.array([11, 5]), np.array([1, 1])]
    same(ours.united(masks, groups), [dense[group].any(axis=0) for group in groups])

    corners, cuts = [], []
    for one in dense:
        rows, columns = np.nonzero(one) if one.any() else ([2], [3])
        corners.append([min(columns), min(rows)])
        cuts.append(one[min(rows) : max(rows) + 1, min(columns) : max(columns) + 1])
    same(ours.masks_of_rasters(cuts, corners, *sizes(12)), dense)


@pytest.mark.parametrize("seed", range(3))
def test_pairs_and_suppression_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    first, second = some(rng, 9), some(rng, 7)
    pairs = find_pairs("mask", runs(first), runs(second))
    common = (first[:, None] & second[None]).sum(axis=(2, 3))
    union = (first[:, None] | second[None]).sum(axis=(2, 3))
    i, j = np.nonzero(common)
    np.testing.assert_array_equal([pairs.first, pairs.second], [i, j])
    np.testing.assert_array_equal(pairs.value, common[i, j])
    np.testing.assert_allclose(pairs.iou, (common / np.maximum(union, 1))[i, j], rtol=1e-15)

    scores = rng.integers(0, 4, 9) / 4
    iou = (first[:, None] & first[None]).sum(axis=(2, 3)) / np.maximum(
        (first[:, None] | first[None]).sum(axis=(2, 3)), 1
    )
    kept: list[int] = []
    for row in np.argsort(-scores, kind="stable"):
        if all(iou[row, other] <= 0.3 for other in kept):
            kept.append(int(row))
    assert suppress("mask", runs(first), scores, threshold=0.3).tolist() == kept


def test_objects_become_masks_by_annotation_then_polygon_then_box():
    raster = np.zeros(SIZE, bool)
    raster[4:9, 2:5] = True
    raster[6, 3] = False
    text = ours.texts_of(runs(raster[None]))[0]
    rings = [[1.0, 1.0, 9.3, 2.0, 4.0, 12.5], [20.0, 20.0, 28.0, 20.0, 28.0, 40.0]]
    boxes = [[2, 4, 5, 9], [1, 1, 28, 40], [3, 2, 7, 30]]
    objects = Objects.of(boxes, [0] * 3, polygons=[None, rings, None], masks=[text, None, None])
    drawn = coco.decode(coco.merge(coco.frPyObjects(rings, *SIZE))).astype(bool)
    box = np.zeros(SIZE, bool)
    box[2:30, 3:7] = True
    found = ours.masks_of_objects([objects.take([0]), objects.take([1, 2])], [SIZE, SIZE])
    same(found, [raster, drawn, box])
    assert len(ours.masks_of_objects([], np.empty((0, 2)))) == 0


def test_boxes_are_filled_where_they_hold_the_centres_of_pixels():
    boxes = np.array([[0.4, 0.6, 3.5, 2.5], [-5, -5, 50, 50], [4, 4, 4.2, 9], [3, 2, 2, 5]])
    wanted = np.zeros((4, *SIZE), bool)
    wanted[0, 1:2, 0:3] = True
    wanted[1] = True
    same(ours.masks_of_boxes(boxes, *sizes(4)), wanted)


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(PermafrostError, match="mask 1 of 1 is damaged"):
        ours.masks_of_texts(["05"], [4], [4])
    assert isinstance(ours.masks_of_texts([], [], []), Masks)
