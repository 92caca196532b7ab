"""Which prediction belongs to which truth, at most one to one.

Rules for boxes and polygons:

``area``    DeepForest's: the assignment with the greatest total intersection *area*. Neither IoU nor
            score counts, so one huge box can take a crown away from a good box: with a truth of
            10 x 10, a prediction of IoU 0.81 loses against a 60 x 60 box around both.
``iou``     the assignment with the greatest total IoU, of pairs above the threshold only.
``score``   greedy: predictions by descending score, each takes the free truth of highest IoU if
            that is above the threshold (as COCO does, but strictly above).

Rules for points:

``distance`` DeepForest's: the assignment with the least total distance, whatever the threshold; a
            far pair can decide over a close one.
``within``  the assignment with the greatest total of (threshold - distance), of pairs within it.
``score``   greedy, each prediction takes the nearest free truth within the threshold.

Labels have no part in any rule. Where assignments are equally good, any may be returned.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permafrost.core.errors import PermafrostError, near_names
from permafrost.data.labels.geometries import POINT
from permafrost.metrics.objects.overlaps import Pairs, find_pairs

# what DeepForest takes for a match: an IoU above, or a distance in pixels below
IOU_THRESHOLD = 0.4
DISTANCE_THRESHOLD = 10.0
RULES = {
    "box": ("area", "iou", "score"),
    "polygon": ("area", "iou", "score"),
    "point": ("distance", "within", "score"),
}
# up to this many pairs (134 MB) the assignment is solved at once, as DeepForest does, so that even
# equally good assignments are resolved alike; beyond, separate groups of shapes on their own
_DENSE = 1 << 24


def check_rule(rule: str | None, kind: str) -> str:
    """The rule, DeepForest's where None."""
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
    partner : (T,) index of each truth's prediction, -1 without. Under ``area`` and ``distance`` also
        one that does not reach the threshold.
    quality : (T,) IoU or distance with the partner; 0 or infinite without.
    pairs : the pairs of shapes that were considered, for other uses.
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
    """Rows of the pairs that are taken: by score, then by order; each takes its best free truth."""
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

    Pairs that are not given weigh nothing. With `every`, all are given and weights are negative.
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
