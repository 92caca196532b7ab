"""How many objects of one image are found, and by how many detections, with crowds left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permafrost.data.labels.geometries import BOX, POINT
from permafrost.metrics.objects.matching import check_rule, match_shapes
from permafrost.metrics.objects.overlaps import areas, find_pairs
from permafrost.metrics.objects.point_precision import any_within

# DeepForest's rule for boxes; of points only pairs within the distance decide, not far ones
_RULES = {BOX: "area", POINT: "within"}


class Hits(NamedTuple):
    """Counts of one image: truths that are found, all truths, all detections; without crowds."""

    hits: int
    truths: int
    detections: int

    @property
    def f1(self) -> float:
        """2 hits / (truths + detections); NaN of an image with neither."""
        both = self.truths + self.detections
        return 2 * self.hits / both if both else float("nan")


def count_hits(
    kind: str, truth, crowd, detections, *, threshold: float, rule: str | None = None
) -> Hits:
    """Match the detections of one image with its truths and count; arguments as `match_hits`."""
    partner, counted = match_hits(kind, truth, crowd, detections, threshold=threshold, rule=rule)
    regular = np.count_nonzero(~np.asarray(crowd, bool))
    return Hits(int(np.count_nonzero(partner >= 0)), int(regular), int(np.count_nonzero(counted)))


def match_hits(
    kind: str, truth, crowd, detections, *, threshold: float, rule: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Match the detections of one image with its truths, whatever their classes.

    Crowds need not be found. A detection that finds no other truth is left out where it lies mainly
    on a crowd: COCO's rule, with the area of the intersection over that of the detection above the
    threshold, or nearer to a crowded point than the distance. If it could find no other truth at
    all, it takes no part in the matching, and so takes none away from another detection.

    Parameters
    ----------
    kind : ``box`` or ``point``.
    truth, detections : (T, 4) and (P, 4) corners, or (T, 2) and (P, 2) points.
    crowd : (T,) bool.
    threshold : a match has an IoU above it, or a distance below it.
    rule : see `matching`; by default ``area`` of boxes, ``within`` of points. Not ``score``.

    Returns
    -------
    partner : (T,) the detection that found each truth; -1 of those that none found, and of crowds.
    counted : (P,) bool, False of detections that are left out.
    """
    rule = check_rule(_RULES[kind] if rule is None else rule, kind)
    crowd = np.asarray(crowd, bool)
    regular = truth[~crowd]
    excused = _on_crowd(kind, detections, truth[crowd], threshold)
    matched = np.arange(len(detections))
    if excused.any():
        matched = np.flatnonzero(~excused | _could_hit(kind, regular, detections, threshold))
    found, quality, _ = match_shapes(
        kind, regular, detections[matched], None, rule=rule, threshold=threshold
    )
    right = (quality < threshold if kind == POINT else quality > threshold) & (found >= 0)
    partner = np.full(len(truth), -1, np.int64)
    partner[np.flatnonzero(~crowd)[right]] = matched[found[right]]
    counted = ~excused
    counted[partner[partner >= 0]] = True
    return partner, counted


def _on_crowd(kind: str, detections, crowd, threshold: float) -> np.ndarray:
    """(P,) bool: detections that lie mainly on one crowd."""
    if kind == POINT:
        return any_within(detections, crowd, threshold)
    out = np.zeros(len(detections), bool)
    pairs = find_pairs(kind, crowd, detections)
    # pairs have a common area, so that of the detection is above 0
    detection_areas = areas(kind, detections)[pairs.second]
    out[pairs.second[pairs.value > threshold * detection_areas]] = True
    return out


def _could_hit(kind: str, truth, detections, threshold: float) -> np.ndarray:
    """(P,) bool: detections with a truth in reach, taken by another or not."""
    out = np.zeros(len(detections), bool)
    pairs = find_pairs(kind, truth, detections, reach=threshold)
    out[pairs.second if kind == POINT else pairs.second[pairs.iou > threshold]] = True
    return out
