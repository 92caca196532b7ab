"""The k nearest rows in double precision, for queries whose neighbours are uncertain in single precision.

Train is read once for many queries. A product of matrices selects the rows that may be among the k nearest of a query.
Their distances are computed from differences, and the k nearest so far are kept. So memory depends neither on
the number of rows nor on how many of them are at nearly the same distance.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permafrost.probes.knn import rows as blocks
from permafrost.probes.knn.distances import DOUBLE, PAIRED_VALUES, of_pairs

CROWDED = 8  # if k plus this many rows may be near, the reach is first reduced by products


class ExactNeighbours:
    """Exact search in one training set.

    Parameters
    ----------
    train : (N, d) features, read in slices; rows of length 1 (or 0) for cosine.
    mean : subtracted before products, (d,) or 0.
    metric : "l2" (squared distances) or "cosine".
    """

    def __init__(self, train, mean, k: int, metric: str) -> None:
        self.train, self.mean, self.k, self.metric = train, mean, k, metric

    @staticmethod
    def bytes_each(width: int, k: int) -> int:
        """Memory in bytes of the search for one query of this width."""
        return 24 * width + 100 * k

    def find(self, queries: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """(m, k) rows of train, the nearest first, ties by ascending row.

        Parameters
        ----------
        queries : (m, d), of length 1 (or 0) for cosine.
        reach : (m,) a distance within which at least k rows of train are, by products or differences; infinite
            if unknown.
        """
        centred = queries - self.mean
        squares = np.einsum("ij,ij->i", centred, centred)
        slack = self._rounding(squares)
        nearest = _Nearest(len(queries), self.k, reach + slack)
        for rows in blocks.value_blocks(self.train):
            block = self.train[rows]
            part = block - self.mean
            lengths = np.einsum("ij,ij->i", part, part)
            step = max(1, blocks.HELD // len(block))
            for start in range(0, len(queries), step):
                some = slice(start, start + step)
                gaps = centred[some] @ part.T
                if self.metric == "cosine":
                    np.subtract(1.0, gaps, out=gaps)
                else:
                    gaps *= -2.0
                    gaps += lengths
                    gaps += squares[some, None]
                self._collect(nearest, gaps, block, rows.start, queries, some, slack)
        return nearest.numbers()

    def _collect(self, nearest: _Nearest, gaps, block, first: int, queries, some, slack) -> None:
        """Add the rows of a block that can be among the nearest; `gaps` are (q, B) distances by product."""
        reach, slack = nearest.reach[some], slack[some]
        near = ~(gaps > (reach + slack)[:, None])  # NaN (overflow) counts as near
        crowded = np.flatnonzero(near.sum(axis=1) > self.k + CROWDED)
        if len(crowded):
            kth = np.partition(gaps[crowded], self.k - 1, axis=1)[:, self.k - 1]
            reach[crowded] = np.fmin(reach[crowded], kth + slack[crowded])
            near[crowded] = ~(gaps[crowded] > (reach + slack)[crowded, None])
        asked, found = np.nonzero(near)
        asked += some.start
        step = max(1, PAIRED_VALUES // block.shape[1])
        for start in range(0, len(asked), step):
            who, which = asked[start : start + step], found[start : start + step]
            nearest.add(who, first + which, of_pairs(block[which], queries[who], self.metric))

    @cached_property
    def _longest(self) -> float:
        """Length of the longest row minus the mean."""
        longest = 0.0
        for rows in blocks.value_blocks(self.train):
            part = self.train[rows] - self.mean
            longest = max(longest, float(np.einsum("ij,ij->i", part, part).max()))
        return float(np.sqrt(longest))

    def _rounding(self, squares: np.ndarray) -> np.ndarray:
        """(m,) bound of the difference between a distance by product and one by differences."""
        terms = 4.0 * (self.train.shape[1] + 4.0) * DOUBLE
        if self.metric == "cosine":
            return np.full(len(squares), terms)
        return terms * (self._longest + np.sqrt(squares)) ** 2


class _Nearest:
    """The k nearest rows so far of every query, as flat arrays; added rows are merged in batches.

    Attributes
    ----------
    reach : (m,) a distance within which at least k rows are.
    """

    def __init__(self, queries: int, k: int, reach: np.ndarray) -> None:
        self.k, self.reach, self.most = k, reach, queries * k
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
        self.added, self.parts = 0, []

    def add(self, who: np.ndarray, numbers: np.ndarray, distances: np.ndarray) -> None:
        """Add rows of train with their distances from the queries `who`; all are (n,)."""
        within = distances <= self.reach[who]
        self.parts.append((who[within], numbers[within], distances[within]))
        self.added += int(np.count_nonzero(within))
        if self.added > self.most:
            self._merge()

    def numbers(self) -> np.ndarray:
        self._merge()
        return self.parts[0][1].reshape(-1, self.k)

    def _merge(self) -> None:
        who, numbers, distances = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        order = np.lexsort((numbers, distances, who))
        who = who[order]
        rank = np.arange(len(who)) - np.searchsorted(who, who)
        order, who = order[rank < self.k], who[rank < self.k]
        self.parts, self.added = [(who, numbers[order], distances[order])], 0
        last = np.flatnonzero(rank[rank < self.k] == self.k - 1)
        self.reach[who[last]] = np.minimum(self.reach[who[last]], self.parts[0][2][last])
