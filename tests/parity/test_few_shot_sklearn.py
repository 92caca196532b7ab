"""Linear and knn probes after small draws against scikit-learn, refitted on the rows of each draw."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from helpers.stages.probing import make_splits
from permafrost.probes.few_shot.draws import nested_draws, sizes_of
from permafrost.probes.few_shot.probe import run_few_shot

GRID = np.logspace(-2, 2, 5)
OPTIONS = {
    "shares": [0.05, 0.2],
    "per_class": [1, 5],
    "draws": 2,
    "classifiers": ["linear", "knn"],
    "ranked": {"classifier": "linear", "share": 0.2, "per_class": None},
    "c_min": GRID[0],
    "c_max": GRID[-1],
    "c_count": len(GRID),
    "merge_val": True,
    "standardize": False,
    "ties": "smallest",
    "k": [3],
    "metric": "l2",
}


@pytest.fixture(scope="module")
def found():
    splits = make_splits(counts=(240, 120, 150), classes=4, skill=0.7, seed=2)
    result = run_few_shot(splits, options_of("few_shot", OPTIONS), device="cpu", seed=3)
    draws = nested_draws(
        splits["train"].labels,
        splits["val"].labels,
        sizes_of([0.05, 0.2], [1, 5]),
        draws=2,
        n_classes=4,
        seed=3,
    )
    return splits, {(one.name, one.draw): one for one in result.settings}, list(draws)


def test_linear(found):
    from sklearn.linear_model import LogisticRegression

    splits, scored, draws = found
    train, val, test = (splits[name] for name in ("train", "val", "test"))
    assert len(draws) == 8
    for draw in draws:
        x, y = train.embeddings[draw.train].astype(float), train.labels[draw.train]
        vx, vy = val.embeddings[draw.val].astype(float), val.labels[draw.val]

        def peer(c, x, y):
            return LogisticRegression(C=c, tol=1e-9, max_iter=10_000).fit(x, y)

        right = [peer(c, x, y).score(vx, vy) for c in GRID]
        best = GRID[int(np.argmax(right))]
        one = scored[f"linear, {draw.size.name}", draw.number]
        assert one.settings["best_c"] == pytest.approx(best)
        refit = peer(best, np.concatenate([x, vx]), np.concatenate([y, vy]))
        expected = refit.predict(test.embeddings.astype(float))
        assert (one.answer == expected).mean() > 0.99


def test_knn(found):
    from sklearn.neighbors import KNeighborsClassifier

    splits, scored, draws = found
    train, test = splits["train"], splits["test"]
    for draw in draws:
        peer = KNeighborsClassifier(3, algorithm="brute")
        peer.fit(train.embeddings[draw.train].astype(float), train.labels[draw.train])
        expected = peer.predict(test.embeddings.astype(float))
        one = scored[f"knn, {draw.size.name}", draw.number]
        np.testing.assert_array_equal(one.answer, expected)
