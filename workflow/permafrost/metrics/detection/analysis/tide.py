"""Average precision lost to each kind of error (after Bolya et al., TIDE).

Every false alarm is of one kind, by its similarity s to the best truth of its category and c to
the best truth of any other category, at the thresholds `match` and `near`:

| kind         | condition                    | the error is corrected by           |
|--------------|------------------------------|-------------------------------------|
| duplicate    | s >= match                   | removing the detection              |
| category     | else c >= match              | giving it the other truth's category|
| localisation | else s >= near and s >= c    | giving it the truth's geometry      |
| both         | else c >= near               | removing it                         |
| background   | else                         | removing it                         |
| missed       | truths without a match       | ignoring the truth                  |

Each kind is corrected alone, then matching and counting run again. A gain may be negative: a
detection with a new category can displace another one. Only detections within the caps of the
evaluation count, as in the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.analysis.confusion import capped_problem, check_categories, pooled
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.evaluate import solve
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.inputs.tables import rows_of
from permafrost.metrics.detection.kernels import Problem, make_kernel
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.pairs import Similarity
from permafrost.metrics.detection.summarise import Statistic

KINDS = ("category", "localisation", "both", "duplicate", "background", "missed")
MATCH, NEAR, NEAR_BOUNDARY = 0.5, 0.1, 0.05


@dataclass(frozen=True)
class ErrorKinds:
    """Gain in average precision from correcting one kind of error.

    Attributes
    ----------
    precision : average precision without corrections, over the thresholds of the evaluation.
    gain : kind of error to the gain.
    no_false_alarms : the gain if all false alarms were removed.
    counts : kind of error to the number of such detections (or truths).
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
    # all masks are decoded: their encoded text is no longer needed
    problem = replace(problem, detections=replace(problem.detections, segmentations=None))
    # average precision needs only the area range `all` and the largest cap
    whole = replace(evaluation, problem=problem, axes=_headline(evaluation.axes))
    found = pooled(evaluation, problem, near)
    known = None
    # similarities below `near` are unknown: they are reused only if no threshold is that low
    if whole.axes.thresholds.min() >= near:
        known = _Known.of(found)
    before = _precision(whole, problem, known)
    sorted_errors = _sort(evaluation, problem, found, match, near)
    gain = {
        kind: _precision(whole, *_mended(problem, sorted_errors, kind, known)) - before
        for kind in KINDS
    }
    alarms = np.concatenate([sorted_errors[kind] for kind in KINDS if kind != "missed"])
    return ErrorKinds(
        precision=before,
        gain=gain,
        no_false_alarms=_precision(whole, *_without(problem, alarms, known)) - before,
        counts={kind: len(sorted_errors[kind]) for kind in KINDS},
    )


def _headline(axes: Axes) -> Axes:
    at = axes.area_index("all")
    return replace(axes, area_names=("all",), areas=axes.areas[[at]], max_dets=axes.max_dets[-1:])


def _precision(evaluation: Evaluation, problem: Problem, known: _Known | None) -> float:
    solved = solve(problem, evaluation.settings, evaluation.axes, (), kernel=known)
    return solved.value(Statistic("AP", "precision", None, "all", evaluation.axes.max_dets[-1]))


@dataclass(frozen=True)
class _Known:
    """A kernel that looks similarities up; 0 for unknown pairs.

    Attributes
    ----------
    iou_type : name of the kernel.
    keys, likeness : (P,) detection * truths + truth of the known pairs, ascending, and their similarity.
    truths : number of truths.
    rows : (D,) position of every detection in the original table.
    kernel : gives extents, and the similarities of moved detections.
    moved : (D,) bool: detections whose geometry changed, so that the kernel must compare them.
    """

    iou_type: str
    keys: np.ndarray
    likeness: np.ndarray
    truths: int
    rows: np.ndarray
    kernel: Similarity
    moved: np.ndarray

    @classmethod
    def of(cls, found: Evaluation) -> _Known:
        """All pairs of an evaluation."""
        cells, pairs, truths = found.cells, found.pairs, len(found.truths)
        keys = cells.detections[pairs.rows] * truths + cells.truths[pairs.columns]
        order = np.argsort(keys)
        count = len(found.detections)
        kind = found.settings.iou_type
        kernel = make_kernel(kind, found.problem)
        everyone, nobody = np.arange(count), np.zeros(count, bool)
        likeness = pairs.similarity[order]
        return cls(kind, keys[order], likeness, truths, everyone, kernel, nobody)

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> None:
        """None: a look-up is as cheap as a bound."""

    def extents(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The extents of the kernel."""
        extents = self.kernel.extents()
        # a kernel made after moving has the present detections, any other the original ones
        if extents is None or self.moved.any():
            return extents
        return extents[0][self.rows], extents[1]

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) similarity."""
        out = np.zeros(len(detections))
        if len(self.keys):
            wanted = self.rows[detections] * self.truths + truths
            place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            out = np.where(self.keys[place] == wanted, self.likeness[place], 0.0)
        moved = np.flatnonzero(self.moved[detections])
        if moved.size:
            out[moved] = self.kernel.exact(detections[moved], truths[moved])
        return out


def _sort(
    evaluation: Evaluation, problem: Problem, found: Evaluation, match: float, near: float
) -> dict:
    """Rows of the problem's tables per kind, and the truth that corrects each (``… truth``)."""
    at, area = evaluation.axes.threshold_index(match), evaluation.axes.area_index("all")
    cells, matching = evaluation.cells, evaluation.matching
    # rows of the capped table, which keeps the order of the file
    row = np.empty(len(cells.detections), np.int64)
    row[np.argsort(cells.detections)] = np.arange(len(row))
    false = (matching.matched(area, at) < 0) & ~matching.ignored(area, at)
    alarm = np.zeros(len(row), bool)
    alarm[row[false]] = True
    best = _best_partners(found, problem)
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
    """(D,) similarity to, and row of, the best truth of the same and of any other category.

    Ignored truths are no partners, since they correct nothing.
    """
    pairs = found.pairs
    detection, truth = found.cells.detections[pairs.rows], found.cells.truths[pairs.columns]
    regular = ~problem.truths.ignored[truth]
    same = problem.detections.category[detection] == problem.truths.category[truth]
    out = []
    for chosen in (regular & same, regular & ~same):
        likeness = np.zeros(len(problem.detections))
        partner = np.full(len(problem.detections), -1)
        # pairs of a detection ascend by similarity: the last assignment is the best
        likeness[detection[chosen]] = pairs.similarity[chosen]
        partner[detection[chosen]] = truth[chosen]
        out += [likeness, partner]
    return out


def _mended(
    problem: Problem, errors: dict, kind: str, known: _Known | None
) -> tuple[Problem, _Known | None]:
    """The problem without one kind of error, and its known similarities."""
    rows = errors[kind]
    if kind == "missed":
        ignored = problem.truths.ignored.copy()
        ignored[rows] = True
        return replace(problem, truths=replace(problem.truths, ignored=ignored)), known
    if kind == "category":
        category = problem.detections.category.copy()
        category[rows] = problem.truths.category[errors["category truth"]]
        return replace(problem, detections=replace(problem.detections, category=category)), known
    if kind == "localisation":
        problem = _relocated(problem, rows, errors["localisation truth"])
        if known is None or not len(rows):
            return problem, known
        moved = np.zeros(len(problem.detections), bool)
        moved[rows] = True
        kernel = make_kernel(known.iou_type, problem)
        return problem, replace(known, kernel=kernel, moved=moved)
    return _without(problem, rows, known)


def _relocated(problem: Problem, rows: np.ndarray, truths: np.ndarray) -> Problem:
    """Detections `rows` with the geometry of `truths`."""
    detections = problem.detections
    boxes, areas = detections.boxes.copy(), detections.areas.copy()
    boxes[rows], areas[rows] = problem.truths.boxes[truths], problem.truths.areas[truths]
    detections = replace(detections, boxes=boxes, areas=areas)
    if detections.corners is not None:
        corners = detections.corners.copy()
        corners[rows] = problem.truths.corners[truths]
        detections = replace(detections, corners=corners)
    masks = problem.detection_masks
    if masks is not None:
        source = np.arange(len(masks))
        source[rows] = len(masks) + truths
        masks = Masks.joined([masks, problem.truth_masks]).take(source)
    return replace(problem, detections=detections, detection_masks=masks)


def _without(
    problem: Problem, rows: np.ndarray, known: _Known | None
) -> tuple[Problem, _Known | None]:
    kept = np.setdiff1d(np.arange(len(problem.detections)), rows)
    masks = problem.detection_masks
    problem = replace(
        problem,
        detections=rows_of(problem.detections, kept),
        detection_masks=None if masks is None else masks.take(kept),
    )
    if known is not None:
        known = replace(known, rows=kept, moved=known.moved[kept])
    return problem, known
