"""What kinds of errors cost average precision (after Bolya et al., TIDE).

Every false alarm is of one kind, by its likeness s to the best truth of its own category and c to
the best of any other, at the thresholds `match` and `near`:

| kind         | condition                    | the error is mended by              |
|--------------|------------------------------|-------------------------------------|
| duplicate    | s >= match                   | leaving the detection out           |
| category     | else c >= match              | giving it the other truth's category|
| localisation | else s >= near and s >= c    | giving it the truth's geometry      |
| both         | else c >= near               | leaving it out                      |
| background   | else                         | leaving it out                      |
| missed       | truths that nothing matched  | ignoring the truth                  |

Each kind is mended alone, and everything matched and counted again. A difference may be negative: a
detection with a new category can push another one out. Detections are those that the caps of the
evaluation left, here and in the scores alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError

from ..axes import Axes
from ..evaluate import solve
from ..evaluation import Evaluation
from ..inputs.tables import rows_of
from ..kernels import Problem
from ..masks.runs import Masks
from ..summarise import Statistic
from .pooled import capped_problem, check_categories, pooled

KINDS = ("category", "localisation", "both", "duplicate", "background", "missed")
MATCH, NEAR, NEAR_BOUNDARY = 0.5, 0.1, 0.05


@dataclass(frozen=True)
class ErrorKinds:
    """Gains in average precision if one kind of error did not occur.

    Attributes
    ----------
    precision : average precision as it is, over the thresholds of the evaluation.
    gain : kind of error to the gain.
    no_false_alarms : the gain if no detection were a false alarm.
    counts : kind of error to the number of detections (or truths) of it.
    """

    precision: float
    gain: dict[str, float]
    no_false_alarms: float
    counts: dict[str, int]


def error_kinds(
    evaluation: Evaluation, *, match: float = MATCH, near: float | None = None
) -> ErrorKinds:
    """Sort the errors at threshold `match`, which must have been evaluated, into kinds."""
    settings = evaluation.settings
    check_categories(evaluation, "the sorting of errors")
    if settings.lvis or settings.iou_type == "keypoints":
        raise PermafrostError(
            "errors are not sorted for keypoints and LVIS, for which the kinds are not defined",
            where="iou_type" if not settings.lvis else "lvis",
        )
    if near is None:
        near = NEAR_BOUNDARY if settings.iou_type == "boundary" else NEAR
    if not 0 < near < match <= 1:
        raise PermafrostError(f"needs 0 < near < match <= 1, not {near} and {match}", where="near")
    problem = capped_problem(evaluation)
    # all masks are read: their text need not be carried along
    problem = replace(problem, detections=replace(problem.detections, segmentations=None))
    # all sizes and the largest cap are all that average precision is read from
    whole = replace(evaluation, problem=problem, axes=_headline(evaluation.axes))
    before = _precision(whole, problem)
    sorted_errors = _sort(evaluation, problem, match, near)
    gain = {
        kind: _precision(whole, _mended(problem, sorted_errors, kind)) - before for kind in KINDS
    }
    alarms = np.concatenate([sorted_errors[kind] for kind in KINDS if kind != "missed"])
    return ErrorKinds(
        precision=before,
        gain=gain,
        no_false_alarms=_precision(whole, _without(problem, alarms)) - before,
        counts={kind: len(sorted_errors[kind]) for kind in KINDS},
    )


def _headline(axes: Axes) -> Axes:
    at = axes.area_index("all")
    return replace(axes, area_names=("all",), areas=axes.areas[[at]], max_dets=axes.max_dets[-1:])


def _precision(evaluation: Evaluation, problem: Problem) -> float:
    solved = solve(problem, evaluation.settings, evaluation.axes, ())
    return solved.value(Statistic("AP", "precision", None, "all", evaluation.axes.max_dets[-1]))


def _sort(evaluation: Evaluation, problem: Problem, match: float, near: float) -> dict:
    """Rows of the problem's tables per kind, and the truth that mends each (``… truth``)."""
    at, area = evaluation.axes.threshold_index(match), evaluation.axes.area_index("all")
    cells, matching = evaluation.cells, evaluation.matching
    # rows of the capped table, which keeps the order of the file
    row = np.empty(len(cells.detections), np.int64)
    row[np.argsort(cells.detections)] = np.arange(len(row))
    false = (matching.matched(area, at) < 0) & ~matching.ignored(area, at)
    alarm = np.zeros(len(row), bool)
    alarm[row[false]] = True
    best = _best_partners(pooled(evaluation, problem, near), problem)
    own, own_truth, other, other_truth = best
    kind = np.select(
        [own >= match, other >= match, (own >= near) & (own >= other), other >= near],
        ["duplicate", "category", "localisation", "both"],
        "background",
    )
    errors = {name: np.flatnonzero(alarm & (kind == name)) for name in KINDS if name != "missed"}
    taken = matching.truth_matched(area, at) >= 0
    missed = ~taken & ~matching.truth_ignored[:, area]
    errors["missed"] = cells.truths[missed]
    errors["category truth"] = other_truth[errors["category"]]
    errors["localisation truth"] = own_truth[errors["localisation"]]
    return errors


def _best_partners(found: Evaluation, problem: Problem):
    """(D,) likeness to, and row of, the best truth of the own and of any other category.

    Truths that are ignored mend nothing and are no partners.
    """
    pairs = found.pairs
    detection, truth = found.cells.detections[pairs.rows], found.cells.truths[pairs.columns]
    regular = ~problem.truths.ignored[truth]
    same = problem.detections.category[detection] == problem.truths.category[truth]
    out = []
    for chosen in (regular & same, regular & ~same):
        likeness = np.zeros(len(problem.detections))
        partner = np.full(len(problem.detections), -1)
        # pairs of a detection ascend by likeness: the last assignment is the best
        likeness[detection[chosen]] = pairs.similarity[chosen]
        partner[detection[chosen]] = truth[chosen]
        out += [likeness, partner]
    return out


def _mended(problem: Problem, errors: dict, kind: str) -> Problem:
    rows = errors[kind]
    if kind == "missed":
        ignored = problem.truths.ignored.copy()
        ignored[rows] = True
        return replace(problem, truths=replace(problem.truths, ignored=ignored))
    if kind == "category":
        category = problem.detections.category.copy()
        category[rows] = problem.truths.category[errors["category truth"]]
        return replace(problem, detections=replace(problem.detections, category=category))
    if kind == "localisation":
        return _relocated(problem, rows, errors["localisation truth"])
    return _without(problem, rows)


def _relocated(problem: Problem, rows: np.ndarray, truths: np.ndarray) -> Problem:
    """Detections `rows` with the geometry of `truths`."""
    detections = problem.detections
    boxes, areas = detections.boxes.copy(), detections.areas.copy()
    boxes[rows], areas[rows] = problem.truths.boxes[truths], problem.truths.areas[truths]
    masks = problem.detection_masks
    if masks is not None:
        source = np.arange(len(masks))
        source[rows] = len(masks) + truths
        masks = Masks.joined([masks, problem.truth_masks]).take(source)
    return replace(
        problem, detections=replace(detections, boxes=boxes, areas=areas), detection_masks=masks
    )


def _without(problem: Problem, rows: np.ndarray) -> Problem:
    keep = np.ones(len(problem.detections), bool)
    keep[rows] = False
    masks = problem.detection_masks
    return replace(
        problem,
        detections=rows_of(problem.detections, keep),
        detection_masks=None if masks is None else masks.take(np.flatnonzero(keep)),
    )
