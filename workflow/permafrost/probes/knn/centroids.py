"""Class means, and the scores of rows by their distance to them."""

from __future__ import annotations

import numpy as np

from permafrost.probes.knn.distances import unit


class Centroids:
    """The mean of the rows of each class.

    Parameters
    ----------
    rows : (N, d) features. labels : (N,) class ids below `classes`.
    metric : "l2", or "cosine": rows, and their means, get length 1.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, classes: int, metric: str) -> None:
        self.cosine, self.classes = metric == "cosine", classes
        self.known, of = np.unique(labels, return_inverse=True)
        rows = self._moved(rows)
        means = np.stack([rows[of == one].mean(axis=0) for one in range(len(self.known))])
        self.means = self._moved(means)

    def _moved(self, rows: np.ndarray) -> np.ndarray:
        return unit(rows) if self.cosine else np.asarray(rows, np.float64)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """(N, classes) float64 cosines, or negative squared distances; of a class without rows, less than any other."""
        rows = self._moved(rows)
        if self.cosine:
            found = rows @ self.means.T
        else:
            found = -np.stack([((rows - one) ** 2).sum(axis=1) for one in self.means], axis=1)
        return of_all_classes(self.known, found, self.classes)


def of_all_classes(
    known: np.ndarray, scores: np.ndarray, classes: int, missing: float | None = None
) -> np.ndarray:
    """(N, K) scores of all classes from those of the `known`; the others get `missing`, by default less than any."""
    lowest = scores.min(axis=1, keepdims=True) - 1.0 if missing is None else missing
    every = np.zeros((len(scores), classes)) + lowest
    every[:, known] = scores
    return every
