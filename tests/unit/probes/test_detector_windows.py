"""Detected of windows put together: each object once, good boxes whole, poor ones no harm."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from permafrost.data.labels.objects import NO_OBJECTS
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.detection.object_splits import WholeImage
from permafrost.probes.detection.shapes import POINTS, UPRIGHT
from permafrost.probes.detection.stitching import Stitcher

SIZE, WIDTH = 64, 160


def stitched(windows, *, offsets=(0, 48, 96), points=False, overlap=0.25, threshold=0.5):
    """(M, 4) and (M,) boxes and scores of an image whose windows begin at the offsets.

    `windows`: for each one (box in pixels of the image, score[, class]); boxes are cut to the window.
    """
    parts = []
    for offset, found in zip(offsets, windows, strict=True):
        boxes = np.array([each[0] for each in found], float).reshape(-1, 4) - [offset, 0, offset, 0]
        classes = np.array([each[2] if len(each) > 2 else 0 for each in found], int)
        scores = np.array([each[1] for each in found], float)
        parts.append(Detected(boxes.clip(0, SIZE), classes, scores).ranked())
    count = len(offsets)
    split = SimpleNamespace(
        shape=POINTS if points else UPRIGHT,
        detection={"tiles": {"size": SIZE, "overlap": overlap}},
        origins=np.array([[offset, 0] for offset in offsets], float),
        sizes=np.full((count, 2), SIZE),
        images=[WholeImage("a", "a", np.arange(count), (SIZE, WIDTH), NO_OBJECTS)],
    )
    (found,) = Stitcher(split, threshold, 2.0).images(parts)
    return found


@pytest.mark.parametrize("scores", [(0.7, 0.9), (0.9, 0.7)])
def test_an_object_that_one_window_shows_whole_is_found_as_it_is(scores):
    box = [51, 10, 72, 30]
    part, whole = scores
    found = stitched([[(box, part)], [(box, whole)], []])
    assert found.boxes.tolist() == [box] and found.scores.tolist() == [whole]


def test_an_object_wider_than_the_overlap_is_joined_over_all_windows():
    box = [30, 10, 130, 30]
    found = stitched([[(box, 0.7)], [(box, 0.6)], [(box, 0.8)]])
    assert found.boxes.tolist() == [box] and found.scores.tolist() == [0.8]


def test_poor_detections_do_not_pull_a_good_part_apart():
    box, around = [30, 10, 100, 30], [20, 0, 108, 64]
    found = stitched([[(box, 0.8), (around, 0.1)], [(box, 0.8), (around, 0.1)], [(box, 0.8)]])
    assert found.boxes[0].tolist() == box
    assert (found.scores[1:] < 0.2).all()


def test_a_poor_whole_one_does_not_take_a_good_part_away():
    box = [30, 10, 100, 30]
    found = stitched([[(box, 0.8)], [(box, 0.8), ([54, 10, 90, 30], 0.1)], [(box, 0.8)]])
    assert found.boxes[0].tolist() == box


def test_two_objects_side_by_side_stay_two():
    boxes = [[20, 4, 55, 20], [20, 30, 55, 50]]
    rows = [(box, 0.9) for box in boxes]
    found = stitched([rows, rows, []])
    assert sorted(found.boxes.tolist()) == boxes


def test_classes_are_put_together_each_for_itself():
    box = [30, 10, 100, 30]
    found = stitched([[(box, 0.8, 0)], [(box, 0.7, 1)], []])
    assert sorted(found.classes.tolist()) == [0, 1]


def test_windows_of_which_only_some_have_detections_are_no_obstacle():
    """The first and the last of these touch; the one between them holds nothing."""
    found = stitched([[([2, 2, 20, 20], 0.9)], [], [([70, 2, 90, 20], 0.9)]], offsets=(0, 40, 64))
    assert len(found) == 2


def test_where_windows_only_touch_nothing_is_joined():
    box = [30, 10, 100, 30]
    found = stitched([[(box, 0.8)], [(box, 0.7)]], offsets=(0, 64), overlap=0.0)
    assert found.boxes.tolist() == [[30, 10, 64, 30], [64, 10, 100, 30]]


def test_points_near_each_other_are_one():
    def point(x, y):
        return [x, y, x, y]

    found = stitched(
        [[(point(50, 10), 0.8)], [(point(52, 11), 0.9), (point(60, 40), 0.3)], []],
        points=True,
        threshold=5.0,
    )
    assert found.boxes.tolist() == [point(52, 11), point(60, 40)]


@pytest.mark.parametrize("points", [False, True])
def test_suppression_is_of_one_class_only_and_keeps_the_best(points):
    boxes = np.array([[0, 0, 9, 9], [1, 1, 9, 9], [1, 1, 9, 9.0]])
    if points:
        boxes[:, 2:] = boxes[:, :2]
    found = Detected(boxes, np.array([0, 0, 1]), np.array([0.4, 0.6, 0.5]))
    kept = (POINTS if points else UPRIGHT).suppress(found, 3.0 if points else 0.5)
    assert kept.scores.tolist() == [0.6, 0.5] and kept.classes.tolist() == [0, 1]
