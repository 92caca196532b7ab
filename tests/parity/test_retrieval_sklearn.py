"""Average precision of every query against scikit-learn's, with and without equal distances."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.metrics.retrieval import average_precisions


@pytest.mark.parametrize("levels", [None, 1, 2, 7])
def test_average_precision(levels):
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    distances = rng.random((60, 80))
    if levels is not None:
        distances = np.floor(distances * levels)
    relevant = rng.random((60, 80)) < rng.random((60, 1))
    relevant[:, 0] = True
    found = average_precisions(distances, relevant)
    for row in range(60):
        expected = average_precision_score(relevant[row], -distances[row])
        assert found[row] == pytest.approx(expected, abs=1e-12)


def test_nothing_relevant_is_undefined():
    found = average_precisions(np.arange(6.0).reshape(2, 3), np.array([[0, 0, 0], [1, 0, 0]], bool))
    assert np.isnan(found[0]) and found[1] == 1
