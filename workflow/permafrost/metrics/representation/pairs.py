"""All pairs of rows, a block of rows at a time: one product of matrices for all measures.

With centred rows c_i, the mean m and lengths l_i before centring, one product G = c c' gives both

    squared distances     |c_i|^2 + |c_j|^2 - 2 G_ij
    squared chords        2 - 2 (G_ij + c_i m + c_j m + |m|^2) / (l_i l_j)

where a chord is the distance of two rows scaled to length 1 (a row of zeros stays zero, as in
scikit-learn's ``normalize``). In float64; pairs of equal rows are at distance 0 exactly. If some
rows are far shorter than others, chords use a second product, of the scaled rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from permafrost.metrics.representation.points import Points

# bytes of one block of pairs; a visitor allocates a few arrays of this size
BLOCK_BYTES = 8 << 20
# directions whose squared chord is below this differ by rounding only
_SAME_DIRECTION = 16 * np.finfo(np.float64).eps
# centring makes the direction of a row this much shorter than the longest inaccurate
_SHORT = 1e-3


class Visitor(Protocol):
    """A measure of pairs."""

    def visit(self, block: Block) -> None:
        """Process a block; its arrays are shared and must not be changed."""


class Block:
    """Pairs of the rows [start, stop) with all N rows.

    Attributes
    ----------
    start, stop : the rows.
    squared, distances : (stop - start, N) squared distances and distances.
    squared_chords, chords : the same of rows scaled to length 1.
    """

    def __init__(self, pairs: _Pairs, start: int, stop: int) -> None:
        self.start, self.stop, self._pairs = start, stop, pairs
        values = pairs.points.values
        self._gram = values[start:stop] @ values.T

    @cached_property
    def squared(self) -> np.ndarray:
        norms = self._pairs.norms
        return self._settle(norms[self.start : self.stop, None] + norms - 2.0 * self._gram)

    @cached_property
    def squared_chords(self) -> np.ndarray:
        pairs, rows = self._pairs, slice(self.start, self.stop)
        if pairs.directions is not None:
            squared = pairs.directions[rows] @ pairs.directions.T
            squared *= -2.0
        else:
            squared = self._gram + pairs.offsets[rows, None]
            squared += pairs.shifted
            squared *= -2.0 * pairs.inverse[rows, None]
            squared *= pairs.inverse
        squared += pairs.directed[rows, None]
        squared += pairs.directed
        squared[squared < _SAME_DIRECTION] = 0.0
        return self._settle(squared)

    @cached_property
    def distances(self) -> np.ndarray:
        return np.sqrt(self.squared)

    @cached_property
    def chords(self) -> np.ndarray:
        return np.sqrt(self.squared_chords)

    def _settle(self, squared: np.ndarray) -> np.ndarray:
        """Remove rounding errors: clip negative squares, and set those of equal rows to 0."""
        np.maximum(squared, 0.0, out=squared)
        rows = np.arange(self.start, self.stop)
        squared[rows - self.start, rows] = 0.0
        for row in rows:
            equal = self._pairs.equals.get(self._pairs.points.first_equal[row])
            if equal is not None:
                squared[row - self.start, equal] = 0.0
        return squared


class _Pairs:
    """Data that the blocks share."""

    def __init__(self, points: Points) -> None:
        self.points = points
        values, lengths = points.values, points.lengths
        self.norms = np.einsum("ij,ij->i", values, values)
        self.offsets = values @ points.mean
        self.shifted = self.offsets + points.mean @ points.mean
        self.directed = (lengths > 0).astype(np.float64)
        self.inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        longest = lengths.max()
        short = bool((lengths[lengths > 0] < _SHORT * longest).any())
        whole = (values + points.mean) * self.inverse[:, None] if short else None
        self.directions = whole
        order = np.argsort(points.first_equal, kind="stable")
        firsts, starts = np.unique(points.first_equal[order], return_index=True)
        members = np.split(order, starts[1:])
        self.equals = {
            first: rows for first, rows in zip(firsts, members, strict=True) if len(rows) > 1
        }


def visit_pairs(points: Points, visitors: list[Visitor]) -> None:
    """Pass every ordered pair of rows to all visitors, in blocks of whole rows."""
    if not visitors:
        return
    pairs, rows = _Pairs(points), len(points)
    step = max(1, BLOCK_BYTES // (8 * rows))
    for start in range(0, rows, step):
        block = Block(pairs, start, min(rows, start + step))
        for visitor in visitors:
            visitor.visit(block)
