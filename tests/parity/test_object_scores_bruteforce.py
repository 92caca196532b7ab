"""Scores of detections, on resamples too, against evaluations of images that really are repeated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shapely
from helpers.predictions.objects import all_crowd, coco, predictions, repeated, without
from permafrost.data.deepforest.annotations import Annotations
from permafrost.evaluators import crowns, detection
from permafrost.metrics.tasks import class_metrics, overall_metrics
from permafrost.statistics.resampling.resamples import draw_resamples

BOXES, POINTS, ORIENTED = "detection", "point_detection", "oriented_detection"
CASES = {
    "plain": lambda task: predictions(task),
    "one class": lambda task: predictions(task, classes=1),
    "low cap": lambda task: predictions(task, max_detections=4, false_alarms=8),
    "no detections": lambda task: without(predictions(task), detections=True),
    "no truth": lambda task: without(predictions(task), truth=True),
    "all crowd": lambda task: all_crowd(predictions(task)),
    "half empty": lambda task: without(
        without(predictions(task), truth=True, images=range(6)), detections=True, images=range(3, 9)
    ),
}
# the first is what the benchmark of COCO calls them
COCO_NAMES = {"AR@1": "AR1", "AR@10": "AR10"}


@pytest.mark.parametrize("task", [BOXES, POINTS, ORIENTED])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("grouped", [False, True])
def test_replicates_equal_an_evaluation_of_repeated_images(task, case, grouped):
    found = CASES[case](task)
    units = np.arange(12) // 3 if grouped else np.arange(12)
    drawn = draw_resamples(int(units.max()) + 1, 7, 3)
    replicates = found.family(units).replicates(drawn)
    assert list(replicates) == [*overall_metrics(task, 3), *class_metrics(task)]
    for place, times in enumerate(drawn.counts.T.astype(int)):
        expected = repeated(found, times[units]).evaluate()
        assert list(expected) == list(replicates)
        for name, value in expected.items():
            here = replicates[name][..., place]
            np.testing.assert_allclose(here, value, rtol=1e-12, atol=0, err_msg=name)


@pytest.mark.parametrize(("task", "kernel"), [(BOXES, "bbox"), (ORIENTED, "oriented")])
@pytest.mark.parametrize("case", [name for name in CASES if name != "low cap"])
def test_boxes_equal_the_evaluator_of_coco_json_on_repeated_images(case, task, kernel):
    found = CASES[case](task)
    drawn = draw_resamples(12, 5, 1)
    replicates = found.family(np.arange(12)).replicates(drawn)
    values = found.evaluate()
    for place, times in enumerate([np.ones(12, int), *drawn.counts.T.astype(int)]):
        truth, made = coco(repeated(found, times))
        expected = detection.evaluate(truth, made, iou_type=kernel, max_dets=(1, 10, 100))
        stats = dict(zip(expected.names, expected.stats, strict=True))
        stats["AR"] = stats.pop("AR@100")
        for name, value in stats.items():
            name = COCO_NAMES.get(name, name)
            wanted = np.nan if value == -1 else value
            if place == 0:
                # the very same numbers, not only near ones
                np.testing.assert_equal(values[name], wanted, err_msg=name)
            else:
                here = replicates[name][place - 1]
                np.testing.assert_allclose(here, wanted, rtol=1e-12, err_msg=name)
        of_class = expected.average_precision(threshold=0.5)
        of_class = np.where(of_class == -1, np.nan, of_class)
        here = values["class_AP50"] if place == 0 else replicates["class_AP50"][:, place - 1]
        np.testing.assert_allclose(here, of_class, rtol=1e-12)


def test_a_cap_below_ten_is_that_of_ar10_too():
    values = CASES["low cap"](BOXES).evaluate()
    truth, made = coco(CASES["low cap"](BOXES))
    expected = detection.evaluate(truth, made, iou_type="bbox", max_dets=(1, 4))
    assert values["AR10"] == values["AR"] == expected.stats[7] > expected.stats[6] == values["AR1"]


@pytest.mark.parametrize("task", [BOXES, POINTS, ORIENTED])
@pytest.mark.parametrize("ties", [False, True])
def test_hits_without_crowds_are_those_of_the_crown_evaluation(task, ties):
    found = predictions(task, crowds=0, ties=ties, images=30)
    points = task == POINTS
    expected = crowns.evaluate(
        annotations(found, found.objects),
        annotations(found, found.detections),
        matching="within" if points else "area",
        min_score=found.scoring.score_threshold,
        average="dataset",
    ).values
    values, prefix = found.evaluate(), "point" if points else "box"
    for name in ("recall", "precision", "f1"):
        assert values[f"{prefix}_{name}"] == pytest.approx(expected[name, None], rel=1e-12)
        assert 0 < values[f"{prefix}_{name}"] < 1


def annotations(found, images) -> Annotations:
    """Objects or detections in the form of the crown evaluation; oriented boxes as polygons, compared by shapely."""
    count = sum(map(len, images))
    kinds = {
        BOXES: ("box", lambda one: one.boxes),
        POINTS: ("point", lambda one: one.centres),
        ORIENTED: ("polygon", lambda one: shapely.polygons(corners(one))),
    }
    kind, shape = kinds[found.task]
    scores = [getattr(one, "scores", np.full(len(one), np.nan)) for one in images]
    return Annotations(
        kind=kind,
        images=tuple(found.sample_ids.tolist()),
        image=np.repeat(np.arange(len(images)), [len(one) for one in images]),
        label=np.array(["x"] * count, object),
        score=np.concatenate(scores),
        shape=np.concatenate([shape(one) for one in images]),
        row=np.arange(1, count + 1),
    )


def corners(one) -> np.ndarray:
    rings = one.polygons if hasattr(one, "polygons") else one.outlines
    return np.reshape(np.array(rings, float), (-1, 4, 2))


@pytest.mark.parametrize("seed", range(4))
def test_ap50_of_oriented_boxes_is_that_of_matching_by_shapely(seed):
    found = predictions(ORIENTED, crowds=0, seed=seed, images=25)
    values = found.evaluate()
    expected = [average_precision(found, label) for label in range(3)]
    np.testing.assert_allclose(values["class_AP50"], expected, rtol=1e-9)
    assert 0.1 < values["AP50"] < 0.95 and values["AP50"] == pytest.approx(np.mean(expected))
    # the upright boxes around them have other scores
    upright = replace(found, scoring=replace(found.scoring, task=BOXES)).evaluate()
    assert upright["AP50"] != values["AP50"]


def average_precision(found, label: int, threshold: float = 0.5) -> float:
    """COCO's interpolated average precision of one class, image by image and detection by detection."""
    marks, total = [], 0
    for one, made in zip(found.objects, found.detections, strict=True):
        truth = shapely.polygons(corners(one)[one.classes == label])
        total += len(truth)
        free = set(range(len(truth)))
        mine = made.take(made.classes == label).ranked()
        for shape, score in zip(shapely.polygons(corners(mine)), mine.scores, strict=True):
            iou = {i: shape.intersection(truth[i]).area / shape.union(truth[i]).area for i in free}
            best = max(iou, key=iou.get, default=None)
            hit = best is not None and iou[best] >= threshold
            free -= {best} if hit else set()
            marks.append((-score, hit))
    hits = np.cumsum([hit for _, hit in sorted(marks, key=lambda mark: mark[0])])
    precision = hits / np.arange(1, len(hits) + 1)
    recall = hits / total
    best = [precision[recall >= at - 1e-12].max(initial=0) for at in np.linspace(0, 1, 101)]
    return float(np.mean(best))


def test_the_mean_error_of_counts_is_that_of_the_images():
    found = predictions(POINTS, crowds=0)
    wrong = [
        abs(len(one) - np.count_nonzero(made.scores >= 0.4))
        for one, made in zip(found.objects, found.detections, strict=True)
    ]
    assert found.evaluate()["count_mae"] == np.mean(wrong) > 0


@pytest.mark.parametrize("task", [BOXES, POINTS])
def test_what_cannot_be_found_is_undefined_and_what_is_not_found_is_zero(task):
    prefix = "point" if task == POINTS else "box"
    primary = "point_ap" if task == POINTS else "AP"
    nothing = CASES["no detections"](task).evaluate()
    assert nothing[primary] == nothing[f"{prefix}_recall"] == nothing[f"{prefix}_f1"] == 0
    assert np.isnan(nothing[f"{prefix}_precision"])
    for case in ("no truth", "all crowd"):
        empty = CASES[case](task).evaluate()
        assert np.isnan(empty[primary]) and np.isnan(empty[f"{prefix}_recall"])
        assert empty[f"{prefix}_precision"] == empty[f"{prefix}_f1"] == 0


def test_detections_on_a_crowd_count_neither_way():
    found = predictions(BOXES, crowds=0)
    plain = found.evaluate()
    # a crowd around each image, of a class of its own: every detection lies on it
    everything = np.array([[-50.0, -50.0, 400.0, 400.0]])
    crowded = replace(
        found,
        objects=[
            replace(
                one,
                numbers=np.append(one.numbers, 99),
                classes=np.append(one.classes, 0),
                boxes=np.concatenate([one.boxes, everything]),
                areas=np.append(one.areas, 450.0**2),
                crowd=np.append(one.crowd, True),
                polygons=(*one.polygons, None),
            )
            for one in found.objects
        ],
    ).evaluate()
    assert crowded["box_precision"] == 1 > plain["box_precision"]
    # what cannot be right takes no truth away from what can: as if it were not there
    assert crowded["box_recall"] == only_near_a_truth(found).evaluate()["box_recall"]
    assert crowded["AR"] == plain["AR"] and crowded["AP"] > plain["AP"]


def only_near_a_truth(found):
    """Without the detections that have an IoU above 0.4 with no object."""
    kept = []
    for one, made in zip(found.objects, found.detections, strict=True):
        low = np.maximum(made.boxes[:, None, :2], one.boxes[None, :, :2])
        high = np.minimum(made.boxes[:, None, 2:], one.boxes[None, :, 2:])
        common = np.maximum(high - low, 0).prod(axis=2)
        sides = (made.boxes[:, 2:] - made.boxes[:, :2]).prod(axis=1)
        near = common / (sides[:, None] + one.areas - common) > 0.4
        keep = near.any(axis=1)
        kept.append(type(made)(made.boxes[keep], made.classes[keep], made.scores[keep]))
    return replace(found, detections=kept)
