"""Confusion of categories: detections are matched with the truths of all categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.axes import make_axes
from permafrost.metrics.detection.evaluate import rows_of_problem, solve
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.problem import with_all_masks


def capped_problem(evaluation: Evaluation) -> Problem:
    """The problem with only the detections within the caps, in file order, with all masks."""
    rows = np.sort(evaluation.cells.detections)
    problem = with_all_masks(evaluation.problem, evaluation.settings)
    return rows_of_problem(problem, np.arange(len(problem.truths)), rows)


def pooled(evaluation: Evaluation, problem: Problem, threshold: float) -> Evaluation:
    """`problem` matched across categories, at one threshold and without a cap."""
    axes = make_axes(
        evaluation.settings.iou_type,
        iou_thresholds=[threshold],
        area_ranges={"all": tuple(evaluation.axes.areas[evaluation.axes.area_index("all")])},
        max_dets=[max(len(problem.detections), 1)],
    )
    settings = replace(evaluation.settings, use_categories=False, mode="corrected", lvis=False)
    return solve(problem, settings, axes, ())


def check_categories(evaluation: Evaluation, what: str) -> None:
    """Refuse an analysis of categories if the evaluation pooled them."""
    if not evaluation.settings.use_categories:
        raise PermafrostError(
            f"{what} compares categories, but they were pooled",
            where="use_categories",
            remedy="evaluate with categories",
        )


# matrices of more bytes than this are refused: some 16,000 categories
_MOST_BYTES = 2 * 10**9


def confusion_matrix(evaluation: Evaluation, *, threshold: float = 0.5) -> np.ndarray:
    """Counts of pairs of true and predicted category, as a matrix; see `confused_pairs`.

    Returns
    -------
    (K + 1, K + 1) int64: rows are true categories, columns predicted ones, in the order of
    ``truths.categories``; the last row counts false alarms, the last column misses.

    Raises
    ------
    PermafrostError : pooled categories; a matrix that does not fit into memory.
    """
    width = len(evaluation.truths.categories) + 1
    if (size := 8 * width**2) > _MOST_BYTES:
        raise PermafrostError(
            f"the confusion matrix of {width - 1} categories would take {size / 1e9:.1f} GB of memory",
            where="categories",
            remedy="use confused_pairs, which holds only the pairs that occur",
        )
    true, predicted, counts = confused_pairs(evaluation, threshold=threshold)
    matrix = np.zeros((width, width), np.int64)
    matrix[true, predicted] = counts
    return matrix


def confused_pairs(
    evaluation: Evaluation, *, threshold: float = 0.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of true and predicted category that occur, ascending, and their counts.

    In every image, detections are matched greedily by score with truths of all categories.
    Detections that match an ignored truth are not counted.

    Returns
    -------
    (P,) positions of the true category, (P,) of the predicted one, (P,) counts. Position K, one
    beyond the last category, means none: false alarms have no true category, misses no predicted one.
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
    pairs, counts = np.unique(np.concatenate(places), return_counts=True)
    return pairs // width, pairs % width, counts
