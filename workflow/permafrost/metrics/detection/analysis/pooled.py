"""The same detections once more, compared with the truths of all categories."""

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
    """The problem with only the detections that the caps left, in file order, with all masks."""
    rows = np.sort(evaluation.cells.detections)
    problem = with_all_masks(evaluation.problem, evaluation.settings)
    return rows_of_problem(problem, np.arange(len(problem.truths)), rows)


def pooled(evaluation: Evaluation, problem: Problem, threshold: float) -> Evaluation:
    """`problem` matched without regard to categories, at one threshold and without a cap."""
    axes = make_axes(
        evaluation.settings.iou_type,
        iou_thresholds=[threshold],
        area_ranges={"all": tuple(evaluation.axes.areas[evaluation.axes.area_index("all")])},
        max_dets=[max(len(problem.detections), 1)],
    )
    settings = replace(evaluation.settings, use_categories=False, mode="corrected", lvis=False)
    return solve(problem, settings, axes, ())


def check_categories(evaluation: Evaluation, what: str) -> None:
    """Refuse what compares categories where they were pooled."""
    if not evaluation.settings.use_categories:
        raise PermafrostError(
            f"{what} compares categories, but they were pooled",
            where="use_categories",
            remedy="evaluate with categories",
        )
