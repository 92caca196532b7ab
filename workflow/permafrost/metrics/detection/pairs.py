"""Pairs of a detection and a truth of one cell that are alike enough to match at some threshold.

All pairs of all cells are visited in one flat pass, in blocks that bound memory; of huge cells, only
those whose boxes may meet. A pair below the lowest threshold can never match, so only the others are
kept; they are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from permafrost.metrics.detection.candidates import candidate_pairs
from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.ragged import in_blocks, spans

# pairs visited together
_BLOCK = 1 << 16
# pairs of a cell from which on only those that may meet are visited
_HUGE = 1 << 16
# what rounding may add to an upper bound
_SLACK = 1e-9


class Similarity(Protocol):
    """What a kernel offers: how alike detections and truths are, row by row."""

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray | None:
        """(P,) cheap upper bounds of `exact`, or None where there are none."""

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) similarities of detections and truths given by their positions in the tables."""

    def extents(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Boxes (x, y, width, height) of all detections and truths, where no two are alike at all
        whose boxes have no common area; None where there are no such boxes."""


@dataclass(frozen=True)
class Pairs:
    """P pairs, ascending by row of `Cells`, and within a row by likeness, then by column.

    The best partner of a detection among any of its candidates is thus the last of them: of equally
    good truths, the later one.

    Attributes
    ----------
    rows, columns : (P,) places in `Cells`.
    similarity : (P,) float64.
    """

    rows: np.ndarray
    columns: np.ndarray
    similarity: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def find_pairs(cells: Cells, kernel: Similarity, lowest: float) -> Pairs:
    """All pairs at least `lowest` alike."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    extents = kernel.extents() if lowest > 0 else None
    for rows, columns in iterate_pairs(cells, extents):
        detections, truths = cells.detections[rows], cells.truths[columns]
        bound = kernel.bound(detections, truths)
        if bound is not None:
            likely = np.flatnonzero(bound >= lowest - _SLACK)
            rows, columns = rows[likely], columns[likely]
            detections, truths = detections[likely], truths[likely]
        similarity = kernel.exact(detections, truths)
        alike = np.flatnonzero(similarity >= lowest)
        parts.append((rows[alike], columns[alike], similarity[alike]))
    rows, columns, similarity = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((columns, similarity, rows))
    return Pairs(rows[order], columns[order], similarity[order])


def iterate_pairs(cells: Cells, extents: tuple[np.ndarray, np.ndarray] | None = None):
    """Blocks of (rows, columns) of all pairs, ascending by row, then by column.

    With `extents`, see `Similarity`, pairs of huge cells come last, in any order, and only those
    whose boxes may meet.
    """
    busy = np.flatnonzero(cells.count)
    if extents is not None:
        # rows of a cell have their first column in common
        first, rows = np.unique(cells.first[busy], return_inverse=True)
        huge = (np.bincount(rows, minlength=len(first))[rows] * cells.count[busy]) > _HUGE
        busy, crowded = busy[~huge], busy[huge]
    count, first = cells.count[busy], cells.first[busy]
    for block in in_blocks(count, _BLOCK):
        yield np.repeat(busy[block], count[block]), spans(first[block], count[block])
    if extents is not None:
        yield from _crowded_pairs(cells, crowded, extents)


def _crowded_pairs(cells: Cells, busy: np.ndarray, extents: tuple[np.ndarray, np.ndarray]):
    """Pairs that may meet of the rows `busy`, cell by cell."""
    begin = np.flatnonzero(np.diff(cells.first[busy], prepend=-1))
    for rows in np.split(busy, begin[1:]) if len(busy) else ():
        columns = np.arange(cells.first[rows[0]], cells.first[rows[0]] + cells.count[rows[0]])
        detected, true = extents[0][cells.detections[rows]], extents[1][cells.truths[columns]]
        for i, j in candidate_pairs(detected, true, _BLOCK):
            yield rows[i], columns[j]
