"""A training set for searches and distances: in memory if small, read in blocks if large."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permafrost.probes.knn import rows as blocks
from permafrost.probes.knn.distances import TrueDistances, distances_in_order
from permafrost.probes.knn.rows import Rows

#: bytes of float32 rows in a FAISS index; a train set of at most this size is small
INDEX_BYTES = 128 * 2**20
#: bytes of queries and their candidates that are compared with a large train set at once
QUERY_BYTES = 256 * 2**20


class TrainRows:
    """Rows of a training set, and float64 distances to them.

    Whether a set is small depends only on its shape, so that an array and a file give identical results.

    Parameters
    ----------
    source : (N, d) array or `RowFile`.
    metric : "l2" or "cosine", whose rows have length 1 (or 0).

    Attributes
    ----------
    rows : the rows, an array for small sets, else an array-like.
    kept : ascending indices of the source's rows in `rows`; None: all.
    small : whether the set is in memory.
    """

    def __init__(self, source, metric: str) -> None:
        self.source, self.metric, self.kept = source, metric, None
        self.small = 4 * source.shape[1] * len(source) <= INDEX_BYTES
        self._set(Rows(source, metric))

    def _set(self, rows) -> None:
        self.rows = rows[:] if self.small else rows
        self._true = TrueDistances(self.rows, self.metric)

    def leave_out(self, kept: np.ndarray) -> None:
        """Keep only the rows with these ascending indices."""
        if len(kept) < len(self.rows):
            self.kept = kept
            self._set(self.rows[kept] if self.small else Rows(self.source, self.metric, kept))

    def numbers(self, found: np.ndarray) -> np.ndarray:
        """Convert indices into `rows` to indices of the source, in place."""
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
        """Number of queries with `count` candidates each that are compared at once."""
        width = self.source.shape[1]
        if self.small:
            return blocks.HELD // max(count, width)
        return QUERY_BYTES // (12 * width + 40 * count)


def in_steps(count: int, step: int) -> Iterator[slice]:
    """Slices of `count` items with `step` items each (at least one)."""
    step = max(1, step)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
