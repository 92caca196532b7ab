"""One-to-one matching of predictions and truths.

Rules for boxes, polygons and masks:

``area``    DeepForest's: the assignment with the greatest total intersection *area*. Neither IoU nor
            score counts, so a huge box can displace a good one: for a truth of 10 x 10, a prediction
            of IoU 0.81 loses against a 60 x 60 box around both.
``iou``     the assignment with the greatest total IoU, of pairs above the threshold only.
``score``   greedy: in descending score, each prediction matches the free truth of highest IoU if
            that is above the threshold (as in COCO, but strictly above).

Rules for points:

``distance`` DeepForest's: the assignment with the least total distance, without a threshold; a
            far pair can displace a close one.
``within``  the assignment with the greatest total of (threshold - distance), of pairs within it.
``score``   greedy: in descending score, each prediction matches the nearest free truth within the
            threshold.

No rule uses labels. Of equally good assignments, any may be returned.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permafrost.core.errors import PermafrostError, near_names
from permafrost.data.labels.geometries import POINT
from permafrost.metrics.objects.overlaps import Pairs, find_pairs

# DeepForest's thresholds: a match has an IoU above, or a distance in pixels below
IOU_THRESHOLD = 0.4
DISTANCE_THRESHOLD = 10.0
RULES = {
    "box": ("area", "iou", "score"),
    "polygon": ("area", "iou", "score"),
    "mask": ("area", "iou", "score"),
    "oriented_box": ("area", "iou", "score"),
    "point": ("distance", "within", "score"),
}
# up to this many pairs (134 MB) one assignment is solved, as in DeepForest, so that ties are resolved
# equally; with more, each connected group of shapes is solved separately
_DENSE = 1 << 24


def check_rule(rule: str | None, kind: str) -> str:
    """The checked rule; DeepForest's if None."""
    rule = RULES[kind][0] if rule is None else rule
    if rule not in RULES[kind]:
        names = {name for names in RULES.values() for name in names}
        remedy = f"match a {kind} by " + ", ".join(RULES[kind])
        raise PermafrostError(
            f"a {kind} cannot be matched by {rule!r}",
            remedy=remedy if rule in names else near_names(rule, RULES[kind]),
        )
    return rule


def match_shapes(kind: str, truth, prediction, scores, *, rule: str, threshold: float):
    """Match the crowns of one image.

    Parameters
    ----------
    truth, prediction : (T, …) and (P, …) shapes, see `Annotations`.
    scores : (P,), without NaN for the rule ``score``.
    threshold : a match has an IoU above it, or a distance below it.

    Returns
    -------
    partner : (T,) index of each truth's prediction, -1 without. With ``area`` and ``distance`` it may
        miss the threshold.
    quality : (T,) IoU with, or distance in pixels to, the partner; 0 or infinite without.
    pairs : the pairs of shapes that were considered.
    """
    every = rule == "distance"
    if every and len(truth) * len(prediction) > _DENSE:
        raise PermafrostError(
            f"{len(truth)} x {len(prediction)} points are too many to match by distance",
            remedy="match them `within` the distance, which compares only near points",
        )
    pairs = find_pairs(kind, truth, prediction, reach=np.inf if every else threshold)
    point = kind == POINT
    allowed = pairs if rule in ("area", "distance") or point else pairs.take(pairs.iou > threshold)
    measure = allowed.value if point else allowed.iou
    if rule == "score":
        chosen = _greedy(allowed, -measure if point else measure, scores)
    else:
        weight = {"area": allowed.value, "iou": allowed.iou, "within": threshold - allowed.value}
        chosen = _assign(
            allowed, weight.get(rule, -allowed.value), len(truth), len(prediction), every
        )
    partner = np.full(len(truth), -1, np.int64)
    quality = np.full(len(truth), np.inf if point else 0.0)
    partner[allowed.first[chosen]] = allowed.second[chosen]
    quality[allowed.first[chosen]] = measure[chosen]
    return partner, quality, pairs


def _greedy(pairs: Pairs, measure: np.ndarray, scores) -> np.ndarray:
    """Rows of the matched pairs: by score, then by order, each prediction matches its best free truth."""
    order = np.lexsort((pairs.first, -measure, pairs.second, -np.asarray(scores)[pairs.second]))
    taken_truth: set[int] = set()
    taken_prediction: set[int] = set()
    chosen = []
    for row in order.tolist():
        truth, prediction = int(pairs.first[row]), int(pairs.second[row])
        if truth not in taken_truth and prediction not in taken_prediction:
            taken_truth.add(truth)
            taken_prediction.add(prediction)
            chosen.append(row)
    return np.asarray(chosen, np.intp)


def _assign(pairs: Pairs, weight: np.ndarray, n_truth: int, n_prediction: int, every: bool):
    """Rows of the pairs in the one-to-one assignment of greatest total weight.

    Missing pairs have weight 0. With `every`, all pairs are present and weights are negative.
    """
    if not len(weight):
        return np.empty(0, np.intp)
    if every or n_truth * n_prediction <= _DENSE:
        return _solve(pairs.first, pairs.second, weight, (n_truth, n_prediction))

    size = n_truth + n_prediction
    links = coo_array(
        (np.ones(len(weight), bool), (pairs.first, n_truth + pairs.second)), (size, size)
    )
    group = connected_components(links, directed=False)[1][pairs.first]
    order = np.argsort(group, kind="stable")
    found = []
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        truths, first = np.unique(pairs.first[rows], return_inverse=True)
        predictions, second = np.unique(pairs.second[rows], return_inverse=True)
        picked = _solve(first, second, weight[rows], (len(truths), len(predictions)))
        found.append(rows[picked])
    return np.concatenate(found)


def _solve(first, second, weight, shape) -> np.ndarray:
    matrix = np.zeros(shape)
    matrix[first, second] = weight
    row_of = np.full(shape, -1, np.int32)
    row_of[first, second] = np.arange(len(weight))
    rows = row_of[linear_sum_assignment(matrix, maximize=True)]
    return rows[rows >= 0]
