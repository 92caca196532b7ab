"""Greedy matching of detections to truths, for all cells, area ranges and thresholds at once.

The rule is pycocotools': in descending score, each detection matches the best free truth. Truths that
count come before ignored ones; ties go to the later truth; a crowd can be matched many times.
Detections without a common candidate truth do not affect each other. So each round matches all
detections that have the highest score at each of their candidates. The number of rounds is the
largest number of detections at a truth, not the number of all detections.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.pairs import Pairs
from permafrost.metrics.detection.ragged import in_blocks

# pairs times lanes processed at once
_BLOCK = 1 << 17
_REGULAR = 1 << 30


@dataclass(frozen=True)
class Matching:
    """The matched pairs, from which all counts follow.

    Rows (detections) and columns (truths) are those of `Cells`.

    Attributes
    ----------
    candidates : (C,) rows that have at least one pair, ascending. All others match nothing.
    column : (C, A, T) int32: the matched column, -1 for none.
    similarity : (C, A, T) float64: similarity to it, 0 for none.
    truth_ignored : (G, A) bool.
    outside : (D, A) bool: the detection does not count if unmatched, as its area is out of range (or, in
        LVIS, its category is not fully annotated in the image).
    unseen : (G,) bool: truths whose matches do not count as matches (strict mode's id 0).
    """

    candidates: np.ndarray
    column: np.ndarray
    similarity: np.ndarray
    truth_ignored: np.ndarray
    outside: np.ndarray
    unseen: np.ndarray

    def hits(self) -> np.ndarray:
        """(C, A, T) bool: true positives."""
        return self.outcomes()[0]

    def excused(self) -> np.ndarray:
        """(C, A, T) bool: detections that do not count since they matched an ignored truth."""
        return self.outcomes()[1]

    def outcomes(self) -> tuple[np.ndarray, np.ndarray]:
        """`hits` and `excused`, which need the same partners."""
        matched = self.column >= 0
        # the last truth for no partner; it is not asked
        ignored = self.truth_ignored[self.column, np.arange(self.column.shape[1])[:, None]]
        return self._taken() & ~ignored, matched & ignored

    def matched(self, area: int, threshold: int) -> np.ndarray:
        """(D,) column matched by each row, -1 for none."""
        out = np.full(len(self.outside), -1, np.int64)
        out[self.candidates] = self.column[:, area, threshold]
        return out

    def truth_matched(self, area: int, threshold: int) -> np.ndarray:
        """(G,) row that matched each column (the first one for a crowd), -1 for none."""
        taken = self.column[:, area, threshold]
        rows = np.flatnonzero(taken >= 0)[::-1]
        out = np.full(len(self.truth_ignored), -1, np.int64)
        out[taken[rows]] = self.candidates[rows]
        return out

    def ignored(self, area: int, threshold: int) -> np.ndarray:
        """(D,) bool: detections that count neither as hits nor as false alarms."""
        out = self.outside[:, area].copy()
        taken = self._taken()[:, area, threshold]
        excused = self.excused()[:, area, threshold]
        out[self.candidates] = np.where(taken, excused, excused | out[self.candidates])
        return out

    def _taken(self) -> np.ndarray:
        taken = self.column >= 0
        return taken & ~self.unseen[self.column] if self.unseen.any() else taken


def match(
    cells: Cells,
    pairs: Pairs,
    thresholds: np.ndarray,
    *,
    truth_ignored: np.ndarray,
    crowd: np.ndarray,
    outside: np.ndarray,
    unseen: np.ndarray | None = None,
) -> Matching:
    """Match all cells.

    Parameters
    ----------
    pairs : result of `find_pairs` for the lowest threshold.
    thresholds : (T,) least similarity of a match; above 1 - 1e-10 they are reduced to this.
    truth_ignored : (G, A) bool.
    crowd : (G,) bool: may be matched many times.
    outside, unseen : as in `Matching`.
    """
    needed = np.minimum(thresholds, 1 - 1e-10)
    starts = np.flatnonzero(np.diff(pairs.rows, prepend=-1))
    candidates = pairs.rows[starts]
    lanes = truth_ignored.shape[1] * len(thresholds)
    column = np.full((len(candidates), lanes), -1, np.int32)
    similarity = np.zeros((len(candidates), lanes))
    state = _State(pairs, needed, truth_ignored, crowd)
    for ready, which in _rounds(pairs, starts, crowd, len(truth_ignored)):
        # `ready` are positions of all pairs of some detections; `which` are their candidates
        sizes = np.diff(
            np.append(np.flatnonzero(np.diff(pairs.rows[ready], prepend=-1)), len(ready))
        )
        done, place = 0, 0
        for block in in_blocks(sizes, max(1, _BLOCK // lanes)):
            width = int(sizes[block].sum())
            state.take(ready[place : place + width], sizes[block], which[block], column, similarity)
            place += width
            done += block.stop - block.start
    shape = (len(candidates), truth_ignored.shape[1], len(thresholds))
    return Matching(
        candidates=candidates,
        column=column.reshape(shape),
        similarity=similarity.reshape(shape),
        truth_ignored=truth_ignored,
        outside=outside,
        unseen=np.zeros(len(crowd), bool) if unseen is None else unseen,
    )


def _rounds(pairs: Pairs, starts: np.ndarray, crowd: np.ndarray, columns: int):
    """Yield pairs and candidates that can be matched at once, so that the order at each truth is kept."""
    at = np.arange(len(pairs))
    which = np.arange(len(starts))
    first = np.empty(columns, np.int64)
    while at.size:
        rows, cols = pairs.rows[at], pairs.columns[at]
        # rows are assigned in descending order, and the last one wins: the best row of each truth
        first[cols[::-1]] = rows[::-1]
        free = (first[cols] == rows) | crowd[cols]
        begin = np.flatnonzero(np.diff(rows, prepend=-1))
        go = np.logical_and.reduceat(free, begin)
        sizes = np.diff(np.append(begin, len(at)))
        chosen = np.repeat(go, sizes)
        yield at[chosen], which[go]
        at, which = at[~chosen], which[~go]


class _State:
    """The matched truths per lane; lanes are area ranges times thresholds."""

    def __init__(self, pairs: Pairs, needed, truth_ignored, crowd) -> None:
        self.pairs, self.crowd = pairs, crowd
        areas = truth_ignored.shape[1]
        self.needed = np.tile(needed, areas)
        # truths that count are preferred to all ignored ones
        self.bonus = np.repeat(
            np.where(truth_ignored, 0, _REGULAR).astype(np.int32), len(needed), axis=1
        )
        self.taken = np.zeros((len(truth_ignored), areas * len(needed)), bool)

    def take(self, at, sizes, which, column, similarity) -> None:
        """Match detections, each with all its pairs in `at`."""
        columns = self.pairs.columns[at]
        likeness = self.pairs.similarity[at]
        possible = likeness[:, None] >= self.needed
        possible &= ~self.taken[columns]
        # pairs of a detection ascend by similarity and column, so the last possible is the best
        place = np.arange(1, len(at) + 1, dtype=np.int32)
        value = np.where(possible, self.bonus[columns] + place[:, None], 0)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        best = np.maximum.reduceat(value, starts, axis=0)
        row, lane = np.nonzero(best)
        pair = (best[row, lane] & (_REGULAR - 1)) - 1
        chosen = columns[pair]
        column[which[row], lane] = chosen
        similarity[which[row], lane] = likeness[pair]
        single = ~self.crowd[chosen]
        self.taken[chosen[single], lane[single]] = True
