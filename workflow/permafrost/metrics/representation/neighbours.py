"""The nearest other rows of every row, exact, among distinct rows.

A row that equals an earlier one would be a neighbour at distance zero, which no estimator of
dimension can use. So neighbours are searched among distinct rows only, and the duplicates are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.representation.pairs import Block
from permafrost.metrics.representation.points import Points

# below this share of the rows' squared lengths, a squared distance from the product is inaccurate
_CANCELLED = 1e-6
# if all listed distances of a row are below this share, equally close rows may be missing
_UNSURE = 1e-11
# float64 differences in memory at once
_DIFFERENCES = 1_000_000


@dataclass(frozen=True)
class Neighbours:
    """Neighbours of the R distinct rows.

    Attributes
    ----------
    squared : (R, M) ascending squared distances to the nearest other distinct rows.
    units : (R,) unit of each distinct row.
    neighbour_units : (R, M) units of the neighbours.
    n_units : U, number of units.
    """

    squared: np.ndarray
    units: np.ndarray
    neighbour_units: np.ndarray
    n_units: int


class NeighbourSearch:
    """Collects the nearest rows from blocks of pairs.

    Parameters
    ----------
    count : M, the number of neighbours of each row; fewer if there are fewer other rows.
    """

    def __init__(self, points: Points, count: int) -> None:
        self.points = points
        self.distinct = points.first_equal == np.arange(len(points))
        self.count = min(count, int(np.count_nonzero(self.distinct)) - 1)
        self._norms = np.einsum("ij,ij->i", points.values, points.values)
        shape = (len(points), max(0, self.count))
        self._squared, self._found = np.empty(shape), np.empty(shape, np.intp)

    def visit(self, block: Block) -> None:
        if self.count < 1:
            return
        squared = block.squared.copy()
        rows = np.arange(block.start, block.stop)
        squared[rows - block.start, rows] = np.inf
        squared[:, ~self.distinct] = np.inf
        found = np.argpartition(squared, self.count - 1, axis=1)[:, : self.count]
        shortest = np.take_along_axis(squared, found, axis=1)
        self._restore(shortest, found, rows)
        order = np.lexsort((found, shortest), axis=1)
        self._squared[rows] = np.take_along_axis(shortest, order, axis=1)
        self._found[rows] = np.take_along_axis(found, order, axis=1)

    def neighbours(self) -> Neighbours:
        """The neighbours of the distinct rows."""
        kept, units = self.distinct, self.points.units
        return Neighbours(
            self._squared[kept], units[kept], units[self._found[kept]], self.points.n_units
        )

    def _restore(self, shortest: np.ndarray, found: np.ndarray, rows: np.ndarray) -> None:
        """Recompute squared distances from differences where the product is inaccurate."""
        norms = self._norms
        scale = norms[rows, None] + norms[found]
        lost = shortest < _CANCELLED * scale
        for row in np.flatnonzero(shortest.max(axis=1) < _UNSURE * norms[rows]):
            exact = self._exact(np.full(len(norms), rows[row]), np.arange(len(norms)))
            exact[rows[row]] = np.inf
            exact[~self.distinct] = np.inf
            found[row] = np.argpartition(exact, self.count - 1)[: self.count]
            shortest[row], lost[row] = exact[found[row]], False
        first, second = np.nonzero(lost)
        shortest[first, second] = self._exact(rows[first], found[first, second])

    def _exact(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Squared distances of the rows `first` to the rows `second`, pair by pair."""
        values, out = self.points.values, np.empty(len(first))
        step = max(1, _DIFFERENCES // values.shape[1])
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            gaps = values[first[part]] - values[second[part]]
            out[part] = np.einsum("ij,ij->i", gaps, gaps)
        return out
