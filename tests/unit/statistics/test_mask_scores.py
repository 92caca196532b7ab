"""Scores of masks against pycocotools and the evaluator of files, on random images."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import Objects
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.objects.detected import Detected, masks_column, with_masks
from permafrost.metrics.objects.masks import corners_of, masks_of_rasters, texts_of
from permafrost.metrics.objects.shapes import object_shape
from permafrost.metrics.tasks import class_metrics, overall_metrics
from permafrost.probes.detection.coco_json import detections_json, truth_json
from permafrost.probes.detection.object_splits import WholeImage
from permafrost.probes.detection.shapes import INSTANCES
from permafrost.statistics.predictions.objects import DetectedObjects, ObjectScoring
from permafrost.statistics.resampling.resamples import Resamples
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

TASK, CLASSES, SIZE = "instance_segmentation", ["a", "b", "c"], (90, 120)
NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR", "ARs", "ARm", "ARl")


def blobs(rng, count):
    """Dense ellipses with holes, of every size, some cut at the edge."""
    rows, columns = np.indices(SIZE)
    out = np.zeros((count, *SIZE), bool)
    for one in out:
        y, x = rng.uniform(0, SIZE[0]), rng.uniform(0, SIZE[1])
        a, b = rng.choice([4, 15, 60]) * rng.uniform(0.6, 1.4, 2)
        far = ((rows - y) / a) ** 2 + ((columns - x) / b) ** 2
        one[:] = (far < 1) & ((far > 0.1) | (rng.random() < 0.5))
        one[int(y) % SIZE[0], int(x) % SIZE[1]] = True
    return out


def runs(dense):
    count = len(dense)
    return masks_of_rasters(
        list(dense), np.zeros((count, 2), int), *(np.full(count, s) for s in SIZE)
    )


def case(seed, images=8, *, ties=False):
    rng = np.random.default_rng(seed)
    objects, found = [], []
    for _ in range(images):
        truth = blobs(rng, rng.integers(0, 6))
        near = [np.roll(one, rng.integers(-2, 3, 2), (0, 1)) for one in truth if rng.random() < 0.8]
        dense = np.concatenate(
            [np.reshape(near, (-1, *SIZE)).astype(bool), blobs(rng, rng.integers(0, 3))]
        )
        masks = runs(truth)
        objects.append(
            Objects.of(
                corners_of(masks),
                rng.integers(0, 2, len(truth)),
                areas=masks.areas(),
                crowd=rng.random(len(truth)) < 0.15,
                masks=texts_of(masks),
            )
        )
        masks = runs(dense)
        # the last class has no object
        classes = np.where(rng.random(len(dense)) < 0.1, 2, rng.integers(0, 2, len(dense)))
        scores = rng.integers(1, 6, len(dense)) / 5 if ties else rng.random(len(dense))
        found.append(Detected(corners_of(masks), classes, scores, masks=masks).ranked())
    scoring = ObjectScoring(TASK, CLASSES, 0.5)
    names = [f"image {place}" for place in range(images)]
    predicted = DetectedObjects.from_arrays(names, objects, found, [SIZE] * images, scoring)
    wholes = [
        WholeImage(name, name, np.array([0]), SIZE, each)
        for name, each in zip(names, objects, strict=True)
    ]
    return predicted, truth_json(wholes, CLASSES, INSTANCES), detections_json(found, INSTANCES)


def official(truth, found, kind):
    """pycocotools' twelve numbers. It takes areas from boxes where there are any, so masks go alone."""
    keys = {"segm": "bbox", "bbox": "segmentation"}
    given = [
        {k: v for k, v in one.items() if k != keys[kind]} for one in json.loads(json.dumps(found))
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = json.loads(json.dumps(truth))
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(given), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return np.where(evaluation.stats == -1, np.nan, evaluation.stats)


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_pycocotools_and_of_the_evaluator_of_files(seed):
    predicted, truth, found = case(seed)
    values = predicted.evaluate()
    assert list(values) == [*overall_metrics(TASK, 3), *class_metrics(TASK)]
    masks, boxes = official(truth, found, "segm"), official(truth, found, "bbox")
    np.testing.assert_allclose([values[name] for name in NAMES], masks, atol=1e-12)
    of_boxes = [values[name] for name in ("box_AP", "box_AP50", "box_AP75")]
    np.testing.assert_allclose(of_boxes, boxes[:3], atol=1e-12)
    assert not np.isclose(masks[0], boxes[0])
    assert np.isnan(values["class_AP"][2]) and values["class_AP"][:2].mean() == pytest.approx(
        values["AP"]
    )


@pytest.mark.parametrize("seed", range(3))
def test_files_give_the_same_scores_also_with_ties(seed):
    predicted, truth, found = case(seed, ties=True)
    values = predicted.evaluate()
    for kind, names in (("segm", NAMES), ("bbox", ("box_AP", "box_AP50", "box_AP75"))):
        files = evaluate(truth, found, iou_type=kind, detection_area="mask").stats[: len(names)]
        expected = np.where(files == -1, np.nan, files)
        np.testing.assert_allclose([values[name] for name in names], expected, atol=1e-12)


def test_hits_are_counted_by_the_iou_of_masks():
    """Two halves of one box: by boxes both detections would hit."""
    upper, lower = np.zeros((2, *SIZE), bool)
    upper[10:30, 10:50], lower[30:50, 10:50] = True, True
    upper[10:50, 10], lower[10:50, 49] = True, True
    truth, made = runs(np.array([upper])), runs(np.array([lower, upper]))
    objects = Objects.of(corners_of(truth), [0], masks=texts_of(truth))
    found = Detected(corners_of(made), np.zeros(2, int), np.array([0.9, 0.8]), masks=made)
    for kept, hits in (([0], 0), ([0, 1], 1)):
        predicted = DetectedObjects.from_arrays(
            ["a"], [objects], [found.take(kept)], [SIZE], ObjectScoring(TASK, ["a"], 0.5)
        )
        values = predicted.evaluate()
        assert predicted.scores.counts[:3, 0].tolist() == [hits, 1, len(kept)]
        assert values["mask_recall"] == hits and values["mask_precision"] == hits / len(kept)
        assert values["box_AP50"] == pytest.approx(1) and values["AP50"] == pytest.approx(hits / 2)


def test_resamples_are_images_drawn_again():
    predicted, _, _ = case(7, images=6)
    drawn = np.array([0, 0, 3, 5, 5, 1])
    counts = np.bincount(drawn, minlength=6)[:, None]
    again = DetectedObjects.from_arrays(
        [f"copy {place}" for place in range(6)],
        [predicted.objects[i] for i in drawn],
        [predicted.detections[i] for i in drawn],
        [SIZE] * 6,
        predicted.scoring,
    ).evaluate()
    resamples = Resamples.of(counts.astype(np.uint16))
    replicates = predicted.family(np.arange(6)).replicates(resamples)
    for name, value in replicates.items():
        np.testing.assert_allclose(np.asarray(value)[..., 0], again[name], atol=1e-12, err_msg=name)
    assert {"AP", "box_AP50", "class_AP"} <= set(replicates)


def test_a_damaged_column_of_masks_is_refused():
    predicted, _, _ = case(1, images=3)
    column = masks_column(predicted.detections)
    bare = [Detected(one.boxes, one.classes, one.scores) for one in predicted.detections]
    again = with_masks(bare, column, predicted.sizes)
    assert [texts_of(each.masks) for each in again] == column.to_pylist()
    assert object_shape(TASK).areas(again).sum() == sum(each.masks.areas().sum() for each in again)
    for wrong in (
        column[:2],
        pa.array([[None] * len(each) for each in bare], pa.list_(pa.string())),
    ):
        with pytest.raises(PermafrostError, match="one mask per detection"):
            with_masks(bare, wrong, predicted.sizes)
    with pytest.raises(PermafrostError, match="damaged"):
        with_masks(bare, column, predicted.sizes + 1)
