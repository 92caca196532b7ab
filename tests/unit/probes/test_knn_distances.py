"""Distances by one product of matrices order candidates as distances by differences do."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.probes.knn import distances as knn_distances
from permafrost.probes.knn.distances import by_differences, distances, unit

RNG = np.random.default_rng(0)


def sorted_candidates(values, candidates):
    return np.take_along_axis(candidates, np.lexsort((candidates, values), axis=1), axis=1)


def plain(rows=60, d=40):
    return RNG.normal(size=(rows, d)).astype(np.float32)


def with_duplicates():
    rows = plain()
    rows[30:45] = rows[:15]
    return rows


def far_from_zero():
    return (1e6 + np.round(RNG.normal(size=(60, 40)) * 4) / 4).astype(np.float32)


def of_small_numbers():
    """Many distances are exactly equal, between rows that are not."""
    return RNG.integers(0, 2, (60, 8)).astype(np.float32)


def with_zero_rows():
    rows = plain()
    rows[[3, 40, 41]] = 0
    return rows


def of_doubles():
    return RNG.normal(size=(60, 40)) * np.logspace(-8, 3, 40)


MAKERS = [plain, with_duplicates, far_from_zero, of_small_numbers, with_zero_rows, of_doubles]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("make", MAKERS)
def test_the_order_is_that_of_differences(make, metric):
    rows = make()
    if metric == "cosine":
        rows = unit(rows)
    train, test = (
        rows,
        np.concatenate([rows[::4], (rows[1::9] + rows[2::9][: len(rows[1::9])]) / 2]),
    )
    candidates = np.stack([RNG.permutation(len(train))[:50] for _ in test])
    quick, slow = (way(train, test, candidates, metric) for way in (distances, by_differences))
    assert (sorted_candidates(quick, candidates) == sorted_candidates(slow, candidates)).all()
    np.testing.assert_allclose(quick, slow, rtol=1e-9, atol=1e-9 * np.square(train).sum(1).max())


def test_rounding_alone_would_order_otherwise(monkeypatch):
    train = far_from_zero()
    candidates = np.tile(np.arange(len(train)), (len(train), 1))
    exact = sorted_candidates(by_differences(train, train, candidates, "l2"), candidates)
    monkeypatch.setattr(knn_distances, "_settle", lambda *_: None)
    rounded = sorted_candidates(distances(train, train, candidates, "l2"), candidates)
    assert (rounded != exact).any()


def test_few_candidates_of_many_rows_are_taken_one_by_one(monkeypatch):
    train = plain(rows=200)
    candidates = np.tile(np.arange(4), (3, 1))
    monkeypatch.setattr(knn_distances, "_by_product", None)
    found = distances(train, train[:3], candidates, "l2")
    expected = ((train[:4, None] - train[None, :3]) ** 2).sum(axis=2).T
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_unit_rows():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e-300, 0.0], [1e300, 1e300]])
    expected = [[0.6, 0.8], [0, 0], [1, 0], [0.5**0.5, 0.5**0.5]]
    np.testing.assert_allclose(unit(rows), expected)
