"""Which category is taken for which."""

from __future__ import annotations

import numpy as np

from ..evaluation import Evaluation
from .pooled import capped_problem, check_categories, pooled


def confusion_matrix(evaluation: Evaluation, *, threshold: float = 0.5) -> np.ndarray:
    """Counts of pairs of true and predicted category.

    In every image, detections of all categories take truths of all categories, greedily by score.
    Detections that take an ignored truth count nowhere.

    Returns
    -------
    (K + 1, K + 1) int64: rows are true categories, columns predicted ones, in the order of
    ``truths.categories``; the last row counts false alarms, the last column misses.
    """
    check_categories(evaluation, "the confusion matrix")
    problem = capped_problem(evaluation)
    found = pooled(evaluation, problem, threshold)
    taken, excused = found.matching.matched(0, 0), found.matching.ignored(0, 0)
    # an unmatched detection outside of the range of all areas is a false alarm like any other
    false_alarm = taken < 0
    hit = ~false_alarm & ~excused
    categories = len(problem.truths.categories)
    predicted = problem.detections.category[found.cells.detections]
    true = problem.truths.category[found.cells.truths]
    missed = ~found.matching.truth_ignored[:, 0] & (found.matching.truth_matched(0, 0) < 0)
    width = categories + 1
    places = [
        true[taken[hit]] * width + predicted[hit],
        categories * width + predicted[false_alarm],
        true[missed] * width + categories,
    ]
    return np.bincount(np.concatenate(places), minlength=width * width).reshape(width, width)
