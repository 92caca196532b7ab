"""Clip objects to the windows of images, and merge the detections of windows; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.files.windows import clip_boxes
from permafrost.data.labels.geometries import BOX, POINT
from permafrost.metrics.objects.detected import Detected, join
from permafrost.metrics.objects.overlaps import Pairs
from permafrost.metrics.objects.overlaps import suppress as suppress_crowns
from permafrost.metrics.objects.stitching import agreements
from permafrost.probes.detection.object_splits import ObjectSplit, WholeImage


@dataclass(frozen=True)
class ShownObjects:
    """The visible objects of all samples of a split, flat, in working pixels.

    Attributes
    ----------
    sample : (M,) row of the split, ascending.
    boxes : (M, 4) corners, clipped to the window; both equal for points.
    classes : (M,) class ids.
    learned : (M,) bool; False for crowds and for objects that are hardly visible: the loss ignores
        their cells.
    """

    sample: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray
    learned: np.ndarray


def shown_objects(split: ObjectSplit) -> ShownObjects:
    """Clip the objects of every window to it.

    A window learns objects of which more than ``min_visible`` of the box area is inside.
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


def suppress(found: Detected, threshold: float, *, points: bool) -> Detected:
    """Non-maximum suppression within classes; the rest by descending score.

    Parameters
    ----------
    threshold : a box is removed if its IoU with a better one is above it, a point if it is nearer (pixels).
    """
    if len(found) < 2:
        return found
    if not points:
        return found.take(_boxes(found, threshold))
    kept = []
    for label in np.unique(found.classes):
        own = np.flatnonzero(found.classes == label)
        rest = suppress_crowns(POINT, found.centres[own], found.scores[own], threshold=threshold)
        kept.append(own[rest])
    rows = np.sort(np.concatenate(kept))
    return found.take(rows).ranked()


def _boxes(found: Detected, threshold: float) -> np.ndarray:
    import torch

    # shift each class, so that boxes of different classes do not overlap
    apart = found.boxes.max() - min(found.boxes.min(), 0.0) + 1
    boxes = found.boxes + (found.classes * apart)[:, None]
    kept = _nms()(torch.from_numpy(boxes), torch.from_numpy(found.scores), threshold)
    return kept.numpy()


@cache
def _nms():
    """The compiled function of ``torchvision.ops.nms``.

    Importing torchvision also imports torch's compiler, which takes five seconds per job; loading only its
    compiled library takes milliseconds.
    """
    import torch

    package = find_spec("torchvision")
    folder = Path(package.origin).parent if package is not None and package.origin else Path()
    for library in sorted(folder.glob("_C*.so")) if package is not None else ():
        torch.ops.load_library(library)
    if hasattr(torch.ops.torchvision, "nms"):
        return torch.ops.torchvision.nms
    from torchvision.ops import nms

    return nms


# scores are similar if the lower is at least this share of the higher
ALIKE = 0.5


@dataclass(frozen=True)
class Stitcher:
    """Merges the detections of windows, so that an object in two of them is detected once.

    Parameters
    ----------
    split : the split of the windows.
    threshold : IoU above which two detections of a class are one object; for points a distance in pixels below which.
    touch : distance in pixels within which a detection touches the edge of its window, and counts as a part.
    """

    split: ObjectSplit
    threshold: float
    touch: float

    @property
    def overlapping(self) -> bool:
        """Whether windows overlap; if they only touch, two halves look the same as two objects."""
        tiles = self.split.detection["tiles"]
        return tiles is None or int(tiles["size"] * tiles["overlap"]) > 0

    def images(self, windows: list[Detected]) -> list[Detected]:
        """Merge the detections of all samples to those of every whole image, by descending score."""
        return [self._image(image, windows) for image in self.split.images]

    def _image(self, image: WholeImage, windows: list[Detected]) -> Detected:
        origins = np.tile(self.split.origins[image.rows], 2)
        placed = [
            windows[row].moved(origin) for row, origin in zip(image.rows, origins, strict=True)
        ]
        if len(placed) == 1:
            return placed[0]
        found = join(placed)
        if not self.split.points and self.overlapping:
            window = np.repeat(image.rows, [len(each) for each in placed])
            found = self._whole(found, window, image.size)
        return suppress(found, self.threshold, points=self.split.points).ranked()

    def _whole(self, found: Detected, window: np.ndarray, size) -> Detected:
        """Remove parts of objects that another window contains whole, and join parts of one object."""
        kept = []
        for label in np.unique(found.classes):
            own = np.flatnonzero(found.classes == label)
            boxes = Annotations(
                BOX,
                ("image",),
                np.zeros(len(own), np.intp),
                np.full(len(own), "", object),
                found.scores[own],
                found.boxes[own],
                own,
            )
            bounds = np.hstack([self.split.origins, self.split.sizes[:, ::-1]])[window[own]]
            cut, same = agreements(
                boxes, bounds, size[::-1], threshold=self.threshold, touch=self.touch
            )
            kept.append(join_parts(found.take(own), window[own], cut, same))
        return join(kept)


def join_parts(found: Detected, window: np.ndarray, cut: np.ndarray, same: Pairs) -> Detected:
    """Join the parts among the detections of one class on one image, in order of descending score.

    A whole detection removes the parts that agree with it. A part is removed if a whole detection agrees
    with it and has a similar score. Otherwise it is joined with one part of each other window: the part with the
    best agreement and a similar score. All other agreeing parts are removed.
    Scores are similar if one is at least half of the other, so that detections of low confidence cannot
    enlarge a good box.

    Parameters
    ----------
    window : (M,) window of each detection.
    cut, same : see `permafrost.metrics.objects.stitching.agreements`.
    """
    boxes = found.boxes.copy()
    gone, used = np.zeros(len(found), bool), np.zeros(len(found), bool)
    bounds = np.searchsorted(same.first, np.arange(len(found) + 1))

    def agreeing(i: int) -> np.ndarray:
        """The remaining detections that agree with the i-th, the best first."""
        own = slice(bounds[i], bounds[i + 1])
        others = same.second[own][np.argsort(-same.iou[own], kind="stable")]
        return others[~gone[others] & ~used[others]]

    for i in np.argsort(-found.scores, kind="stable").tolist():
        if gone[i]:
            continue
        used[i] = True
        others = agreeing(i)
        if not cut[i]:
            gone[others[cut[others]]] = True
            continue
        alike = found.scores >= ALIKE * found.scores[i]
        if (alike[others] & ~cut[others]).any():
            gone[i] = True
            continue
        members, seen = [i], {int(window[i])}
        # the list grows during the loop: an object may extend over more than two windows
        for member in members:
            for other in agreeing(member).tolist():
                if not cut[other]:
                    continue
                gone[other] = True
                if alike[other] and int(window[other]) not in seen:
                    members.append(other)
                    seen.add(int(window[other]))
        boxes[i, :2] = found.boxes[members, :2].min(axis=0)
        boxes[i, 2:] = found.boxes[members, 2:].max(axis=0)
    return Detected(boxes, found.classes, found.scores).take(~gone)
