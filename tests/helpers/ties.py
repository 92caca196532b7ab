"""Features with many neighbours at equal or nearly equal distance, and their neighbours by brute force."""

from __future__ import annotations

import numpy as np
from permafrost.probes.knn.distances import unit

TIES = (
    "identical rows",
    "nearly identical rows",
    "collapsed",
    "few values",
    "zeros of both signs",
    "integers",
    "too large for float32",
)


def brute_force(train, test, k, metric):
    """All distances in float64, equal ones by index."""
    train, test = (np.asarray(rows, np.float64) for rows in (train, test))
    if metric == "cosine":
        train, test = unit(train), unit(test)
        distances = 1.0 - np.einsum("mnd,mnd->mn", *np.broadcast_arrays(train[None], test[:, None]))
    else:
        distances = ((test[:, None] - train[None]) ** 2).sum(axis=2)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def with_ties(kind: str):
    rng = np.random.default_rng(5)
    train, test = (rng.normal(size=(n, 8)).astype(np.float32) for n in (400, 60))
    black, dark = rng.random(400) < 0.5, rng.random(60) < 0.5
    if kind == "identical rows":
        train[black], test[dark] = 0.5, 0.5
        train[::7] = train[3]
    elif kind == "nearly identical rows":
        train[black] = 0.5 + 1e-5 * train[black]
        test[dark] = 0.5 + 1e-5 * test[dark]
    elif kind == "collapsed":
        train[:], test[:] = 0.25, 0.25
    elif kind == "few values":  # ties between rows that differ, identical rows among them
        train, test = (rng.integers(0, 2, (n, 5)).astype(np.float32) for n in (400, 60))
    elif kind == "zeros of both signs":
        train[black], test[dark] = 0.0, 0.0
        train[np.flatnonzero(black)[::2]] = -0.0
    elif kind == "integers":
        train, test = (rng.integers(0, 3, (n, 4)) for n in (400, 60))
    elif kind == "too large for float32":
        train, test = train * np.float32(1e25), test * np.float32(1e25)
        train[black] = train[0]
    return train, test
