"""Clip objects to the windows of images, and merge the detections of windows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.files.windows import clip_boxes
from permafrost.metrics.objects.detected import Detected, join
from permafrost.metrics.objects.overlaps import Pairs
from permafrost.metrics.objects.stitching import agreements
from permafrost.probes.detection.object_splits import ObjectSplit, WholeImage
from permafrost.probes.detection.shapes.shape import ShownObjects


def shown_objects(split: ObjectSplit) -> ShownObjects:
    """Clip the objects of every window to it.

    A window learns objects of which more than ``min_visible`` of the area is inside.
    """
    objects = split.objects
    sample = np.repeat(np.arange(len(split)), [len(each) for each in objects])
    boxes = np.concatenate([np.empty((0, 4)), *(each.boxes for each in objects)])
    crowd = np.concatenate([np.empty(0, bool), *(each.crowd for each in objects)])
    classes = np.concatenate([np.empty(0, np.int64), *(each.classes for each in objects)])
    moved = boxes - np.tile(split.origins[sample], 2)
    outlines = split.shape.outlines(objects)
    if outlines is not None:
        outlines = outlines - split.origins[sample][:, None]
    bounds = np.hstack([np.zeros((len(sample), 2)), split.sizes[sample][:, ::-1]])
    cut = clip_boxes(moved, bounds)
    whole = ShownObjects(sample, moved, classes.astype(np.int64), ~crowd, outlines)
    learned = ~crowd & split.shape.learnable(whole, cut, bounds, split.detection["min_visible"])
    scale = split.scales[sample]
    return replace(
        whole,
        boxes=cut * np.tile(scale, 2),
        learned=learned,
        outlines=None if outlines is None else outlines * scale[:, None],
    )


# scores are similar if the lower is at least this share of the higher
ALIKE = 0.5


@dataclass(frozen=True)
class Stitcher:
    """Merges the detections of windows, so that an object in two of them is detected once.

    Parameters
    ----------
    split : the split of the windows.
    threshold : two detections of a class with a larger IoU are one object; two points that are nearer (pixels).
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
        origins = self.split.origins[image.rows]
        placed = [
            windows[row].moved(origin, image.size)
            for row, origin in zip(image.rows, origins, strict=True)
        ]
        if len(placed) == 1:
            return placed[0]
        found = join(placed)
        if len(found) and self.split.shape.cut and self.overlapping:
            window = np.repeat(image.rows, [len(each) for each in placed])
            found = self._whole(found, window, image.size)
        return self.split.shape.suppress(found, self.threshold).ranked()

    def _whole(self, found: Detected, window: np.ndarray, size) -> Detected:
        """Remove parts of objects that another window contains whole, and join parts of one object."""
        kept, shape = [], self.split.shape
        for label in np.unique(found.classes):
            own = np.flatnonzero(found.classes == label)
            alike = found.take(own)
            kind, shapes = shape.drawn(alike)
            drawn = Annotations(
                kind,
                ("image",),
                np.zeros(len(own), np.intp),
                np.full(len(own), "", object),
                alike.scores,
                shapes,
                own,
            )
            bounds = np.hstack([self.split.origins, self.split.sizes[:, ::-1]])[window[own]]
            cut, same = agreements(
                drawn, bounds, size[::-1], threshold=self.threshold, touch=self.touch
            )
            kept.append(shape.joined(alike, parts_of(alike, window[own], cut, same)))
        return join(kept)


def parts_of(found: Detected, window: np.ndarray, cut: np.ndarray, same: Pairs) -> list[list[int]]:
    """Which of the detections of one class on one image are parts of one object: lists of positions, by their first.

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
    groups: dict[int, list[int]] = {}
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
        groups[i] = [i]
        if not cut[i]:
            gone[others[cut[others]]] = True
            continue
        alike = found.scores >= ALIKE * found.scores[i]
        if (alike[others] & ~cut[others]).any():
            del groups[i]
            gone[i] = True
            continue
        members, seen = groups[i], {int(window[i])}
        # the list grows during the loop: an object may extend over more than two windows
        for member in members:
            for other in agreeing(member).tolist():
                if not cut[other]:
                    continue
                gone[other] = True
                if alike[other] and int(window[other]) not in seen:
                    members.append(other)
                    seen.add(int(window[other]))
    return [groups[i] for i in sorted(groups)]
