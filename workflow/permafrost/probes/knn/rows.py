"""Rows of features for distances, from an array or a `RowFile`, and equal rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permafrost.probes.knn.distances import unit

HELD = 1_000_000  # feature values in memory at once


class Rows:
    """Some rows of features, of length 1 for cosine; computed on access, without a copy.

    Like an array, it has `len`, `shape`, `dtype`, and indices that are slices of step 1 or integer arrays.

    Parameters
    ----------
    source : (N, d) array or `RowFile`.
    metric : "l2", rows as they are, or "cosine", rows of length 1 in float64.
    kept : ascending indices of the rows to use; None: all.
    """

    ndim = 2

    def __init__(self, source, metric: str, kept: np.ndarray | None = None) -> None:
        self.source, self.metric, self.kept = source, metric, kept
        self.dtype = np.dtype(np.float64) if metric == "cosine" else source.dtype
        self.shape = (len(source) if kept is None else len(kept), source.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        found = self.source[rows] if self.kept is None else self._kept(self.kept[rows])
        return unit(found) if self.metric == "cosine" else found

    def _kept(self, numbers: np.ndarray) -> np.ndarray:
        """Rows of the source; rows close to each other are read as one slice."""
        if len(numbers) and numbers[-1] - numbers[0] < 2 * len(numbers) and _ascends(numbers):
            first = int(numbers[0])
            return self.source[first : int(numbers[-1]) + 1][numbers - first]
        return self.source[numbers]


def value_blocks(rows, at_least: int = 1) -> Iterator[slice]:
    """Slices of rows with at most `HELD` values each; `at_least` is a lower bound of the values per row."""
    step = max(1, HELD // max(rows.shape[1], at_least))
    return (slice(start, start + step) for start in range(0, len(rows), step))


def mean_of(rows) -> np.ndarray:
    """(d,) float64 mean."""
    total = np.zeros(rows.shape[1])
    for block in value_blocks(rows):
        total += rows[block].sum(axis=0, dtype=np.float64)
    return total / len(rows)


def equal_rows(rows, beyond: int = 1) -> np.ndarray:
    """(N,) index of the first row that equals each row, for rows with more than `beyond` copies.

    Rows are distinguished by keys of 64 bits, and those with equal keys are compared. Different rows rarely have
    equal keys; if they do, all rows with this key count as different.
    """
    first = np.arange(len(rows))
    members, leaders = _repeated(_keys(rows), beyond)
    same = np.empty(len(members), bool)
    step = max(1, HELD // rows.shape[1])
    for start in range(0, len(members), step):
        block = slice(start, start + step)
        here, place = np.unique(leaders[block], return_inverse=True)
        same[block] = (rows[members[block]] == rows[here][place]).all(axis=1)
    certain = ~np.isin(leaders, leaders[~same]) if not same.all() else slice(None)
    first[members[certain]] = leaders[certain]
    return first


def _repeated(keys: np.ndarray, beyond: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending indices of rows whose key occurs more than `beyond` times, and the first row with the key of each."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    sizes = np.diff(starts, append=len(keys))
    starts, sizes = starts[sizes > beyond], sizes[sizes > beyond]
    leader = np.full(len(keys), -1)
    del keys  # as large as train has rows
    places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    places += np.arange(len(places))
    leader[order[places]] = np.repeat(order[starts], sizes)
    del order, places
    members = np.flatnonzero(leader >= 0)
    return members, leader[members]


def first_copies(rows, most: int) -> np.ndarray:
    """Ascending indices of (N, d) rows, with only the first `most` of equal rows."""
    first = equal_rows(rows, beyond=most)
    if (first == np.arange(len(first))).all():
        return first
    order = np.argsort(first, kind="stable")
    leaders = first[order]
    rank = np.arange(len(order)) - np.searchsorted(leaders, leaders)
    return np.sort(order[rank < most])


def _keys(rows) -> np.ndarray:
    """(N,) uint64 keys, equal for equal rows."""
    weights = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], np.uint64) | np.uint64(1)
    keys = np.empty(len(rows), np.uint64)
    for block in value_blocks(rows):
        bits = (rows[block] + 0.0).astype(np.float64).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
        keys[block] = (bits ^ (bits >> np.uint64(32))) @ weights
    return keys


def _ascends(numbers: np.ndarray) -> bool:
    return bool((np.diff(numbers) > 0).all())
