"""A training set as searches and distances use it: held where it is small, read in blocks where it is large."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permafrost.probes.knn import rows as blocks
from permafrost.probes.knn.distances import TrueDistances, distances_in_order
from permafrost.probes.knn.rows import Rows

#: float32 rows in an index of FAISS; a train set of no more is small
INDEX_BYTES = 128 * 2**20
#: queries and their candidates that go through a large train set together
QUERY_BYTES = 256 * 2**20


class TrainRows:
    """Rows of a training set, and true distances to them.

    Which sets are small follows from their shape alone, so that an array and a file give the same bits.

    Parameters
    ----------
    source : (N, d) array or `RowFile`.
    metric : "l2" or "cosine", whose rows have length 1 (or 0).

    Attributes
    ----------
    rows : what can be read as an array; of small sets it is one.
    kept : ascending numbers of the rows in it; None: all.
    small : whether it is held.
    """

    def __init__(self, source, metric: str) -> None:
        self.source, self.metric, self.kept = source, metric, None
        self.small = 4 * source.shape[1] * len(source) <= INDEX_BYTES
        self._set(Rows(source, metric))

    def _set(self, rows) -> None:
        self.rows = rows[:] if self.small else rows
        self._true = TrueDistances(self.rows, self.metric)

    def leave_out(self, kept: np.ndarray) -> None:
        """Go on with some of all rows, of these ascending numbers."""
        if len(kept) < len(self.rows):
            self.kept = kept
            self._set(self.rows[kept] if self.small else Rows(self.source, self.metric, kept))

    def numbers(self, found: np.ndarray) -> np.ndarray:
        """Numbers of the source for those of `rows`, in the same array."""
        if self.kept is not None:
            for some in in_steps(len(found), blocks.HELD // found.shape[1]):
                found[some] = self.kept[found[some]]
        return found

    def distances(self, queries: np.ndarray, found: np.ndarray) -> np.ndarray:
        """(m, c) float64 distances from (m, d) queries, of length 1 (or 0) for cosine, to (m, c) rows."""
        if self.small:
            return self._true.to(queries, found)
        return distances_in_order(self.rows, queries, found, self.metric)

    def at_once(self, count: int) -> int:
        """Queries with `count` candidates that are compared together."""
        width = self.source.shape[1]
        if self.small:
            return blocks.HELD // max(count, width)
        return QUERY_BYTES // (12 * width + 40 * count)


def in_steps(count: int, step: int) -> Iterator[slice]:
    """Slices of `count` things, of `step` each (of one at least)."""
    step = max(1, step)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
