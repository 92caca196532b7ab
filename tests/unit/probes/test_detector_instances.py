"""Masks of the detection probe: the dynamic filters, what they learn, and masks across windows."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.stores.objects import LEARNS, run, scatter, telling_maps, write_objects
from permafrost.data.labels.objects import Objects
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.masks import (
    clipped,
    corners_of,
    masks_of_boxes,
    masks_of_objects,
    masks_of_rasters,
    moved,
    texts_of,
)
from permafrost.probes.detection.object_splits import WholeImage
from permafrost.probes.detection.scoring import average_precision
from permafrost.probes.detection.shapes import INSTANCES
from permafrost.probes.detection.shapes.instances import (
    CHANNELS,
    FINE,
    SIZES,
    _in_box,
    _resampled,
    dice_loss,
    drawn_logits,
)
from permafrost.probes.detection.stitching import Stitcher
from permafrost.statistics.predictions.objects import DetectedObjects, ObjectScoring
from torch.nn import functional

SIZE = (64, 64)


def test_each_mask_is_drawn_by_the_filters_of_its_cell():
    torch.manual_seed(0)
    filters, canvas = torch.randn(3, sum(SIZES) + 3), torch.randn(3, CHANNELS, 5, 7)
    filters[:, -1] = torch.tensor([2.0, 8.0, 3.0])
    for logits, own, plane in zip(drawn_logits(filters, canvas), filters, canvas, strict=True):
        first, one, second, two, third, three, (x, y), (reach,) = own.split([*SIZES, 2, 1])
        rows, columns = torch.meshgrid(torch.arange(5) + 0.5, torch.arange(7) + 0.5, indexing="ij")
        out = torch.cat([plane, torch.stack([(x - columns) / reach, (y - rows) / reach])])[None]
        out = functional.conv2d(out, first.reshape(CHANNELS, -1, 1, 1), one).relu()
        out = functional.conv2d(out, second.reshape(CHANNELS, -1, 1, 1), two).relu()
        out = functional.conv2d(out, third.reshape(1, -1, 1, 1), three)
        torch.testing.assert_close(logits, out[0, 0], rtol=1e-5, atol=1e-5)


def test_dice_is_0_for_the_mask_1_for_another_and_as_its_formula_between():
    truth = torch.zeros(3, 4, 4)
    truth[:, :2] = 1
    certain = 40 * (2 * truth - 1)
    logits = torch.stack([certain[0], -certain[1], torch.zeros(4, 4)])
    # a share of 1/2 everywhere: 1 - 2 * 4 / (16 / 4 + 8)
    np.testing.assert_allclose(dice_loss(logits, truth), [0, 1, 1 - 8 / 12], atol=1e-5)


@pytest.mark.parametrize("window", [(64, 64), (48, 100), (20, 17), (300, 256)])
def test_masks_come_to_the_canvas_by_the_share_of_each_place(window):
    rng, size = np.random.default_rng(0), (16, 16)
    for _ in range(20):
        raster = np.zeros(window, bool)
        top, left = rng.integers(0, window[0]), rng.integers(0, window[1])
        raster[top : top + rng.integers(1, 30), left : left + rng.integers(1, 30)] = True
        raster &= rng.random(window) < 0.8
        raster[top, left] = True
        rows, columns = np.nonzero(raster)
        corner = np.array([columns.min(), rows.min()])
        cut = raster[corner[1] : rows.max() + 1, corner[0] : columns.max() + 1]
        drawn, (x, y) = _resampled(cut, corner, window, size)
        out = np.zeros(size, bool)
        out[y : y + drawn.shape[0], x : x + drawn.shape[1]] = drawn
        # FINE x FINE points in every place of the whole canvas, or one for each pixel
        fine = [max(FINE, -(-side // 16)) for side in window]
        at = [
            ((np.arange(points * 16) + 0.5) / points * side / 16).astype(int)
            for points, side in zip(fine, window, strict=True)
        ]
        share = raster[np.ix_(*at)].reshape(16, fine[0], 16, fine[1]).mean(axis=(1, 3))
        np.testing.assert_array_equal(out, (share >= min(0.5, share.max())) & (share > 0))
        assert out.any()


@pytest.mark.parametrize("size", [(64, 64), (50, 90), (16, 8)])
def test_a_mask_is_interpolated_to_pixels_and_cut_at_its_box(size):
    rng = np.random.default_rng(1)
    logit = rng.normal(size=(16, 16)).astype(np.float32)
    whole = functional.interpolate(
        torch.from_numpy(logit)[None, None], size, mode="bilinear", align_corners=False
    )[0, 0].numpy()
    height, width = size
    for box in ([0, 0, width, height], [1.3, 2.7, width - 1.2, height - 3.5], [2.2, 3.1, 3.9, 4.0]):
        raster, (left, top) = _in_box(logit, np.array(box), size)
        expected = whole[top : int(np.ceil(box[3])), left : int(np.ceil(box[2]))]
        assert (left, top) == (int(box[0]), int(box[1]))
        # rounding may decide where the logit is 0
        sure = np.abs(expected) > 1e-5
        assert raster.shape == expected.shape and sure.mean() > 0.9
        if (expected > 0).any():
            np.testing.assert_array_equal(raster[sure], expected[sure] > 0)
    raster, _ = _in_box(-np.ones((16, 16), np.float32), np.array([1, 1, 4, 6]), size)
    assert raster.shape == (5, 3) and raster.all()


def ellipses(objects: Objects, size=SIZE) -> Objects:
    """The same boxes with an ellipse in each."""
    rows, columns = np.indices(size) + 0.5
    dense = [
        ((columns - (x0 + x1) / 2) / (x1 - x0)) ** 2 + ((rows - (y0 + y1) / 2) / (y1 - y0)) ** 2
        < 0.25
        for x0, y0, x1, y1 in objects.boxes
    ]
    count = len(dense)
    masks = masks_of_rasters(dense, np.zeros((count, 2), int), *(np.full(count, s) for s in size))
    return Objects.of(
        corners_of(masks), objects.classes, areas=masks.areas(), masks=texts_of(masks)
    )


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder, stores = tmp_path_factory.mktemp("instances"), {}
    for seed, (split, count) in enumerate({"train": 40, "val": 10, "test": 12}.items()):
        rng = np.random.default_rng(seed)
        images = [ellipses(scatter(rng, SIZE)) for _ in range(count)]
        maps = telling_maps(rng, images, SIZE, (4, 8))
        stores[split] = write_objects(
            folder / f"{split}.zarr",
            maps,
            images,
            sizes=SIZE,
            working=SIZE,
            task="instance_segmentation",
            split=split,
        )
    return stores


def test_masks_are_learned_written_and_scored_alike_from_table_and_folder(toy, tmp_path):
    folder = tmp_path / "coco"
    table, metadata = run(toy, tmp_path, coco=folder, **LEARNS)
    predicted = DetectedObjects.from_table(table, {**metadata, "task": "instance_segmentation"})
    values = predicted.evaluate()
    filled = [
        Detected(
            one.boxes,
            one.classes,
            one.scores,
            masks=masks_of_boxes(one.boxes, *(np.full(len(one), side) for side in SIZE)),
        )
        for one in predicted.detections
    ]
    names, sizes = predicted.sample_ids.tolist(), predicted.sizes
    boxed = DetectedObjects.from_arrays(names, predicted.objects, filled, sizes, predicted.scoring)
    # an ellipse covers 79 % of its box
    assert values["AP"] > boxed.evaluate()["AP"] + 0.1 and values["AP50"] > 0.5
    assert values["mask_f1"] > 0.5
    truth, found = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("truth", "detections")
    )
    assert all(one["segmentation"]["size"] == list(SIZE) for one in (*truth["annotations"], *found))
    files = evaluate(truth, found, iou_type="segm", detection_area="mask").stats
    for place, name in ((0, "AP"), (1, "AP50"), (3, "APs")):
        np.testing.assert_allclose(files[place], values[name], atol=1e-12)
    assert evaluate(truth, found, iou_type="bbox").stats[0] == pytest.approx(values["box_AP"])


def test_validation_and_the_table_score_polygons_boxes_and_masks_alike():
    boxes = np.array([[2, 3, 12, 9], [20, 20, 41, 33], [30, 5, 44, 15]], float)
    text = texts_of(masks_of_boxes(boxes[2:], [64], [64]))[0]
    polygons = [[[2, 3, 12, 3, 12, 9, 2, 9]], None, None]
    truth = Objects.of(boxes, [0, 0, 0], polygons=polygons, masks=[None, None, text])
    found = boxes + [0, 0, 3, 2]
    masks = masks_of_boxes(found, np.full(3, 64), np.full(3, 64))
    detected = [Detected(found, np.zeros(3, int), np.array([0.9, 0.8, 0.7]), masks=masks)]
    image = WholeImage("a", "a", np.arange(1), SIZE, truth)
    rules = {"max_detections": 100}
    split = SimpleNamespace(
        images=[image], classes=["a"], shape=INSTANCES, detection=rules, object_count=3
    )
    scoring = ObjectScoring("instance_segmentation", ["a"], 0.5, 100, None)
    table = DetectedObjects.from_arrays(["a"], [truth], detected, np.array([SIZE]), scoring)
    assert 0 < table.evaluate()["AP"] == average_precision(split, detected) < 1


@pytest.mark.parametrize(
    "boxes", [[[5, 5, 40, 30], [30, 35, 120, 60], [100, 4, 148, 33]], np.empty((0, 4))]
)
def test_masks_across_windows_are_joined_to_the_truth(boxes):
    """Each window detects what it shows of the truth; what comes out is the truth, each object once."""
    size, tiles = (70, 150), {"size": 64, "overlap": 0.4}
    classes = [0, 1, 0][: len(boxes)]
    truth = ellipses(Objects.of(boxes, classes), size)
    masks = masks_of_objects([truth], [size])
    corners = [(x, y) for y in (0, 6) for x in (0, 38, 76, 86)]

    class Split:
        origins = np.array(corners, float)
        sizes = np.full((len(corners), 2), 64)
        detection = {"tiles": tiles}
        shape = INSTANCES
        images = [WholeImage("a", "a", np.arange(len(corners)), size, truth)]

    windows = []
    for x, y in corners:
        shown = moved(
            clipped(masks, np.tile([x, y, x + 64, y + 64], (len(boxes), 1))), [-x, -y], 64, 64
        )
        some = np.flatnonzero(shown.areas() > 30)
        part = shown.take(some)
        scores = np.array([0.9, 0.8, 0.7])[some]
        windows.append(Detected(corners_of(part), truth.classes[some], scores, masks=part))
    (found,) = Stitcher(Split(), 0.5, 1.0).images(windows)
    assert found.classes.tolist() == classes
    assert found.scores.tolist() == [0.9, 0.8, 0.7][: len(boxes)]
    assert texts_of(found.masks) == list(truth.masks)
    np.testing.assert_array_equal(found.boxes, truth.boxes)
