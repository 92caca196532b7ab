"""Principal components and nearest rows of a map of images, against scikit-learn and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.metrics.representation.plane import nearest_rows, plane_of
from sklearn.decomposition import PCA


def _features(rows: int, width: int, *, repeated: int = 0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(rows, width)) * 0.6 ** np.arange(width) + 5
    made[rows - repeated :] = made[0]
    return made.astype(np.float32)


@pytest.mark.parametrize("shape", [(60, 9), (9, 60), (40, 40), (7, 2), (2, 5)])
def test_plane_equals_sklearn_up_to_sign(shape):
    features = _features(*shape)
    found, peer = plane_of(features), PCA(2, svd_solver="full").fit(features.astype(float))
    assert found.shares == pytest.approx(peer.explained_variance_ratio_, abs=1e-9)
    expected = peer.transform(features.astype(float))
    for own, other in zip(found.coordinates.T, expected.T, strict=True):
        # the scale of the features is a power of two
        scale = np.exp2(
            np.rint(np.log2(np.abs(other).max() / np.abs(own).max())) if own.any() else 0
        )
        assert min(np.abs(scale * own - other).max(), np.abs(scale * own + other).max()) < 1e-6
        assert not own.any() or own[np.abs(own).argmax()] > 0


@pytest.mark.parametrize(
    "features", [np.full((5, 3), 7.0), np.zeros((1, 4)), np.full((3, 1), 1e-300)]
)
def test_equal_rows_are_one_point(features):
    found = plane_of(features)
    assert not found.coordinates.any() and not found.shares.any()
    assert nearest_rows(features, 3).shape == (len(features), min(3, len(features) - 1))


def test_one_column_has_one_axis():
    found = plane_of(np.arange(6.0)[:, None])
    assert found.shares.tolist() == pytest.approx([1, 0]) and not found.coordinates[:, 1].any()


@pytest.mark.parametrize("repeated", [0, 5])
def test_nearest_rows_equal_brute_force_with_ties_by_number(repeated):
    features = _features(50, 6, repeated=repeated)
    gaps = features[:, None].astype(float) - features[None].astype(float)
    squared = (gaps**2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    expected = np.argsort(squared, axis=1, kind="stable")[:, :4]
    assert (nearest_rows(features, 4) == expected).all()
