"""Distances from queries to their candidates in double precision, which define the order of neighbours.

Sums of squared differences are accurate enough to distinguish equal and unequal distances, but computing them
candidate by candidate is memory-bound. If candidates are a large share of train, one product of matrices
is faster; candidates that its rounding error cannot order are then compared by differences.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permafrost.core.row_file import row_blocks

RANKED_VALUES = 2_000_000  # float64 values in memory at once
PAIRED_VALUES = 200_000  # the same if rows are compared pair by pair: few enough for the CPU cache
SHARE = 24  # a product of matrices costs as much as differences to 1 in this many rows of train
FEW = 16  # if fewer than 1 in this many rows of a block are needed, they are read one by one
DOUBLE = 2.0**-53  # half a unit in the last place of float64


class TrueDistances:
    """Distances from queries to rows of one training set, in the same order as those of `by_differences`.

    Parameters
    ----------
    train : (N, d) features; rows of length 1 (or 0) for cosine. If candidates are a large share of train, a
        centred float64 copy is kept.
    metric : "l2" (squared) or "cosine".
    """

    def __init__(self, train, metric: str) -> None:
        self.train, self.metric = train, metric

    def to(self, test, candidates) -> np.ndarray:
        """(M, c) float64 distances from (M, d) queries to (M, c) rows of train."""
        if candidates.shape[1] * SHARE < len(self.train):
            return by_differences(self.train, test, candidates, self.metric)
        mean, reference, squares = self._centred
        found = np.empty(candidates.shape)
        step = max(1, RANKED_VALUES // max(len(self.train), self.train.shape[1]))
        for start in range(0, len(test), step):
            rows = slice(start, start + step)
            found[rows] = _by_product(
                reference, squares, test[rows] - mean, candidates[rows], self.metric
            )
            _settle(
                found[rows],
                self.train,
                test[rows],
                candidates[rows],
                self.metric,
                _rounding(squares, test[rows] - mean, self.metric),
            )
        return found

    @cached_property
    def _centred(self) -> tuple:
        """The mean (0 for cosine), (N, d) float64 rows minus it, and their (N,) squared lengths."""
        cosine = self.metric == "cosine"
        mean = 0.0 if cosine else self.train.mean(axis=0, dtype=np.float64)
        reference = np.asarray(self.train, np.float64) if cosine else self.train - mean
        return mean, reference, np.einsum("ij,ij->i", reference, reference)


def distances(train, test, candidates, metric: str) -> np.ndarray:
    """(M, c) float64 distances; see `TrueDistances`."""
    return TrueDistances(train, metric).to(test, candidates)


def distances_in_order(train, test, candidates, metric: str) -> np.ndarray:
    """(M, c) float64 distances equal to those of `by_differences`, for a train set in a file.

    Train is read once, in order; rows without a query are skipped.

    Parameters
    ----------
    train : (N, d) features; must support slices and integer arrays as indices.
    test : (M, d) array.
    """
    found = np.empty(candidates.size)
    numbers = candidates.reshape(-1)
    order = np.argsort(numbers, kind="stable")
    numbers, each = numbers[order], candidates.shape[1]
    step = max(1, PAIRED_VALUES // train.shape[1])
    for block in row_blocks(train):
        low, high = np.searchsorted(numbers, [block.start, block.stop])
        whole = train[block] if (high - low) * FEW > block.stop - block.start else None
        for start in range(low, high, step):
            some = slice(start, min(start + step, high))
            rows = train[numbers[some]] if whole is None else whole[numbers[some] - block.start]
            found[order[some]] = of_pairs(rows, test[order[some] // each], metric)
    return found.reshape(candidates.shape)


def of_pairs(reference, query, metric: str) -> np.ndarray:
    """(n,) distances between pairs of (n, d) rows and queries, bit for bit equal to `by_differences`."""
    return _one_by_one(reference[:, None], query[:, None], metric)[:, 0]


def by_differences(train, test, candidates, metric: str) -> np.ndarray:
    """(M, c) float64 distances, each from the differences of its two rows (products for cosine)."""
    found = np.empty(candidates.shape)
    step = max(1, PAIRED_VALUES // (candidates.shape[1] * train.shape[1]))
    for start in range(0, len(test), step):
        rows = slice(start, start + step)
        found[rows] = _one_by_one(train[candidates[rows]], test[rows, None, :], metric)
    return found


def _one_by_one(reference, query, metric: str) -> np.ndarray:
    """(m, c) distances of (m, c, d) rows from (m, 1, d) queries."""
    reference, query = reference.astype(np.float64), query.astype(np.float64)
    if metric == "cosine":
        return 1.0 - np.einsum("mkd,mkd->mk", reference, np.broadcast_to(query, reference.shape))
    reference -= query
    return np.einsum("mkd,mkd->mk", reference, reference)


def _by_product(reference, squares, query, candidates, metric: str) -> np.ndarray:
    products = np.take_along_axis(query @ reference.T, candidates, axis=1)
    if metric == "cosine":
        return 1.0 - products
    return squares[candidates] + np.einsum("ij,ij->i", query, query)[:, None] - 2.0 * products


def _rounding(squares, query, metric: str) -> np.ndarray:
    """(m,) bound of the difference between a distance by product and one by differences: sums of d terms."""
    terms = 4.0 * (query.shape[1] + 4.0) * DOUBLE
    if metric == "cosine":
        return np.full(len(query), terms)
    lengths = np.sqrt(np.einsum("ij,ij->i", query, query))
    return terms * (np.sqrt(squares.max()) + lengths) ** 2


def _settle(found, train, test, candidates, metric: str, rounding) -> None:
    """Recompute by differences the distances of candidates that are too close to another one to be ordered."""
    order = np.argsort(found, axis=1)
    close = np.diff(np.take_along_axis(found, order, axis=1), axis=1) <= 2.0 * rounding[:, None]
    for row in np.flatnonzero(close.any(axis=1)):
        runs = np.zeros(found.shape[1], bool)
        runs[:-1] |= close[row]
        runs[1:] |= close[row]
        places = order[row][runs]
        found[row, places] = by_differences(
            train, test[row : row + 1], candidates[row : row + 1, places], metric
        )


def unit(features) -> np.ndarray:
    """Rows of length 1, float64; a zero row stays zero."""
    found = np.empty(features.shape)
    step = max(1, RANKED_VALUES // max(1, features.shape[1]))
    for start in range(0, len(features), step):
        rows = features[start : start + step].astype(np.float64)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        rows /= np.where(largest == 0, 1.0, largest)  # squares must not under- or overflow
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
        found[start : start + step] = rows / np.where(lengths == 0, 1.0, lengths)
    return found
