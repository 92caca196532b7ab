"""Neighbours against scikit-learn's brute force, above all where float32 runs out of digits."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.probes.knn.search import knn_predict, neighbours


def oracle(train, test, k, metric):
    """Indices by scikit-learn in float64, equal distances by index."""
    from sklearn.metrics import pairwise_distances

    name = {"l2": "euclidean", "cosine": "cosine"}[metric]
    if name == "euclidean":  # scikit-learn's own expansion cancels too: take differences
        gaps = test[:, None, :].astype(np.float64) - train[None].astype(np.float64)
        distances = (gaps**2).sum(axis=2)
    else:
        distances = pairwise_distances(test.astype(np.float64), train.astype(np.float64), name)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def features(kind: str):
    rng = np.random.default_rng(3)
    train, test = rng.normal(size=(600, 24)), rng.normal(size=(150, 24))
    if kind == "offset":
        train, test = train + 1e4, test + 1e4
    elif kind == "one far row":  # centring does not help: the mean is far from every cluster
        train[0] = 1e5
        train[1:], test = train[1:] * 1e-2 + 50, test * 1e-2 + 50
    elif kind == "two clusters":
        train[::2] += 1e4
        test[::2] += 1e4
    elif kind == "scales":
        scale = 10.0 ** np.linspace(-3, 4, 24)
        train, test = train * scale, test * scale
    return train.astype(np.float32), test.astype(np.float32)


@pytest.fixture(params=["differences", "products"])
def faiss_way(request):
    """Both ways in which FAISS takes distances; which one it chooses depends on its version and
    on the number of queries."""
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1 if request.param == "products" else 1 << 30
    yield request.param
    faiss.cvar.distance_compute_blas_threshold = before


@pytest.mark.parametrize("kind", ["plain", "offset", "one far row", "two clusters", "scales"])
def test_l2_neighbours_are_the_exact_ones_in_order(kind, faiss_way):
    train, test = features(kind)
    np.testing.assert_array_equal(neighbours(train, test, 5), oracle(train, test, 5, "l2"))


@pytest.mark.parametrize("kind", ["plain", "offset"])
def test_cosine_neighbours_are_the_exact_ones(kind):
    train, test = features(kind)
    found = neighbours(train, test, 5, metric="cosine")
    expected = oracle(train, test, 5, "cosine")
    assert (found == expected).mean() > 0.999


def test_predictions_equal_scikit_learns_classifier():
    from sklearn.neighbors import KNeighborsClassifier

    train, test = features("plain")
    labels = np.random.default_rng(1).integers(0, 4, len(train))
    scores, prediction = knn_predict(
        train, labels, test, k=5, metric="l2", n_classes=4, task="classification"
    )
    peer = KNeighborsClassifier(5, algorithm="brute").fit(train.astype(np.float64), labels)
    np.testing.assert_allclose(scores, peer.predict_proba(test.astype(np.float64)), atol=1e-7)
    np.testing.assert_array_equal(prediction, peer.predict(test.astype(np.float64)))
