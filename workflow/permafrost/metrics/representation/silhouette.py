"""Silhouette: how much nearer a row is to its class than to the nearest other class."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.representation.measure import Measure, terms_by_unit, undefined
from permafrost.metrics.representation.pairs import Block
from permafrost.metrics.representation.points import (
    Points,
)


class Silhouette:
    """Mean silhouette coefficient, (b - a) / max(a, b) of each row, from blocks of pairs.

    a is the mean euclidean distance to the other rows of the class, b the smallest mean distance
    to the rows of another class. A row alone in its class has 0, and so has one with a = b = 0
    (as in scikit-learn's ``silhouette_score``, which raises an error for values undefined here).
    In [-1, 1]; higher is better separated. Units: none. Undefined with one class, if every class
    has one row, and if all rows are equal.
    Source: Rousseeuw, Silhouettes, J. Comput. Appl. Math. 20 (1987). O(N d) memory.

    Parameters
    ----------
    labels : (N,) ascending class ids, so that sums over classes are sums over slices.
    normalise : whether rows are scaled to length 1 first; a row of zeros stays zero.

    Row j affects the mean by its own s_j and through other rows' a and b::

        d a_i / d w_j = (d_ij - a_i) / (n - 1)    j of the class of i, which has n rows
        d b_i / d w_j = (d_ij - b_i) / n'         j of the next class of i, which has n' rows
    """

    def __init__(self, points: Points, labels: np.ndarray, *, normalise: bool = False) -> None:
        self.points, self.normalise = points, normalise
        kinds, self._starts, self._codes, self._sizes = np.unique(
            labels, return_index=True, return_inverse=True, return_counts=True
        )
        self._each, self._pull = np.zeros(len(points)), np.zeros(len(points))
        self._pull_of_class = np.zeros(len(kinds))
        self.reason = self._why_undefined()

    def visit(self, block: Block) -> None:
        if self.reason is not None:
            return
        distances = block.chords if self.normalise else block.distances
        rows, codes = np.arange(len(distances)), self._codes[block.start : block.stop]
        sums = np.add.reduceat(distances, self._starts, axis=1)
        others = np.maximum(self._sizes[codes] - 1.0, 1.0)
        within = sums[rows, codes] / others
        means = sums / self._sizes
        means[rows, codes] = np.inf
        nearest = means.argmin(axis=1)
        nearby = means[rows, nearest]
        largest = np.maximum(within, nearby)
        counts = (self._sizes[codes] > 1) & (largest > 0)
        each = np.divide(nearby - within, largest, out=np.zeros_like(within), where=counts)
        self._each[block.start : block.stop] = each
        # derivatives of (nearby - within) / max: the denominator is the larger of the two
        inner = counts & (within < nearby)
        outer = counts & ~inner
        by_within = -np.divide(1.0, nearby, out=np.zeros_like(within), where=inner)
        by_within -= np.divide(nearby, within**2, out=np.zeros_like(within), where=outer)
        by_nearby = np.divide(within, nearby**2, out=np.zeros_like(within), where=inner)
        by_nearby += np.divide(1.0, within, out=np.zeros_like(within), where=outer)
        by_within, by_nearby = by_within / others, by_nearby / self._sizes[nearest]
        pull = np.zeros((len(self._sizes), len(distances)))
        pull[codes, rows] = by_within
        pull[nearest, rows] += by_nearby
        stops = np.append(self._starts[1:], len(self.points))
        for code, (start, stop) in enumerate(zip(self._starts, stops, strict=True)):
            self._pull[start:stop] += pull[code] @ distances[:, start:stop]
        self._pull_of_class -= np.bincount(codes, by_within * within, len(self._sizes))
        self._pull_of_class -= np.bincount(nearest, by_nearby * nearby, len(self._sizes))
        # exclude the row itself from its class
        self._pull[block.start : block.stop] += by_within * within

    def measure(self) -> Measure:
        notes = self.points.notes()
        zero_rows = int(np.count_nonzero(self.points.lengths == 0))
        if self.normalise and zero_rows:
            notes["zero_rows"] = zero_rows
        if alone := int(np.count_nonzero(self._sizes == 1)):
            notes["singletons"] = alone
        if self.reason is not None:
            return undefined(self.reason, notes)
        value = float(self._each.mean())
        effects = self._each - value + self._pull + self._pull_of_class[self._codes]
        terms = terms_by_unit(effects / len(self.points), self.points.units, self.points.n_units)
        return Measure(value, notes, terms)

    def _why_undefined(self) -> str | None:
        if len(self._sizes) < 2:
            return "there is one class"
        if self._sizes.max() == 1:
            return "every class has one row"
        return "all rows are equal" if self.points.collapsed else None
