"""Counts of found objects and of detections of one image, without crowds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permafrost.data.labels.geometries import BOX, MASK, ORIENTED, POINT
from permafrost.metrics.objects.matching import check_rule, match_shapes
from permafrost.metrics.objects.overlaps import areas, find_pairs
from permafrost.metrics.objects.point_precision import any_within

# DeepForest's rule for boxes and masks; for points, only pairs within the distance count
_RULES = {BOX: "area", ORIENTED: "area", MASK: "area", POINT: "within"}


class Hits(NamedTuple):
    """Counts of one image: found truths, all truths, all detections; without crowds."""

    hits: int
    truths: int
    detections: int

    @property
    def f1(self) -> float:
        """2 hits / (truths + detections); NaN for an image with neither."""
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
    """Match the detections of one image with its truths, regardless of classes.

    Crowds need not be found. An unmatched detection is excluded if it is mainly on a crowd (COCO's
    rule): if intersection / area of the detection exceeds the threshold, or if the detected point is
    nearer to a crowd point than the distance. If such a detection has no truth within reach, it is
    excluded before matching, so that it cannot affect the assignment.

    Parameters
    ----------
    kind : ``box``, ``oriented_box``, ``mask`` or ``point``.
    truth, detections : (T, 4) and (P, 4) corners, (T, 4, 2) and (P, 4, 2) of oriented boxes, `Masks`, or
        (T, 2) and (P, 2) points.
    crowd : (T,) bool.
    threshold : a match has an IoU above it, or a distance below it.
    rule : see `matching`; by default ``area`` of boxes and masks, ``within`` of points. Not ``score``.

    Returns
    -------
    partner : (T,) the detection that matched each truth; -1 for missed truths and for crowds.
    counted : (P,) bool, False for excluded detections.
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
    """(P,) bool: detections that are mainly on one crowd."""
    if kind == POINT:
        return any_within(detections, crowd, threshold)
    out = np.zeros(len(detections), bool)
    pairs = find_pairs(kind, crowd, detections)
    # pairs overlap, so the detection's area is above 0
    detection_areas = areas(kind, detections)[pairs.second]
    out[pairs.second[pairs.value > threshold * detection_areas]] = True
    return out


def _could_hit(kind: str, truth, detections, threshold: float) -> np.ndarray:
    """(P,) bool: detections with a truth within reach, matched by another or not."""
    out = np.zeros(len(detections), bool)
    pairs = find_pairs(kind, truth, detections, reach=threshold)
    out[pairs.second if kind == POINT else pairs.second[pairs.iou > threshold]] = True
    return out
