"""Average precision of points: COCO's AP with a distance instead of the IoU.

Within an image and a class, detections in descending score each match the nearest free truth that is
nearer than the distance (rule ``score`` of `matching`). All images then form one ranking per class,
whose interpolated precision is read at the recalls 0, 0.01, … 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.geometries import POINT
from permafrost.metrics.detection.accumulate import EPS, hits_needed
from permafrost.metrics.detection.axes import RECALL_GRID
from permafrost.metrics.objects.matching import match_shapes

# array size at once: detections of a class times resamples
_BLOCK = 1 << 19


@dataclass(frozen=True)
class RankedPoints:
    """The detections of one class on all images, by descending score, ties by image.

    Attributes
    ----------
    image : (D,) index of the image.
    hit : (D,) bool: it matched a truth.
    counted : (D,) bool: False for an unmatched detection at a crowd, which is excluded.
    truth_image : (T,) index of the image of each truth, without crowds.
    """

    image: np.ndarray
    hit: np.ndarray
    counted: np.ndarray
    truth_image: np.ndarray

    def average_precision(self, counts: np.ndarray) -> np.ndarray:
        """(B,) average precision, 101-point interpolated, of resamples of the images.

        As in `metrics.detection.resampled`, a detection of an image that was drawn n times is in the
        ranking n times in a row, and only its last copy can shape the envelope.

        Parameters
        ----------
        counts : (N, B) how often each image is in each resample; ones give the value of the whole set.

        Returns
        -------
        NaN if no truth was drawn, 0 with truths but without a hit.
        """
        out = np.empty(counts.shape[1])
        step = max(1, _BLOCK // max(1, np.count_nonzero(self.counted), len(counts)))
        for start in range(0, len(out), step):
            weights = np.ascontiguousarray(counts[:, start : start + step].T, np.int64)
            out[start : start + step] = self.precision(weights).mean(axis=1)
        return out

    def precision(self, weights: np.ndarray) -> np.ndarray:
        """(B, 101) interpolated precision at each recall of `RECALL_GRID`, 0 at recalls that are not
        reached; NaN without a truth.

        `weights` are (B, N), how often each resample draws each image.
        """
        total = weights[:, self.truth_image].sum(axis=1)
        seen = np.cumsum(weights[:, self.image[self.counted]], axis=1)
        # only hits raise precision and recall
        hits = np.flatnonzero(self.hit[self.counted])
        found = np.cumsum(weights[:, self.image[self.hit]], axis=1)
        # the appended column is for recalls that are not reached
        envelope = np.zeros((len(weights), len(hits) + 1))
        envelope[:, :-1] = found / (seen[:, hits] + EPS)
        envelope = np.maximum.accumulate(envelope[:, ::-1], axis=1)[:, ::-1]
        needed = hits_needed(total, RECALL_GRID)
        place = [np.searchsorted(*pair) for pair in zip(found, needed, strict=True)]
        precision = np.take_along_axis(envelope, np.array(place, np.intp).reshape(needed.shape), 1)
        return np.where(total[:, None] > 0, precision, np.nan)


@dataclass(frozen=True)
class TruePoints:
    """The truth of one image, as in `Objects`: (N, 2) x and y in pixels, (N,) class ids, (N,) bool crowds."""

    centres: np.ndarray
    classes: np.ndarray
    crowd: np.ndarray


@dataclass(frozen=True)
class FoundPoints:
    """The detections of one image, as in `Detected`: (M, 2) x and y in pixels, (M,) class ids, (M,) scores."""

    centres: np.ndarray
    classes: np.ndarray
    scores: np.ndarray


def point_average_precision(truth, detections, *, classes: int, distance: float) -> np.ndarray:
    """(K,) average precision of every class; NaN for a class without truth.

    Parameters
    ----------
    truth : `TruePoints` or `Objects` per image. Crowds need not be found; unmatched detections of
        their class near them are excluded.
    detections : `FoundPoints` or `Detected` per image; ties keep the order within an image.
    classes : K; ids are in [0, K).
    distance : a match is strictly nearer than this, in pixels.

    Raises
    ------
    PermafrostError : columns of different lengths, class ids outside of [0, K), a score or coordinate
        that is not finite, a distance that is not positive.
    """
    ranked = rank_points(truth, detections, classes=classes, distance=distance)
    once = np.ones((len(truth), 1), np.int64)
    return np.array([one.average_precision(once)[0] for one in ranked])


def rank_points(truth, detections, *, classes: int, distance: float) -> list[RankedPoints]:
    """The ranking of every class; arguments as `point_average_precision`."""
    if not (np.isfinite(distance) and distance > 0):
        raise PermafrostError(f"the distance {distance} within which points match is not above 0")
    if len(truth) != len(detections):
        raise PermafrostError(f"truth on {len(truth)} images, detections on {len(detections)}")
    parts: list[list[tuple]] = [[] for _ in range(classes)]
    for number, (true, found) in enumerate(zip(truth, detections, strict=True)):
        points, labels, crowd = _columns(true, "crowd", bool, number, classes)
        others, found_labels, scores = _columns(found, "scores", np.float64, number, classes)
        for label in np.union1d(labels, found_labels).tolist():
            of_class, rows = labels == label, found_labels == label
            regular = of_class & ~crowd
            hit, counted = find_points(
                points[regular], points[of_class & crowd], others[rows], scores[rows], distance
            )
            parts[label].append((number, scores[rows], hit, counted, np.count_nonzero(regular)))
    return [_ranked(part) for part in parts]


def _columns(image, name: str, kind, number: int, classes: int) -> tuple[np.ndarray, ...]:
    """Check and return the points, classes and column `name` of an image."""
    points = np.asarray(image.centres, np.float64).reshape(-1, 2)
    labels, values = np.asarray(image.classes, np.int64), np.asarray(getattr(image, name), kind)
    if not np.isfinite(points).all():
        raise PermafrostError(f"image {number} holds a point whose x or y is not finite")
    for what, column in (("classes", labels), (name, values)):
        if len(column) != len(points):
            raise PermafrostError(f"the {what} of image {number} are not one per point")
    if not np.isfinite(values).all():
        raise PermafrostError(f"image {number} holds a score that is not finite")
    if labels.size and not (0 <= labels.min() <= labels.max() < classes):
        raise PermafrostError(f"image {number} holds a class id outside of 0 … {classes - 1}")
    return points, labels, values


def find_points(
    truth: np.ndarray, crowd: np.ndarray, detections: np.ndarray, scores, distance: float
) -> tuple[np.ndarray, np.ndarray]:
    """(M,) bool each: detections of one image that match a truth, and that count, see `RankedPoints`."""
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
