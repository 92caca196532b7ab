"""Predictions of nearest neighbours that ties decide: of votes, or of distances to the last neighbour.

Equal votes go to the lowest class id, and equal distances to the lowest index in train, as in scikit-learn. Such a
prediction depends on the order of classes or training rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permafrost.core.row_file import RowFile, row_blocks
from permafrost.probes.knn import rows as blocks
from permafrost.probes.knn.distances import of_pairs, unit
from permafrost.probes.knn.search import neighbours
from permafrost.probes.knn.train_rows import in_steps

GATE = "decided_by_ties"
# share of the test rows that triggers a warning; a smaller effect is within the interval of the score
SHARE = 0.01
# votes of few neighbours are often equal: they count only if this share of the rows has equal votes
VOTES = 0.25
# relative difference below which distances may be equal: a search in reverse order decides
NEARLY = 1e-12


def tie_gates(
    train_x,
    test_x,
    found: np.ndarray,
    answer: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray | None, np.ndarray]],
    *,
    k: int,
    metric: str,
    device: str,
) -> list[str]:
    """``decided_by_ties:12 of 666`` if at least `SHARE` of the predictions would differ in another order.

    Equal votes count if at least `VOTES` of the predictions have them, as with two neighbours.

    Parameters
    ----------
    found : (M, k + 1) neighbours in train, or (M, k) if it has only k rows.
    answer : (m, k) neighbours of test rows, and the (m,) indices of these rows -> scores and predictions; scores
        are None for numbers.
    """
    scores, given = answer(found[:, :k], np.arange(len(found)))
    decided = np.zeros(len(found), bool) if scores is None else _equal_votes(scores, given.ndim > 1)
    if np.count_nonzero(decided) < VOTES * len(found):
        decided[:] = False
    if found.shape[1] > k:
        tied = _equally_far(train_x, test_x, found[:, k - 1 :], metric)
        if len(tied):
            last = len(train_x) - 1
            other = last - neighbours(
                _backwards(train_x), test_x[tied], k, metric=metric, device=device
            )
            same = np.isclose(answer(other, tied)[1], given[tied], rtol=1e-9, atol=0)
            decided[tied] |= ~same.reshape(len(tied), -1).all(axis=1)
    count = int(np.count_nonzero(decided))
    return [f"{GATE}:{count} of {len(found)}"] if count and count >= SHARE * len(found) else []


def _equal_votes(scores: np.ndarray, multilabel: bool) -> np.ndarray:
    """(M,) bool: several of the (M, K) shares are the largest, or a label has exactly half of the votes."""
    if multilabel:
        return (scores == 0.5).any(axis=1)
    return np.count_nonzero(scores == scores.max(axis=1, keepdims=True), axis=1) > 1


def _equally_far(train_x, test_x, pairs: np.ndarray, metric: str) -> np.ndarray:
    """Indices of the queries whose (M, 2) rows, the last neighbour and the next one, are equally far."""
    tied = []
    for some in in_steps(len(pairs), max(1, blocks.HELD // train_x.shape[1])):
        queries = test_x[some]
        queries = unit(queries) if metric == "cosine" else queries
        last, following = (
            of_pairs(unit(rows) if metric == "cosine" else rows, queries, metric)
            for rows in (train_x[pairs[some, column]] for column in (0, 1))
        )
        near = np.abs(following - last) <= NEARLY * (np.abs(last) if metric == "l2" else 1.0)
        tied.append(some.start + np.flatnonzero(near))
    return np.concatenate(tied)


def _backwards(train_x) -> np.ndarray | RowFile:
    if isinstance(train_x, np.ndarray):
        return train_x[::-1]
    rows = train_x.beside(train_x.shape[1], train_x.dtype)
    for block in reversed(list(row_blocks(train_x))):
        rows.append(train_x[block][::-1])
    return rows
