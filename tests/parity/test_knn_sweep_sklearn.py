"""Weighted and unweighted votes under every setting against scikit-learn's classifier."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.probes.knn.search import neighbours, vote
from permafrost.probes.knn.sweep import similarities, weighted_vote

CLASSES = 5


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, 16))
    labels = rng.integers(0, CLASSES, 400)
    train = (centres[labels] + rng.normal(size=(400, 16))).astype(np.float32)
    test = (centres[rng.integers(0, CLASSES, 120)] + rng.normal(size=(120, 16))).astype(np.float32)
    return train, labels, test


def peer(points, k, metric, weights):
    """Probabilities of scikit-learn's classifier in float64."""
    from sklearn.neighbors import KNeighborsClassifier

    train, labels, test = (np.asarray(a, np.float64) if a.ndim == 2 else a for a in points)
    name = {"l2": "euclidean", "cosine": "cosine"}[metric]
    classifier = KNeighborsClassifier(k, weights=weights, metric=name, algorithm="brute")
    return classifier.fit(train, labels).predict_proba(test)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("k", [1, 5, 50, 400])
def test_unweighted(points, k, metric):
    train, labels, test = points
    found = neighbours(train, test, 400, metric=metric)
    scores, prediction = vote(found[:, :k], labels, n_classes=CLASSES, task="classification")
    expected = peer(points, k, metric, "uniform")
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    # argmax takes the first of equals, as ties are to be broken
    np.testing.assert_array_equal(prediction, expected.argmax(axis=1))


@pytest.mark.parametrize("k", [1, 5, 50, 400])
def test_weighted_by_temperature(points, k):
    train, labels, test = points
    found = neighbours(train, test, 400, metric="cosine")
    near = similarities(train, test, found)
    scores, prediction = weighted_vote(
        found[:, :k],
        near[:, :k],
        labels,
        temperature=0.07,
        n_classes=CLASSES,
        task="classification",
    )
    # scikit-learn's cosine distance is 1 - s
    expected = peer(points, k, "cosine", lambda distance: np.exp((1 - distance) / 0.07))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_array_equal(prediction, expected.argmax(axis=1))


def test_weighted_labels_by_brute_force(points):
    train, labels, test = points
    many = (np.random.default_rng(1).random((400, 3)) < 0.3).astype(np.uint8)
    found = neighbours(train, test, 20)
    near = similarities(train, test, found)
    scores, prediction = weighted_vote(
        found, near, many, temperature=0.1, n_classes=3, task="multilabel"
    )
    for row in range(len(test)):
        lengths = np.linalg.norm(train[found[row]], axis=1) * np.linalg.norm(test[row])
        weights = np.exp(train[found[row]] @ test[row] / lengths / 0.1)
        share = weights @ many[found[row]] / weights.sum()
        np.testing.assert_allclose(scores[row], share, rtol=2e-4, atol=1e-6)
        clear = np.abs(share - 0.5) > 1e-4
        np.testing.assert_array_equal(prediction[row][clear], (share > 0.5)[clear])
