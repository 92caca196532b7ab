"""Optimal localisation-recall-precision error (Oksuz et al.), and the score at which it is reached.

At a score s, a category with TP hits, FP false alarms and FN misses has
LRP(s) = (sum over hits of (1 - IoU) / (1 - threshold) + FP + FN) / (TP + FP + FN);
oLRP is the minimum over s, and the minimising s is the optimal score threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.ratios import divide

SCORES = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class OptimalLRP:
    """oLRP of K categories; smaller is better.

    Attributes
    ----------
    value : (K,) oLRP; NaN without truths, 1 without hits.
    localisation, false_alarms, misses : (K,) its components: mean (1 - IoU) / (1 - threshold) of the hits,
        FP / (TP + FP), FN / (TP + FN).
    score : (K,) optimal score threshold; NaN without hits.
    means : name of each of the four values above to its mean: over the categories with truths (oLRP and
        misses) or with a hit (localisation and false alarms).
    """

    value: np.ndarray
    localisation: np.ndarray
    false_alarms: np.ndarray
    misses: np.ndarray
    score: np.ndarray
    means: dict[str, float]


def optimal_lrp(evaluation: Evaluation, *, threshold: float = 0.5) -> OptimalLRP:
    """oLRP of every category at the IoU `threshold`, which must have been evaluated."""
    at, area = evaluation.axes.threshold_index(threshold), evaluation.axes.area_index("all")
    cells, matching = evaluation.cells, evaluation.matching
    scores = evaluation.detections.scores[cells.detections]
    bucket = cells.detection_bucket
    hit = np.zeros(len(scores), bool)
    hit[matching.candidates] = matching.hits()[:, area, at]
    likeness = np.zeros(len(scores))
    likeness[matching.candidates] = matching.similarity[:, area, at]
    alarm = ~hit & ~matching.ignored(area, at)
    error = np.where(hit, (1 - likeness) / (1 - threshold), 0.0)
    regular = ~matching.truth_ignored[:, area]
    positives = np.bincount(cells.truth_bucket[regular], minlength=cells.buckets)
    rows = [
        _one(scores[own], hit[own], alarm[own], error[own], positives[k])
        for k in range(cells.buckets)
        for own in [np.flatnonzero(bucket == k)]
    ]
    table = np.array(rows).reshape(-1, 5)
    value, localisation, false_alarms, misses, score = table.T
    names = ("olrp", "localisation", "false_alarms", "misses")
    means = {
        name: float(np.mean(column[~np.isnan(column)])) if (~np.isnan(column)).any() else np.nan
        for name, column in zip(names, table.T, strict=False)
    }
    return OptimalLRP(value, localisation, false_alarms, misses, score, means)


def _one(scores, hit, alarm, error, positives: int) -> tuple[float, ...]:
    """oLRP, its components and its score for one category."""
    if positives == 0:
        return (np.nan,) * 5
    if not hit.any():
        return 1.0, np.nan, np.nan, 1.0, np.nan
    order = np.argsort(-scores, kind="stable")
    kept = np.searchsorted(-scores[order], -SCORES, side="right")
    hits, alarms, errors = (
        np.concatenate(([0], np.cumsum(column[order])))[kept] for column in (hit, alarm, error)
    )
    lrp = divide(errors + alarms + positives - hits, alarms + positives, undefined=0.0)
    # of equally good scores, the largest
    best = len(lrp) - 1 - int(np.argmin(lrp[::-1]))
    tp, fp = float(hits[best]), float(alarms[best])
    localisation = errors[best] / tp if tp else np.nan
    precision_error = fp / (tp + fp) if tp else np.nan
    return float(lrp[best]), localisation, precision_error, 1 - tp / positives, SCORES[best]
