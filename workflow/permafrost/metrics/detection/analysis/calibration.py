"""Calibration of detection scores: are 80 % of the detections with a score of 0.8 correct?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.ratios import divide, mean_of_defined

BINS, LOWEST_SCORE = 15, 0.05
# 95 percent of a normal distribution are within this many standard deviations
_Z = 1.959963984540054


@dataclass(frozen=True)
class Calibration:
    """Reliability of the scores; bins hold equal numbers of detections, equal edges are merged.

    Attributes
    ----------
    edges : (B + 1,) scores.
    counts, mean_score, accuracy : (B,) per bin; NaN if it is empty.
    low, high : (B,) Wilson interval of the accuracy at 95 percent.
    expected, largest : expected and maximal calibration error over all detections.
    per_category : (K,) expected calibration error with the same bins; NaN without detections.
    macro : mean of `per_category` over the categories with detections.
    """

    edges: np.ndarray
    counts: np.ndarray
    mean_score: np.ndarray
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    expected: float
    largest: float
    per_category: np.ndarray
    macro: float


def calibrate(
    evaluation: Evaluation,
    *,
    threshold: float = 0.5,
    bins: int = BINS,
    lowest_score: float = LOWEST_SCORE,
) -> Calibration:
    """Compare scores with the share of hits at one threshold, which must have been evaluated.

    Ignored detections and those with a score below `lowest_score` are omitted.

    Raises
    ------
    PermafrostError : scores outside 0 to 1, or no detection that counts.
    """
    at, area = evaluation.axes.threshold_index(threshold), evaluation.axes.area_index("all")
    matching, cells = evaluation.matching, evaluation.cells
    scores = evaluation.detections.scores[cells.detections]
    if ((scores < 0) | (scores > 1)).any():
        raise PermafrostError(
            "scores outside 0 to 1 are not probabilities, so they have no calibration",
            where=evaluation.detections.source,
            remedy="write probabilities as scores",
        )
    hit = np.zeros(len(scores), bool)
    hit[matching.candidates] = matching.hits()[:, area, at]
    kept = ~matching.ignored(area, at) & (scores >= lowest_score)
    scores, hit, bucket = scores[kept], hit[kept], cells.detection_bucket[kept]
    if not scores.size:
        raise PermafrostError(
            f"there is no counted detection with a score of at least {lowest_score}",
            where="calibration",
            remedy="lower the lowest score",
        )
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, bins + 1), method="linear"))
    width = max(len(edges) - 1, 1)
    place = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, width - 1)
    counts, mean_score, accuracy = _per_bin(place, scores, hit, width)
    low, high = _wilson(accuracy, counts)
    gaps = np.abs(accuracy - mean_score)
    per_category = np.array(
        [
            _expected(place[own], scores[own], hit[own], width)
            for own in _groups(bucket, cells.buckets)
        ]
    )
    return Calibration(
        edges=edges,
        counts=counts,
        mean_score=mean_score,
        accuracy=accuracy,
        low=low,
        high=high,
        expected=_expected(place, scores, hit, width),
        largest=float(np.nanmax(gaps)),
        per_category=per_category,
        macro=float(mean_of_defined(per_category)),
    )


def _groups(bucket: np.ndarray, buckets: int):
    return (np.flatnonzero(bucket == k) for k in range(buckets))


def _per_bin(place, scores, hit, width: int):
    counts = np.bincount(place, minlength=width)
    mean_score = divide(np.bincount(place, scores, minlength=width), counts)
    return counts, mean_score, divide(np.bincount(place, hit, minlength=width), counts)


def _expected(place, scores, hit, width: int) -> float:
    counts, mean_score, accuracy = _per_bin(place, scores, hit, width)
    if not counts.sum():
        return float("nan")
    gaps = np.where(counts > 0, np.abs(accuracy - mean_score), 0.0)
    return float(np.sum(counts / counts.sum() * gaps))


def _wilson(share: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1 + _Z**2 / count
        centre = (share + _Z**2 / (2 * count)) / scale
        half = _Z / scale * np.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    # rounding may put the ends slightly outside of [0, 1]
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
