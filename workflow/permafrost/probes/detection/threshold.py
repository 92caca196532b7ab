"""The score from which on a detection is one: chosen on validation."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.detection.object_splits import ObjectSplit
from permafrost.probes.detection.scoring import hits

THRESHOLDS = np.arange(1, 20) / 20


def check_choosable(val: ObjectSplit, where: str) -> None:
    """Refuse to choose where there is nothing to choose on."""
    if not val.object_count:
        raise PermafrostError(
            "score_threshold is to be chosen on validation, which has no object",
            where=where,
            remedy="give a score_threshold, or a dataset whose validation has objects",
        )


def choose_threshold(val: ObjectSplit, found: list[Detected]) -> tuple[float, float]:
    """The score of the best F1 over all images, the lowest of equals, and this F1.

    Parameters
    ----------
    found : detections of every whole image, by descending score.
    """
    totals = np.zeros((len(THRESHOLDS), 3), np.int64)
    for image, detections in zip(val.images, found, strict=True):
        counts = np.searchsorted(-detections.scores, -THRESHOLDS, side="right")
        # the matching is done once for each set of detections
        for count in np.unique(counts):
            totals[counts == count] += hits(val, image, detections.take(slice(count)))
    values = 2 * totals[:, 0] / np.maximum(totals[:, 1] + totals[:, 2], 1)
    best = int(values.argmax())
    return float(THRESHOLDS[best]), float(values[best])
