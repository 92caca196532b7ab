"""The detection probe on windows of images, and on images of another size than what is fed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stores.objects import (
    LEARNS,
    boxes_of,
    certain,
    run,
    scatter,
    telling_maps,
    toy_stores,
    write_objects,
)
from permafrost.data.labels.objects import Objects, objects_of
from permafrost.evaluators.detection import evaluate


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def toy_points(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("points"), points=True)


def windows_of(objects: Objects, offsets, size) -> list[Objects]:
    """Each window's objects in whole-image pixels, and the same cut, in the window's own."""
    met, own = [], []
    for x, y in offsets:
        low, high = np.array([x, y]), np.array([x + size[1], y + size[0]])
        meets = ((objects.boxes[:, :2] < high) & (objects.boxes[:, 2:] > low)).all(axis=1)
        part = objects.take(meets)
        met.append(part)
        boxes = part.boxes - np.tile(low, 2)
        own.append(Objects.of(boxes.clip(0, [*size[::-1]] * 2), part.classes))
    return met, own


@pytest.mark.parametrize("points", [False, True])
def test_an_object_across_two_windows_is_found_once(toy, toy_points, tmp_path, points):
    """Windows at 0, 48, 96 and, moved back to the edge, 100 of an image 164 px wide."""
    stores = toy_points if points else toy
    boxes = [[44, 8, 70, 34], [100, 20, 126, 52], [4, 30, 24, 56], [140, 4, 162, 30]]
    objects = Objects.of(boxes, [0, 1, 1, 0])
    if points:
        objects = Objects.of(np.tile(objects.centres, 2), objects.classes)
    offsets = [(0, 0), (48, 0), (96, 0), (100, 0)]
    met, own = windows_of(objects, offsets, (64, 64))
    maps = telling_maps(np.random.default_rng(0), own, (64, 64), (4, 8))
    test = write_objects(
        tmp_path / "test.zarr",
        maps,
        met,
        sizes=(64, 64),
        working=(64, 64),
        image_ids=["whole"] * 4,
        offsets=offsets,
        image_sizes=(64, 164),
        geometry="point" if points else "box",
        split="test",
        tiles={"size": 64, "overlap": 0.25},
    )
    table, metadata = run({**stores, "test": test}, tmp_path, **LEARNS)
    assert table["sample_id"].to_pylist() == ["whole"] and metadata["n_test"] == 4
    assert (table["height"][0].as_py(), table["width"][0].as_py()) == (64, 164)
    (truth,), (row,) = objects_of(table["objects"]), certain(table, metadata)
    np.testing.assert_array_equal(truth.boxes, objects.boxes)
    found = boxes_of(row)
    assert len(found) == 4
    for box in truth.boxes:
        assert np.abs(found - box).max(axis=1).min() < 6
    assert "windows_touch" not in metadata["gates"]


def test_windows_that_only_touch_are_a_gate(toy, tmp_path):
    objects = Objects.of([[50, 8, 80, 34]], [0])
    met, own = windows_of(objects, [(0, 0), (64, 0)], (64, 64))
    maps = telling_maps(np.random.default_rng(0), own, (64, 64), (4, 8))
    test = write_objects(
        tmp_path / "test.zarr",
        maps,
        met,
        sizes=(64, 64),
        working=(64, 64),
        image_ids=["whole"] * 2,
        offsets=[(0, 0), (64, 0)],
        image_sizes=(64, 128),
        split="test",
        tiles={"size": 64, "overlap": 0.0},
    )
    _, metadata = run({**toy, "test": test}, tmp_path, epochs=1)
    assert "windows_touch" in metadata["gates"]


def test_images_of_another_size_than_what_is_fed_are_found_in_their_own_pixels(toy, tmp_path):
    """Twice as wide, half as high."""
    rng = np.random.default_rng(9)
    fed = [scatter(rng, (64, 64), most=2) for _ in range(8)]
    maps = telling_maps(rng, fed, (64, 64), (4, 8))
    true = [Objects.of(each.boxes * [2, 0.5, 2, 0.5], each.classes) for each in fed]
    test = write_objects(
        tmp_path / "test.zarr", maps, true, sizes=(32, 128), working=(64, 64), split="test"
    )
    run({**toy, "test": test}, tmp_path, coco=tmp_path / "coco", **LEARNS)
    found = evaluate(
        str(tmp_path / "coco/truth.json"), str(tmp_path / "coco/detections.json"), iou_type="bbox"
    )
    assert found.stats[1] > 0.8
