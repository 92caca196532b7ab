"""Average precision of points: what COCO computes of boxes, with a distance in the place of the IoU.

Within an image and a class, detections by descending score each take the nearest free truth that is
nearer than the distance (rule ``score`` of `matching`). All images then form one ranking per class,
whose precision, as the best of all places from there on, is read at the recalls 0, 0.01, … 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.geometries import POINT
from permafrost.metrics.objects.matching import match_shapes

RECALL_GRID = np.linspace(0.0, 1.0, 101)
_EPS = np.spacing(1)


@dataclass(frozen=True)
class RankedPoints:
    """The detections of one class on all images, by descending score; images break ties.

    Attributes
    ----------
    image : (D,) number of the image of each.
    hit : (D,) bool; has found a truth.
    counted : (D,) bool; False where it has found none but is near a crowd, and is left out.
    truth_image : (T,) number of the image of each truth, crowds left out.
    """

    image: np.ndarray
    hit: np.ndarray
    counted: np.ndarray
    truth_image: np.ndarray

    def average_precision(self) -> float:
        """101-point interpolated; NaN without a truth, 0 where there are truths but no hit."""
        return float(np.mean(self.precision()))

    def precision(self) -> np.ndarray:
        """(101,) the best precision from each recall of `RECALL_GRID` on, 0 at those that are not
        reached; NaN without a truth."""
        total = len(self.truth_image)
        if not total:
            return np.full(len(RECALL_GRID), np.nan)
        found = np.cumsum(self.hit)
        precision = found / (np.cumsum(self.counted) + _EPS)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        place = np.searchsorted(found / total, RECALL_GRID)
        return np.append(envelope, 0.0)[place]


def point_average_precision(
    truths: Sequence[np.ndarray],
    truth_classes: Sequence[np.ndarray],
    detections: Sequence[np.ndarray],
    detection_classes: Sequence[np.ndarray],
    scores: Sequence[np.ndarray],
    *,
    classes: int,
    distance: float,
    crowd: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """(K,) average precision of every class; NaN of a class without truth.

    Parameters
    ----------
    truths, detections : per image, (N, 2) and (M, 2) x and y.
    truth_classes, detection_classes : per image, (N,) and (M,) ids in [0, K).
    scores : per image, (M,) finite; among equal ones the first of the image goes first.
    classes : K.
    distance : a detection finds what is nearer than this, strictly.
    crowd : per image, (N,) bool: truths that need not be found, and that excuse the detections of
        their class nearby that find no other; none by default.

    Raises
    ------
    PermafrostError : lists of different lengths, class ids outside of [0, K), a score or coordinate
        that is not finite, a distance that is not positive.
    """
    ranked = rank_points(
        truths,
        truth_classes,
        detections,
        detection_classes,
        scores,
        classes=classes,
        distance=distance,
        crowd=crowd,
    )
    return np.array([one.average_precision() for one in ranked])


def rank_points(
    truths,
    truth_classes,
    detections,
    detection_classes,
    scores,
    *,
    classes: int,
    distance: float,
    crowd=None,
) -> list[RankedPoints]:
    """The ranking of every class; arguments as `point_average_precision`."""
    if not (np.isfinite(distance) and distance > 0):
        raise PermafrostError(f"the distance {distance} within which points match is not above 0")
    truths, detections = _points(truths), _points(detections)
    if crowd is None:
        crowd = [np.zeros(len(points), bool) for points in truths]
    _check(truths, {"truth_classes": truth_classes, "crowd": crowd}, classes)
    _check(detections, {"detection_classes": detection_classes, "scores": scores}, classes)
    if len(truths) != len(detections):
        raise PermafrostError(f"truth on {len(truths)} images, detections on {len(detections)}")
    parts: list[list[tuple]] = [[] for _ in range(classes)]
    images = zip(truths, truth_classes, crowd, detections, detection_classes, scores, strict=True)
    for number, (true, true_class, crowded, found, found_class, score) in enumerate(images):
        crowded, score = np.asarray(crowded, bool), np.asarray(score, np.float64)
        true_class, found_class = (np.asarray(ids, np.int64) for ids in (true_class, found_class))
        for label in np.union1d(true_class, found_class).tolist():
            mine, own = true_class == label, found_class == label
            hit, counted = find_points(
                true[mine & ~crowded], true[mine & crowded], found[own], score[own], distance
            )
            wanted = np.count_nonzero(mine & ~crowded)
            parts[label].append((number, score[own], hit, counted, wanted))
    return [_ranked(part) for part in parts]


def find_points(
    truth: np.ndarray, crowd: np.ndarray, detections: np.ndarray, scores, distance: float
) -> tuple[np.ndarray, np.ndarray]:
    """(M,) bool each: which detections of one image find a truth, and which count, see `RankedPoints`."""
    partner, _, _ = match_shapes(POINT, truth, detections, scores, rule="score", threshold=distance)
    hit = np.zeros(len(detections), bool)
    hit[partner[partner >= 0]] = True
    return hit, hit | ~any_within(detections, crowd, distance)


def any_within(points: np.ndarray, others: np.ndarray, distance: float) -> np.ndarray:
    """(N,) bool: points that are nearer than `distance` to one of the `others`."""
    if not len(points) or not len(others):
        return np.zeros(len(points), bool)
    gaps = np.hypot(*(points[:, None] - others[None]).transpose(2, 0, 1))
    return (gaps < distance).any(axis=1)


def _ranked(parts: list[tuple]) -> RankedPoints:
    images = np.array([part[0] for part in parts], np.intp)
    lengths = np.array([len(part[1]) for part in parts], np.intp)
    scores = np.concatenate([np.empty(0), *(part[1] for part in parts)])
    order = np.argsort(-scores, kind="stable")
    nothing = np.empty(0, bool)
    return RankedPoints(
        image=np.repeat(images, lengths)[order],
        hit=np.concatenate([nothing, *(part[2] for part in parts)])[order],
        counted=np.concatenate([nothing, *(part[3] for part in parts)])[order],
        truth_image=np.repeat(images, np.array([part[4] for part in parts], np.intp)),
    )


def _points(images) -> list[np.ndarray]:
    out = [np.asarray(points, np.float64).reshape(-1, 2) for points in images]
    for number, points in enumerate(out):
        if not np.isfinite(points).all():
            raise PermafrostError(f"image {number} holds a point whose x or y is not finite")
    return out


def _check(points: list[np.ndarray], columns: dict, classes: int) -> None:
    """Refuse columns that do not fit the points."""
    for name, column in columns.items():
        if list(map(len, column)) != list(map(len, points)):
            raise PermafrostError(f"{name} do not have one entry per point of each image")
        for number, values in enumerate(column):
            values = np.asarray(values)
            if not values.size:
                continue
            if name == "scores" and not np.isfinite(values).all():
                raise PermafrostError(f"image {number} holds a score that is not finite")
            if name.endswith("classes") and not (0 <= values.min() <= values.max() < classes):
                raise PermafrostError(
                    f"image {number} holds a class id outside of 0 … {classes - 1}"
                )
