"""Restrict an evaluation to some of its images, without matching again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permafrost.metrics.detection.accumulate import accumulate
from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.inputs.tables import restrict
from permafrost.metrics.detection.matching import Matching
from permafrost.metrics.detection.pairs import Pairs


def subset(evaluation: Evaluation, chosen: np.ndarray) -> Evaluation:
    """The result of `evaluate` for the chosen images alone, bit for bit; same categories and axes.

    Parameters
    ----------
    chosen : (I,) bool.
    """
    problem, cells = evaluation.problem, evaluation.cells
    columns = np.flatnonzero(chosen[cells.truth_cell % max(cells.images, 1)])
    rows = np.flatnonzero(chosen[cells.detection_cell % max(cells.images, 1)])
    truth_rows = np.flatnonzero(chosen[problem.truths.image])
    detection_rows = np.flatnonzero(chosen[problem.detections.image])
    truths, detections = restrict(problem.truths, problem.detections, chosen)
    column_place = _places(columns, len(cells.truths))
    row_place = _places(rows, len(cells.detections))
    number = np.cumsum(chosen) - 1
    part = replace(
        cells,
        truths=_places(truth_rows, len(problem.truths))[cells.truths[columns]],
        detections=_places(detection_rows, len(problem.detections))[cells.detections[rows]],
        truth_cell=_renumbered(cells.truth_cell[columns], cells, number),
        detection_cell=_renumbered(cells.detection_cell[rows], cells, number),
        ranks=cells.ranks[rows],
        first=np.append(column_place, len(columns))[cells.first[rows]],
        count=cells.count[rows],
        images=len(truths.images),
    )
    matching = _matching(evaluation.matching, rows, columns, row_place, column_place)
    smaller = replace(
        problem,
        truths=truths,
        detections=detections,
        truth_masks=None if problem.truth_masks is None else problem.truth_masks.take(truth_rows),
        detection_masks=None
        if problem.detection_masks is None
        else problem.detection_masks.take(detection_rows),
    )
    scores = detections.scores[part.detections]
    return replace(
        evaluation,
        curves=accumulate(part, matching, scores, evaluation.axes),
        truths=truths,
        detections=detections,
        cells=part,
        pairs=_pairs(evaluation.pairs, row_place, column_place),
        matching=matching,
        problem=smaller,
    )


def _places(kept: np.ndarray, count: int) -> np.ndarray:
    """(count,) new position of each old one; -1 for dropped ones."""
    places = np.full(count, -1, np.int64)
    places[kept] = np.arange(len(kept))
    return places


def _renumbered(cell: np.ndarray, cells: Cells, number: np.ndarray) -> np.ndarray:
    images = max(cells.images, 1)
    return cell // images * max(int(number[-1]) + 1 if len(number) else 0, 1) + (
        number[cell % images] if len(number) else 0
    )


def _matching(matching: Matching, rows, columns, row_place, column_place) -> Matching:
    kept = np.flatnonzero(row_place[matching.candidates] >= 0)
    column = matching.column[kept]
    if len(columns):
        column = np.where(column >= 0, column_place[column], -1).astype(np.int32)
    return Matching(
        candidates=row_place[matching.candidates[kept]],
        column=column,
        similarity=matching.similarity[kept],
        truth_ignored=matching.truth_ignored[columns],
        outside=matching.outside[rows],
        unseen=matching.unseen[columns],
    )


def _pairs(pairs: Pairs, row_place: np.ndarray, column_place: np.ndarray) -> Pairs:
    kept = np.flatnonzero(row_place[pairs.rows] >= 0)
    return Pairs(
        row_place[pairs.rows[kept]], column_place[pairs.columns[kept]], pairs.similarity[kept]
    )
