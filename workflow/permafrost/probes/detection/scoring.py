"""Score the detections of a split, and choose the score threshold."""

from __future__ import annotations

import math

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.evaluate import evaluate
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.hits import Hits, count_hits
from permafrost.metrics.objects.point_precision import point_average_precision
from permafrost.probes.detection.coco_json import detections_json, truth_json
from permafrost.probes.detection.object_splits import ObjectSplit, WholeImage


def average_precision(split: ObjectSplit, found: list[Detected]) -> float | None:
    """AP by COCO's rules, or AP of points; None if no image has an object.

    Parameters
    ----------
    found : detections of every whole image.
    """
    by_distance = split.shape.compared.kernel is None
    value = _by_distance(split, found) if by_distance else _by_overlap(split, found)
    return None if math.isnan(value) or value < 0 else value


def _by_overlap(split: ObjectSplit, found: list[Detected]) -> float:
    if not split.object_count:
        return math.nan
    evaluation = evaluate(
        truth_json(split.images, split.classes, split.shape),
        detections_json(found, split.shape),
        iou_type=split.shape.compared.kernel,
        max_dets=sorted({1, 10, split.detection["max_detections"]}),
    )
    return float(evaluation.stats[0])


def _by_distance(split: ObjectSplit, found: list[Detected]) -> float:
    values = point_average_precision(
        [image.objects for image in split.images],
        found,
        classes=len(split.classes),
        distance=split.detection["match_distance"],
    )
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def hits(split: ObjectSplit, image: WholeImage, found: Detected) -> Hits:
    """Match the objects and detections of an image by the rules of `metrics.objects.hits`, and count."""
    shape = split.shape.compared
    return count_hits(
        shape.kind,
        shape.of(image.objects),
        image.objects.crowd,
        shape.of(found),
        threshold=shape.threshold(split.detection["match_distance"]),
    )


THRESHOLDS = np.arange(1, 20) / 20


def check_choosable(val: ObjectSplit, where: str) -> None:
    """Refuse to choose on a validation split without objects."""
    if not val.object_count:
        raise PermafrostError(
            "score_threshold is chosen on validation, which has no object",
            where=where,
            remedy="give a score_threshold, or a dataset whose validation has objects",
        )


def choose_threshold(val: ObjectSplit, found: list[Detected]) -> tuple[float, float]:
    """The score threshold with the best F1 over all images, the lowest of equals, and this F1.

    Parameters
    ----------
    found : detections of every whole image, by descending score.
    """
    totals = np.zeros((len(THRESHOLDS), 3), np.int64)
    for image, detections in zip(val.images, found, strict=True):
        counts = np.searchsorted(-detections.scores, -THRESHOLDS, side="right")
        # match once per set of detections
        for count in np.unique(counts):
            totals[counts == count] += hits(val, image, detections.take(slice(count)))
    values = 2 * totals[:, 0] / np.maximum(totals[:, 1] + totals[:, 2], 1)
    best = int(values.argmax())
    return float(THRESHOLDS[best]), float(values[best])
