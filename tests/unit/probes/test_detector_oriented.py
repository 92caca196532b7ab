"""Oriented boxes: numbers that never jump, their loss, cells, windows, suppression, and angles that are learned."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import shapely
import torch
from helpers.stores.objects import run, write_objects
from helpers.stores.windows import windows_of
from permafrost.data.files.windows import cut_windows
from permafrost.data.labels.objects import Objects
from permafrost.data.labels.oriented import (
    area_of,
    corners_of,
    corners_of_polygons,
    enclosing,
    polygons_of,
    rotated_of,
)
from permafrost.metrics.detection.kernels.oriented import oriented_iou
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.dense.map_splits import Layer
from permafrost.probes.detection.decode import Decoder
from permafrost.probes.detection.losses import hellinger
from permafrost.probes.detection.model import Output
from permafrost.probes.detection.pyramid import plan_pyramid
from permafrost.probes.detection.shapes import ORIENTED
from permafrost.probes.detection.stitching import ShownObjects, Stitcher, shown_objects
from permafrost.probes.detection.targets import assign

SIZE = 64


def corners(*boxes) -> np.ndarray:
    """Corners of boxes cx, cy, w, h and degrees."""
    return corners_of(np.array(boxes, float), "le90-degrees")


def pyramid(size: int = SIZE, grids=(4, 8)):
    layers = [Layer(str(g), f"map{g}", 4, g, g) for g in grids]
    return plan_pyramid(layers, (size, size), 8, sized=True)


def shown(outlines: np.ndarray, sample=None, size: int = SIZE) -> ShownObjects:
    count = len(outlines)
    sample = np.zeros(count, int) if sample is None else sample
    boxes = enclosing(outlines).clip(0, size)
    return ShownObjects(sample, boxes, np.zeros(count, int), np.ones(count, bool), outlines)


@pytest.mark.parametrize("sides", [(30, 30), (40, 12), (30, 29.9)])
def test_targets_never_jump_and_lead_back_to_the_box(sides):
    """Turned by half a turn, all numbers of a cell come back, in steps as small as the angles."""
    angles = np.arange(-90, 90.25, 0.5)
    numbers = []
    for angle in angles:
        outline = corners((33, 31, *sides, angle))
        found = assign(shown(outline), pyramid(), ORIENTED)
        places = ORIENTED.decode(found.places, found.keys, pyramid(), np.ones(2))
        iou = oriented_iou(places["outlines"].reshape(-1, 4, 2), outline)
        assert iou.min() > 0.9999
        # the cell that holds the centre, 4 cells right and 3 down, behind the 16 of the coarser level
        numbers.append(found.places[found.keys == 16 + 3 * 8 + 4][0, :8])
    steps = np.abs(np.diff(numbers, axis=0))
    assert steps.max() < 5 * np.deg2rad(0.5)
    np.testing.assert_allclose(numbers[0], numbers[-1], atol=1e-5)
    # also where the sides of a square change their roles
    numbers = [
        found.places[found.keys == 16 + 3 * 8 + 4][0, :8]
        for side in np.arange(29, 31, 0.02)
        for found in [assign(shown(corners((33, 31, side, 30, 20))), pyramid(), ORIENTED)]
    ]
    assert np.abs(np.diff(numbers, axis=0)).max() < 0.01


def test_an_infinite_side_is_a_long_one():
    places = np.ones((1, 9), np.float32)
    places[:, 2] = np.inf
    found = Detected(
        **ORIENTED.decode(places, np.array([0]), pyramid(), np.ones(2)), classes=None, scores=None
    )
    assert np.isfinite(found.boxes).all() and ORIENTED.real(found).all()


def test_the_loss_is_the_hellinger_distance_of_the_gaussians():
    rng = np.random.default_rng(0)
    boxes = rng.uniform([-2, -2, 1, 1, -90], [2, 2, 6, 6, 90], (40, 5))
    numbers = torch.tensor([[*box[:4], *_pair(box)] for box in boxes])
    found = hellinger(numbers[:20], numbers[20:]).numpy()
    for distance, one, other in zip(found, boxes[:20], boxes[20:], strict=True):
        (m, a), (n, b) = _gaussian(one), _gaussian(other)
        mean = (a + b) / 2
        apart = (m - n) @ np.linalg.solve(mean, m - n) / 8
        apart += np.log(np.linalg.det(mean) / np.sqrt(np.linalg.det(a) * np.linalg.det(b))) / 2
        # an unsure direction is rounded by a quarter of a percent
        assert distance == pytest.approx(np.sqrt(1 - np.exp(-apart)), abs=5e-3)
    # sides and direction swapped: the same box
    box = torch.tensor([[0.5, 0, 4, 2, *_pair((0, 0, 4, 2, 30))]])
    swapped = torch.tensor([[0.5, 0, 2, 4, *_pair((0, 0, 2, 4, 120))]])
    assert hellinger(box, swapped).item() < 1e-3
    turned = [[0.5, 0, 4, 2, *_pair((0, 0, 4, 2, 30 + by))] for by in (0, 5, 45, 90)]
    distances = hellinger(torch.tensor(turned), box.repeat(4, 1))
    assert (distances.diff() > 0).all()
    # no gradient is infinite, also not at the truth
    at = box.clone().requires_grad_()
    hellinger(at, box).sum().backward()
    assert torch.isfinite(at.grad).all()


def _pair(box) -> tuple[float, float]:
    return np.cos(2 * np.deg2rad(box[4])), np.sin(2 * np.deg2rad(box[4]))


def _gaussian(box) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = np.cos(np.deg2rad(box[4])), np.sin(np.deg2rad(box[4]))
    turn = np.array([[cos, -sin], [sin, cos]])
    return np.array(box[:2]), turn @ np.diag([box[2] ** 2 / 12, box[3] ** 2 / 12]) @ turn.T


def test_targets_are_those_of_the_rule_cell_by_cell():
    rng = np.random.default_rng(1)
    boxes = np.column_stack(
        [rng.uniform(0, SIZE, (50, 2)), rng.uniform(2, 45, (50, 2)), rng.uniform(-90, 90, 50)]
    )
    outlines, levels = corners(*boxes), pyramid()
    sample = np.sort(rng.integers(0, 4, 50))
    found = assign(shown(outlines, sample), levels, ORIENTED)
    expected = {}
    for key in itertools.product(range(4), range(levels.cells)):
        centre, stride = levels.centres[key[1]], levels.strides[key[1]]
        low, high = levels.reaches[int(np.searchsorted(levels.starts, key[1], side="right")) - 1]
        ranks = []
        for i in np.flatnonzero(sample == key[0]):
            sides = [shapely.LineString(np.roll(outlines[i], -k, axis=0)[:2]) for k in range(4)]
            middle = outlines[i].mean(axis=0)
            inside = shapely.contains_xy(shapely.Polygon(outlines[i]), *centre)
            own = (np.floor(middle / stride) == np.floor(centre / stride)).all()
            # the line of a side, not its end, is what is far
            lines = [shapely.LineString(_longer(side)) for side in sides]
            farthest = max(line.distance(shapely.Point(centre)) for line in lines)
            near = (np.abs(middle - centre) < 1.5 * stride).all()
            if near and (inside or own) and low < farthest <= high:
                ranks.append((area_of(outlines[i : i + 1])[0], i))
        if ranks:
            expected[key] = min(ranks)[1]
    keys = [(int(key) // levels.cells, int(key) % levels.cells) for key in found.keys]
    assert keys == sorted(expected) and len(keys) > 60
    steps = np.sqrt(levels.strides.prod(axis=1))
    for key, places in zip(keys, found.places, strict=True):
        middle = outlines[expected[key]].mean(axis=0)
        away = (middle - levels.centres[key[1]]) / steps[key[1]]
        np.testing.assert_allclose(places[:2], away, atol=1e-5)


def _longer(line: shapely.LineString) -> np.ndarray:
    start, end = np.array(line.coords)
    return np.array([start - 100 * (end - start), end + 100 * (end - start)])


def scattered(rng, width: int, height: int, most: float) -> Objects:
    """Oriented boxes of up to `most` pixels that keep apart, inside of the image."""
    kept: list[np.ndarray] = []
    for _ in range(400):
        (made,) = corners((*rng.uniform(0, [width, height]), *rng.uniform(12, most, 2), 0))
        (made,) = corners((*made.mean(axis=0), *np.ptp(made, axis=0), float(rng.uniform(-90, 90))))
        inside = (made > 0).all() and (made < [width, height]).all()
        shape = shapely.Polygon(made)
        if inside and all(shape.distance(shapely.Polygon(other)) > 3 for other in kept):
            kept.append(made)
    outlines = np.array(kept)
    return Objects.of(
        enclosing(outlines),
        rng.integers(0, 3, len(kept)),
        areas=area_of(outlines),
        polygons=polygons_of(outlines),
    )


@pytest.mark.parametrize(("width", "height", "size"), [(400, 400, 200), (350, 610, 200)])
def test_what_is_taught_decoded_and_stitched_is_the_truth(width, height, size):
    objects = scattered(np.random.default_rng(0), width, height, 0.28 * size)
    working = (224, 224)
    split = windows_of(objects, width, height, {"size": size, "overlap": 0.3}, working)
    split.shape = ORIENTED
    levels = plan_pyramid(
        [Layer(str(s), f"map{s}", 4, 224 // s, 224 // s) for s in (16, 4)], working, 4, sized=True
    )
    targets = assign(shown_objects(split), levels, ORIENTED)
    decoder = Decoder(levels, ORIENTED, 0.5, 300)
    parts = []
    for row in range(len(split)):
        chosen = targets.of(np.array([row]))
        logits = torch.full((1, levels.cells, 3), -9.0)
        logits[0, chosen.cells, chosen.classes] = 4
        places = torch.ones(1, levels.cells, 8)
        places[0, chosen.cells] = torch.from_numpy(chosen.places[:, :8])
        output = Output(logits, places, torch.full((1, levels.cells), 3.0))
        parts += decoder.samples(output, split.scales[[row]])
    assert len(split) == len(cut_windows(width, height, size=size, overlap=0.3)) > 2
    assert targets.without_cell == 0
    (found,) = Stitcher(split, decoder.threshold, 2.0).images(parts)
    assert len(found) == len(objects) > 15
    truth = corners_of_polygons(objects.polygons)
    iou = oriented_iou(found.outlines.reshape(-1, 4, 2), truth)
    assert iou.max(axis=0).min() > 0.98
    assert found.classes[iou.argmax(axis=0)].tolist() == objects.classes.tolist()
    np.testing.assert_allclose(found.boxes, enclosing(found.outlines.reshape(-1, 4, 2)))


def test_an_object_that_no_window_shows_whole_is_joined():
    """Each window says its part of a long box; the rectangle around both parts is the box."""
    whole = (60, 40, 100, 12, 15)
    turn = np.deg2rad(15)
    parts = [(60 + d * np.cos(turn), 40 + d * np.sin(turn), 70, 12, 15) for d in (-15, 15)]
    outlines = corners(*parts)
    found = Detected(
        enclosing(outlines), np.zeros(2, int), np.array([0.9, 0.8]), outlines.reshape(-1, 8)
    )
    joined = ORIENTED.joined(found, [[0, 1]])
    assert oriented_iou(joined.outlines.reshape(-1, 4, 2), corners(whole)) > 0.999
    assert joined.scores.tolist() == [0.9]


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5])
def test_suppression_is_that_of_a_loop_with_shapely(threshold):
    rng = np.random.default_rng(2)
    boxes = rng.uniform([0, 0, 5, 5, -90], [80, 80, 30, 30, 90], (150, 5))
    outlines, labels = corners(*boxes), rng.integers(0, 2, 150)
    scores = rng.random(150).round(2)
    found = Detected(enclosing(outlines), labels, scores, outlines.reshape(-1, 8))
    kept = ORIENTED.suppress(found, threshold)
    shapes, expected = shapely.polygons(outlines), []
    for i in np.argsort(-scores, kind="stable"):
        others = [k for k in expected if labels[k] == labels[i]]
        if all(
            shapes[i].intersection(shapes[k]).area
            <= threshold * shapes[i].union(shapes[k]).area + 1e-12
            for k in others
        ):
            expected.append(i)
    assert 5 < len(expected) < 150
    np.testing.assert_array_equal(
        np.sort(kept.outlines, axis=0), np.sort(found.outlines[expected], axis=0)
    )
    assert (np.diff(kept.scores) <= 0).all()


def test_windows_learn_the_whole_of_what_they_show_enough_of():
    """Half of the area of a diagonal box, not of the box around it."""
    outline = corners((64, 30, 60, 8, 45), (100, 30, 20, 20, 0))
    objects = Objects.of(
        enclosing(outline), [0, 0], areas=area_of(outline), polygons=polygons_of(outline)
    )
    split = windows_of(objects, 128, 64, {"size": 64, "overlap": 0}, (64, 64))
    split.shape = ORIENTED
    split.detection["min_visible"] = 0.45
    seen = shown_objects(split)
    assert seen.sample.tolist() == [0, 1, 1] and seen.learned.tolist() == [True, True, True]
    np.testing.assert_allclose(seen.outlines[1], outline[0] - [64, 0])
    split.detection["min_visible"] = 0.55
    assert shown_objects(split).learned.tolist() == [False, False, True]


def pictures(rng, count: int):
    """Images of 64 x 64 with bright rectangles of any direction, as maps of 4 x 4 pixels, and their objects."""
    grid = (np.indices((SIZE, SIZE))[::-1].reshape(2, -1).T + 0.5).astype(float)
    maps, images = np.zeros((count, 16, 16, 16)), []
    for number in range(count):
        kept: list[np.ndarray] = []
        for _ in range(8):
            angle = float(rng.uniform(-90, 90))
            (made,) = corners((*rng.uniform(14, 50, 2), rng.uniform(18, 26), 9, angle))
            shape = shapely.Polygon(made)
            if all(shape.distance(shapely.Polygon(other)) > 2 for other in kept):
                kept.append(made)
        shapes = shapely.MultiPolygon([shapely.Polygon(each) for each in kept])
        image = shapely.contains_xy(shapes, *grid.T).reshape(SIZE, SIZE).astype(float)
        image += 0.1 * rng.normal(size=image.shape)
        maps[number] = image.reshape(16, 4, 16, 4).transpose(1, 3, 0, 2).reshape(16, 16, 16)
        outlines = np.array(kept)
        images.append(
            Objects.of(
                enclosing(outlines),
                np.zeros(len(kept), int),
                areas=area_of(outlines),
                polygons=polygons_of(outlines),
            )
        )
    return [maps], images


def test_angles_are_learned_from_pixels(tmp_path):
    rng, stores = np.random.default_rng(0), {}
    for split, count in (("train", 120), ("val", 10), ("test", 20)):
        maps, images = pictures(rng, count)
        stores[split] = write_objects(
            tmp_path / f"{split}.zarr",
            maps,
            images,
            sizes=(SIZE, SIZE),
            working=(SIZE, SIZE),
            classes=1,
            geometry="oriented_box",
            split=split,
        )
    table, metadata = run(
        stores, tmp_path, hidden=32, depth=2, epochs=20, learning_rate=0.02, finest_stride=4
    )
    errors, truths = [], 0
    for truth, rings, made in zip(
        images, table["polygon"].to_pylist(), table["detections"].to_pylist(), strict=True
    ):
        scores = np.array([one["score"] for one in made])
        rings = np.array(rings)[scores >= metadata["settings"]["score_threshold"]]
        outlines, own = rings.reshape(-1, 4, 2), corners_of_polygons(truth.polygons)
        truths += len(own)
        iou = oriented_iou(outlines, own)
        for i, j in np.argwhere((iou > 0.4) & (iou == iou.max(axis=0, initial=0))):
            turns = [rotated_of(each[None], "le90-degrees")[0, 4] for each in (outlines[i], own[j])]
            errors.append(abs((turns[0] - turns[1] + 90) % 180 - 90))
    assert len(errors) > 0.6 * truths
    assert np.mean(errors) < 10
