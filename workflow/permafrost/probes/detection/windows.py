"""What the windows of images show of their objects, in working pixels; no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.data.windows import clip_boxes
from permafrost.probes.detection.object_splits import ObjectSplit


@dataclass(frozen=True)
class ShownObjects:
    """What the samples of a split show, flat over all of them, in working pixels.

    Attributes
    ----------
    sample : (M,) row of the split, ascending.
    boxes : (M, 4) corners, cut to the window; of points both the same.
    classes : (M,) ids.
    learned : (M,) bool; False for crowds and for what is shown too little of, which neither count nor
        punish.
    """

    sample: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray
    learned: np.ndarray


def shown_objects(split: ObjectSplit) -> ShownObjects:
    """Cut the objects of every window to it.

    A window learns what it shows more than ``min_visible`` of, by the area of the box.
    """
    objects = split.objects
    sample = np.repeat(np.arange(len(split)), [len(each) for each in objects])
    boxes = np.concatenate([np.empty((0, 4)), *(each.boxes for each in objects)])
    crowd = np.concatenate([np.empty(0, bool), *(each.crowd for each in objects)])
    classes = np.concatenate([np.empty(0, np.int64), *(each.classes for each in objects)])
    moved = boxes - np.tile(split.origins[sample], 2)
    bounds = np.hstack([np.zeros((len(sample), 2)), split.sizes[sample][:, ::-1]])
    cut = clip_boxes(moved, bounds)
    if split.points:
        learned = ~crowd & (cut == moved).all(axis=1)
    else:
        whole, seen = (_areas(each) for each in (moved, cut))
        learned = ~crowd & (seen > split.detection["min_visible"] * whole)
    scaled = cut * np.tile(split.scales[sample], 2)
    return ShownObjects(sample, scaled, classes.astype(np.int64), learned)


def _areas(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
