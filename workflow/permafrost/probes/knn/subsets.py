"""Nearest neighbours in many subsets of train, which share one search where they can."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permafrost.core.joined_rows import JoinedRows
from permafrost.core.row_file import RowFile
from permafrost.probes.knn.search import neighbours

REACH = 16  # neighbours in the shared list, in multiples of k
ENOUGH = 2  # the list is used where so many multiples of k of a subset are to be expected in it


class SubsetNeighbours:
    """Searches for the same queries in subsets of one training set; results are those of `neighbours`.

    The nearest of a subset are the first of its members in the list of the nearest of all. That list is
    made once, and a query that has too few members in it is searched for in the subset itself; so is
    every query of a small subset, where a search of its own costs little.

    Parameters
    ----------
    train_x, queries : (N, d), (M, d) features: arrays, `RowFile`s or `JoinedRows`. Of a subset that is searched by
        itself, all rows are held.
    k : the most neighbours that will be asked for.
    """

    def __init__(self, train_x, queries, k: int, *, metric: str, device: str = "cpu") -> None:
        self.train, self.queries = _rows(train_x), _rows(queries)
        self.k, self.search = k, {"metric": metric, "device": device}

    @cached_property
    def _listed(self) -> np.ndarray:
        count = min(len(self.train), REACH * self.k)
        return neighbours(self.train, self.queries, count, **self.search)

    def find(self, rows: np.ndarray, queries: np.ndarray | None = None) -> np.ndarray:
        """(Q, min(k, R)) row numbers of train, the nearest first, equals by ascending row.

        Parameters
        ----------
        rows : (R,) ascending row numbers of the subset.
        queries : (Q,) numbers of the queries; all of them by default.
        """
        queries = np.arange(len(self.queries)) if queries is None else queries
        k = min(self.k, len(rows))
        # of REACH k rows of the list, a share of R / N is expected to be in the subset
        if REACH * len(rows) < ENOUGH * len(self.train):
            return self._directly(rows, queries, k)
        member = np.zeros(len(self.train), bool)
        member[rows] = True
        listed = self._listed[queries]
        inside = member[listed]
        first = np.argsort(~inside, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(listed, first, axis=1)
        few = np.flatnonzero(inside.sum(axis=1) < k)
        if len(few):
            found[few] = self._directly(rows, queries[few], k)
        return found

    def _directly(self, rows, queries, k: int) -> np.ndarray:
        found = neighbours(self.train[rows], self.queries[queries], k, **self.search)
        return rows[found]


def _rows(features):
    return features if isinstance(features, (RowFile, JoinedRows)) else np.asarray(features)
