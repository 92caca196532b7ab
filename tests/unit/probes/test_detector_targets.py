"""Which cell learns which object: levels, the rule cell by cell, the way back, windows, ignored regions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers.stores.objects import scatter, telling_maps, write_objects
from permafrost.data.labels.objects import Objects
from permafrost.probes.dense.map_splits import Layer
from permafrost.probes.detection.object_splits import ObjectSplit
from permafrost.probes.detection.pyramid import plan_pyramid
from permafrost.probes.detection.shapes import POINTS, UPRIGHT
from permafrost.probes.detection.stitching import ShownObjects, shown_objects
from permafrost.probes.detection.targets import assign


def layers(*sizes):
    return [Layer(f"layer{i}", f"map{i}", 8, *size) for i, size in enumerate(sizes)]


def pyramid(*grids, working=(64, 64), finest=8, points=False):
    return plan_pyramid(layers(*((g, g) for g in grids)), working, finest, sized=not points)


def many(count=60, *, size=(64, 64), seed=0, points=False) -> ShownObjects:
    """Boxes of all sizes that overlap a lot, some of them not learned."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, [size[1] - 2, size[0] - 2], (count, 2))
    high = low + rng.uniform(1, 40, (count, 2))
    boxes = np.hstack([low, low if points else np.minimum(high, size[::-1])])
    sample = np.sort(rng.integers(0, 5, count))
    return ShownObjects(sample, boxes, rng.integers(0, 3, count), rng.random(count) > 0.2)


@pytest.mark.parametrize(
    ("grids", "working", "finest", "expected"),
    [
        ((7, 14, 28), 224, 8, [7, 14, 28]),
        ((16, 16, 16, 16), 224, 8, [16, 32]),  # a transformer of stride 14
        ((7,), 224, 8, [7, 14, 28]),
        ((7, 14, 28, 56), 224, 8, [7, 14, 28]),  # the finest is pooled
        ((7, 14, 28), 224, 4, [7, 14, 28, 56]),
        ((29,), 225, 8, [29]),
        ((1,), 32, 64, [1]),
    ],
)
def test_levels_come_as_near_to_the_finest_stride_as_steps_of_two(grids, working, finest, expected):
    found = pyramid(*grids, working=(working, working), finest=finest)
    assert [level.size[0] for level in found.levels] == expected
    assert sorted(i for level in found.levels for i in level.maps) == list(range(len(grids)))
    assert found.cells == sum(size**2 for size in expected) == len(found.centres)


def test_levels_share_all_sizes_among_them():
    found = pyramid(7, 14, 28, working=(224, 224))
    assert found.reaches == [(128, math.inf), (64, 128), (0.0, 64)]
    assert pyramid(7, 28, working=(224, 224)).reaches == [(64, math.inf), (0.0, 64)]
    assert pyramid(7, working=(224, 224), finest=32).reaches == [(0.0, math.inf)]


def by_the_rule(shown: ShownObjects, levels, *, points: bool):
    """(sample, cell) to (class, place), and ignored cells, one after the other."""
    taken, ignored = {}, set()
    for key in itertools.product(range(int(shown.sample.max()) + 1), range(levels.cells)):
        sample, cell = key
        (x, y), (sx, sy) = levels.centres[cell], levels.strides[cell]
        number = int(np.searchsorted(levels.starts, cell, side="right")) - 1
        low, high = levels.reaches[number]
        best = None
        for i in np.flatnonzero(shown.sample == sample):
            x1, y1, x2, y2 = shown.boxes[i]
            cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
            if not shown.learned[i]:
                wide, tall = (sx, sy) if points else (0, 0)
                if x1 - wide <= x <= x2 + wide and y1 - tall <= y <= y2 + tall:
                    ignored.add(key)
                continue
            radius = 1 if points else 1.5
            if abs(x - cx) >= radius * sx or abs(y - cy) >= radius * sy:
                continue
            if points:
                place = ((cx - x) / sx, (cy - y) / sy)
                rank = math.hypot(*place)
            else:
                sides = (x - x1, y - y1, x2 - x, y2 - y)
                if min(sides) <= 0 or not low < max(sides) <= high:
                    continue
                place = tuple(np.array(sides) / (sx, sy, sx, sy))
                rank = (x2 - x1) * (y2 - y1)
            if best is None or rank < best[0]:
                best = rank, int(shown.classes[i]), place
        if best is not None:
            taken[key] = best[1:]
    return taken, ignored - taken.keys()


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(("grids", "working"), [((4, 8), (64, 64)), ((5, 10, 20), (80, 120))])
def test_targets_are_those_of_the_rule_cell_by_cell(grids, working, points):
    levels = pyramid(*grids, working=working, points=points)
    shown = many(size=working, points=points)
    found = assign(shown, levels, POINTS if points else UPRIGHT)
    taken, ignored = by_the_rule(shown, levels, points=points)
    keys = [(int(key) // levels.cells, int(key) % levels.cells) for key in found.keys]
    assert keys == sorted(taken) and len(keys) > 20
    assert found.classes.tolist() == [taken[key][0] for key in keys]
    np.testing.assert_allclose(found.places, [taken[key][1] for key in keys], rtol=1e-6)
    ignored_keys = [(int(key) // levels.cells, int(key) % levels.cells) for key in found.ignored]
    assert ignored_keys == sorted(ignored) and ignored


@pytest.mark.parametrize("points", [False, True])
def test_targets_lead_back_to_the_objects(points):
    levels = pyramid(4, 8, points=points)
    shown = many(points=points, seed=3)
    found = assign(shown, levels, POINTS if points else UPRIGHT)
    cells = found.keys % levels.cells
    boxes = (POINTS if points else UPRIGHT).decode(found.places, cells, levels, np.ones(2))["boxes"]
    for box, sample in zip(boxes, found.keys // levels.cells, strict=True):
        own = shown.boxes[(shown.sample == sample) & shown.learned]
        assert np.abs(own - box).max(axis=1).min() < 1e-5


def test_corners_are_exact_where_strides_are_powers_of_two():
    levels = pyramid(4, 8)
    box = np.array([[8.25, 4.5, 31.75, 40.125]])
    shown = ShownObjects(np.zeros(1, int), box, np.zeros(1, int), np.ones(1, bool))
    found = assign(shown, levels, UPRIGHT)
    assert len(found.keys)
    assert (UPRIGHT.decode(found.places, found.keys, levels, np.ones(2))["boxes"] == box).all()


def test_a_batch_has_the_targets_of_its_samples_in_its_order():
    levels = pyramid(4, 8)
    found = assign(many(), levels, UPRIGHT)
    rows = np.array([3, 0, 4])
    chosen = found.of(rows)
    expected = []
    for place, row in enumerate(rows):
        own = found.keys // levels.cells == row
        cells = place * levels.cells + found.keys[own] % levels.cells
        expected += zip(cells, found.classes[own], found.places[own], strict=True)
    assert chosen.cells.tolist() == [cell for cell, _, _ in expected]
    assert chosen.classes.tolist() == [label for _, label, _ in expected]
    np.testing.assert_array_equal(chosen.places, [place for _, _, place in expected])
    assert (np.diff(chosen.cells) > 0).all() and len(chosen.ignored)


def test_objects_that_no_cell_can_take_are_counted():
    levels = pyramid(8)
    boxes = np.array([[1, 1, 2, 2], [8, 8, 30, 30.0]])
    shown = ShownObjects(np.zeros(2, int), boxes, np.zeros(2, int), np.ones(2, bool))
    found = assign(shown, levels, UPRIGHT)
    assert (found.objects, found.without_cell) == (2, 1)


def split_of(tmp_path, objects, *, sizes, working=(64, 64), **others):
    maps = [np.zeros((len(objects), 2, 4, 4))]
    path = write_objects(tmp_path / "x.zarr", maps, objects, sizes=sizes, working=working, **others)
    return ObjectSplit(path)


def test_a_window_learns_what_it_shows_enough_of_in_its_own_pixels(tmp_path):
    """Windows of 32 x 32 of an image of 32 x 56, fed at 64 x 64."""
    objects = Objects.of(
        [[20, 4, 36, 12], [28, 16, 40, 24], [0, 0, 8, 8]], [0, 1, 0], crowd=[False, False, True]
    )
    first, second = objects.take(np.array([0, 1, 2])), objects.take(np.array([0, 1]))
    split = split_of(
        tmp_path,
        [first, second],
        sizes=(32, 32),
        image_ids=["a", "a"],
        offsets=[(0, 0), (24, 0)],
        image_sizes=(32, 56),
        tiles={"size": 32, "overlap": 0.25},
    )
    shown = shown_objects(split)
    assert shown.sample.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(
        shown.boxes,
        [[40, 8, 64, 24], [56, 32, 64, 48], [0, 0, 16, 16], [0, 8, 24, 24], [8, 32, 32, 48]],
    )
    # 12 of 16 columns, 4 of 12, a crowd; 12 of 16 columns, all
    assert shown.learned.tolist() == [True, False, False, True, True]
    (image,) = split.images
    assert image.name == "a" and image.size == (32, 56) and image.rows.tolist() == [0, 1]
    np.testing.assert_array_equal(image.objects.boxes, objects.boxes)
    assert split.object_count == 2


def test_half_is_not_more_than_half(tmp_path):
    split = split_of(tmp_path, [Objects.of([[-4, 0, 4, 8]], [0])], sizes=(32, 32))
    assert shown_objects(split).learned.tolist() == [False]


def test_images_come_in_the_order_of_their_first_windows(tmp_path):
    nothing = Objects.of(np.empty((0, 4)), [])
    split = split_of(
        tmp_path,
        [nothing] * 4,
        sizes=(32, 32),
        image_ids=["b", "b", "a", "c"],
        offsets=[(0, 0), (24, 0), (0, 0), (0, 0)],
        image_sizes=(32, 56),
    )
    assert [image.name for image in split.images] == ["b", "a", "c"]
    assert all(len(image.objects) == 0 for image in split.images)


def test_the_generated_maps_tell_what_the_targets_ask_for():
    """So that tests which learn from them test the head, not the maps."""
    rng = np.random.default_rng(0)
    images = [scatter(rng, (64, 64), most=1) for _ in range(20)]
    (values,) = telling_maps(rng, images, (64, 64), (8,), noise=0)
    sample = np.repeat(np.arange(20), [len(each) for each in images])
    boxes = np.concatenate([each.boxes for each in images])
    shown = ShownObjects(sample, boxes, np.zeros(len(boxes), int), np.ones(len(boxes), bool))
    found = assign(shown, pyramid(8), UPRIGHT)
    cells = values.reshape(20, 7, 64)[found.keys // 64, :, found.keys % 64]
    np.testing.assert_allclose(cells[:, :4], found.places, rtol=1e-6)
