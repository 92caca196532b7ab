"""What became of detections and truths at the score with the best F1, for pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.evaluators.intervals.counts import best_score, counted_at
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.objects.overlaps import find_pairs

#: a false alarm or a miss is suspected if no box of the other side overlaps it with this IoU
LONELY = 0.1


@dataclass(frozen=True)
class Outcomes:
    """What became of detections and truths, at an IoU of 0.5 (or else the least evaluated one).

    Attributes
    ----------
    names : of the images, in the order of the evaluation.
    key : what the ids of truths and detections are.
    """

    evaluation: Evaluation
    names: Sequence[str]
    key: str = "id"

    @cached_property
    def at(self) -> tuple[int, int]:
        """Positions of the area range and of the IoU threshold."""
        return counted_at(self.evaluation)

    @property
    def iou(self) -> float:
        return float(self.evaluation.axes.thresholds[self.at[1]])

    @cached_property
    def best(self) -> float:
        """The score with the best F1; infinite without a detection that counts."""
        return best_score(self.evaluation)

    @property
    def rule(self) -> str:
        """Which detections count where a score is needed."""
        if not np.isfinite(self.best):
            return "no detection counts"
        return f"detections count that score at least {self.best:.4g}, where F1 is best"

    @cached_property
    def scores(self) -> np.ndarray:
        """(D,) scores of the rows of `Cells`."""
        return self.evaluation.detections.scores[self.evaluation.cells.detections]

    @cached_property
    def hit(self) -> np.ndarray:
        """(D,) bool: right detections, whatever their score."""
        matching = self.evaluation.matching
        hit = np.zeros(len(self.scores), bool)
        hit[matching.candidates] = matching.hits()[:, self.at[0], self.at[1]]
        return hit

    @cached_property
    def counts(self) -> np.ndarray:
        """(D,) bool: detections that count as right or wrong."""
        return ~self.evaluation.matching.ignored(*self.at)

    @cached_property
    def regular(self) -> np.ndarray:
        """(G,) bool: truths to be found, in the columns of `Cells`."""
        return ~self.evaluation.matching.truth_ignored[:, self.at[0]]

    @cached_property
    def at_best(self) -> dict[str, np.ndarray]:
        """Positions of ``hits`` and ``alarms`` among the detections that reach the best score, and of ``found`` and
        ``missed`` truths and those not counted (``uncounted``)."""
        cells, kept = self.evaluation.cells, self.scores >= self.best
        hits = self.hit & kept
        found = np.zeros(len(cells.truths), bool)
        found[self.evaluation.matching.matched(*self.at)[hits]] = True
        return {
            "hits": cells.detections[hits],
            "alarms": cells.detections[kept & self.counts & ~self.hit],
            "excused": cells.detections[kept & ~self.counts],
            "found": cells.truths[found & self.regular],
            "missed": cells.truths[~found & self.regular],
            "uncounted": cells.truths[~self.regular],
        }

    def per_image(self, kind: str) -> np.ndarray:
        """(I,) how many of a kind of `at_best` are in each image."""
        table = self.table(kind)
        return np.bincount(table.image[self.at_best[kind]], minlength=len(self.names))

    def table(self, kind: str):
        """The detections or truths that a kind of `at_best` indexes."""
        detected = kind in ("hits", "alarms", "excused")
        return self.evaluation.detections if detected else self.evaluation.truths

    def corners(self, kind: str, image: int) -> np.ndarray:
        """(N, 4) boxes xmin, ymin, xmax, ymax of a kind in an image; a truth without a box is left out."""
        table, rows = self.table(kind), self.at_best[kind]
        return corners_of(table.boxes[rows[table.image[rows] == image]])


def corners_of(boxes: np.ndarray) -> np.ndarray:
    """Boxes of x, y, width, height as corners; those with an undefined number are left out."""
    boxes = boxes[np.isfinite(boxes).all(axis=1)].reshape(-1, 4)
    return np.hstack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]])


def lonely(outcomes: Outcomes, kind: str, others) -> np.ndarray:
    """Positions of a kind of `Outcomes.at_best` whose boxes overlap those of `others` by less than `LONELY`."""
    table, rows = outcomes.table(kind), outcomes.at_best[kind]
    rows = rows[np.isfinite(table.boxes[rows]).all(axis=1)]
    alone = np.ones(len(rows), bool)
    for image in np.unique(table.image[rows]).tolist():
        own = np.flatnonzero(table.image[rows] == image)
        near = corners_of(others.boxes[others.image == image])
        pairs = find_pairs("box", corners_of(table.boxes[rows[own]]), near)
        alone[own[pairs.first[pairs.iou >= LONELY]]] = False
    return rows[alone]
