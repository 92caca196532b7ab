"""Silhouettes equal scikit-learn's, over blocks and with classes of one row."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.measuring import measure_of
from permafrost.metrics.representation import pairs

metrics = pytest.importorskip("sklearn.metrics")
normalize = pytest.importorskip("sklearn.preprocessing").normalize


def clusters(rows: int = 300, dimensions: int = 12, classes: int = 5):
    generator = np.random.default_rng(3)
    labels = generator.integers(0, classes, rows)
    centres = generator.normal(size=(classes, dimensions))
    return centres[labels] + generator.normal(size=(rows, dimensions)), labels


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("kind", ["plain", "singleton", "zero row", "float32", "wide", "shifted"])
def test_equals_scikit_learn(kind, normalise, monkeypatch):
    monkeypatch.setattr(pairs, "BLOCK_BYTES", 37 * 300 * 8)  # blocks that do not divide the rows
    features, labels = clusters(dimensions=400 if kind == "wide" else 12)
    if kind == "singleton":
        labels[:2] = [7, 9]
    elif kind == "zero row":
        features[5] = 0.0
    elif kind == "float32":
        features = features.astype(np.float32)
    elif kind == "shifted":
        features[::3] *= 1e-5
        features[1::3] += 1e3
    given = features.astype(np.float64)
    expected = metrics.silhouette_score(normalize(given) if normalise else given, labels)
    found = measure_of("silhouette_normalised" if normalise else "silhouette", features, labels)
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert found.notes.get("singletons", 0) == (2 if kind == "singleton" else 0)


def test_equal_rows_of_two_classes():
    features = np.repeat(np.eye(3), 4, axis=0)
    labels = np.tile([0, 0, 1, 1], 3)
    expected = metrics.silhouette_score(features, labels)
    assert measure_of("silhouette", features, labels).value == pytest.approx(expected, abs=1e-12)


def test_rows_that_share_a_direction_are_equal_once_normalised():
    features = np.outer(np.arange(1, 9), [3.0, 1.0, 7.0])
    found = measure_of("silhouette_normalised", features, np.arange(8) % 2)
    assert found.value == 0.0
