"""Distances from queries to their candidates in double precision, for settling an order.

Differences squared and summed are exact enough to tell equal distances from unequal ones, but a candidate at a
time they are bound by memory. Where candidates are a good part of train, one product of matrices has all of
them in less time; what its rounding cannot order is then settled by differences.
"""

from __future__ import annotations

import numpy as np

RANKED_VALUES = 2_000_000  # float64 values held at a time
SHARE = 24  # a product of matrices costs as much as differences to 1 in so many rows of train
DOUBLE = 2.0**-53  # half a unit in the last place of float64


def distances(train, test, candidates, metric: str) -> np.ndarray:
    """(M, c) float64 distances (squared for l2), whose order is that of `by_differences`.

    Parameters
    ----------
    train, test : (N, d), (M, d) features; rows of length 1 (or 0) for cosine.
    candidates : (M, c) rows of train.
    """
    if candidates.shape[1] * SHARE < len(train):
        return by_differences(train, test, candidates, metric)
    mean = 0.0 if metric == "cosine" else train.mean(axis=0, dtype=np.float64)
    near = train - mean if metric != "cosine" else np.asarray(train, np.float64)
    squares = np.einsum("ij,ij->i", near, near)
    found = np.empty(candidates.shape)
    step = max(1, RANKED_VALUES // max(len(train), train.shape[1]))
    for start in range(0, len(test), step):
        rows = slice(start, start + step)
        found[rows] = _by_product(near, squares, test[rows] - mean, candidates[rows], metric)
        _settle(found[rows], train, test[rows], candidates[rows], metric,
                _rounding(squares, test[rows] - mean, metric))  # fmt: skip
    return found


def by_differences(train, test, candidates, metric: str) -> np.ndarray:
    """(M, c) float64 distances, each from its own differences (products for cosine)."""
    found = np.empty(candidates.shape)
    step = max(1, RANKED_VALUES // (candidates.shape[1] * train.shape[1]))
    for start in range(0, len(test), step):
        rows = slice(start, start + step)
        found[rows] = _one_by_one(train[candidates[rows]], test[rows, None, :], metric)
    return found


def _one_by_one(near, query, metric: str) -> np.ndarray:
    """(m, c) distances of (m, c, d) rows from (m, 1, d) queries."""
    near, query = near.astype(np.float64), query.astype(np.float64)
    if metric == "cosine":
        return 1.0 - np.einsum("mkd,mkd->mk", near, np.broadcast_to(query, near.shape))
    near -= query
    return np.einsum("mkd,mkd->mk", near, near)


def _by_product(near, squares, query, candidates, metric: str) -> np.ndarray:
    products = np.take_along_axis(query @ near.T, candidates, axis=1)
    if metric == "cosine":
        return 1.0 - products
    return squares[candidates] + np.einsum("ij,ij->i", query, query)[:, None] - 2.0 * products


def _rounding(squares, query, metric: str) -> np.ndarray:
    """(m,) how far a distance by product and one by differences can be apart: a sum of d terms each."""
    terms = 4.0 * (query.shape[1] + 4.0) * DOUBLE
    if metric == "cosine":
        return np.full(len(query), terms)
    lengths = np.sqrt(np.einsum("ij,ij->i", query, query))
    return terms * (np.sqrt(squares.max()) + lengths) ** 2


def _settle(found, train, test, candidates, metric: str, rounding) -> None:
    """Take differences for all candidates that lie too near another one for rounding to order them."""
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
    features = np.asarray(features).astype(np.float64)
    largest = np.abs(features).max(axis=1, keepdims=True)
    features /= np.where(largest == 0, 1.0, largest)  # so that squares neither vanish nor overflow
    lengths = np.sqrt(np.einsum("ij,ij->i", features, features))[:, None]
    return features / np.where(lengths == 0, 1.0, lengths)
