"""Assign objects to the cells of a pyramid, once per split for all objects.

Which cells an object can have, and which object a cell prefers, is said by its shape (`probes.detection.shapes`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.probes.detection.pyramid import Pyramid
from permafrost.probes.detection.shapes.shape import HeadShape, ShownObjects

# objects compared at once
BLOCK = 8192


@dataclass(frozen=True)
class BatchTargets:
    """Targets of the cells of a batch; all other cells are background.

    Attributes
    ----------
    cells : (P,) indices of cells with an object among the B L cells of the batch, ascending.
    classes : (P,) class ids.
    places : (P, n) float32 targets of `Output.places`.
    ignored : (Q,) indices of cells without a loss.
    """

    cells: np.ndarray
    classes: np.ndarray
    places: np.ndarray
    ignored: np.ndarray


@dataclass(frozen=True)
class Targets:
    """Targets of all cells of a split.

    Attributes
    ----------
    cells : L, number of cells of a sample.
    keys : (P,) sample times L plus cell, ascending.
    classes, places : targets of `keys`, as in `BatchTargets`.
    ignored : (Q,) keys of cells without a loss, ascending.
    objects, without_cell : number of learned objects, and of those without a cell, because they are too
        small or other objects got all their cells.
    """

    cells: int
    keys: np.ndarray
    classes: np.ndarray
    places: np.ndarray
    ignored: np.ndarray
    objects: int
    without_cell: int

    def of(self, rows: np.ndarray) -> BatchTargets:
        """The targets of a batch of these samples."""
        picked, cells = self._find(self.keys, rows)
        _, ignored = self._find(self.ignored, rows)
        return BatchTargets(cells, self.classes[picked], self.places[picked], ignored)

    def _find(self, keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions in `keys` of the samples `rows`, and their cells in the batch."""
        low = np.searchsorted(keys, rows * self.cells)
        counts = np.searchsorted(keys, (rows + 1) * self.cells) - low
        ends = np.cumsum(counts)
        picked = np.repeat(low - ends + counts, counts) + np.arange(counts.sum())
        batch = np.repeat(np.arange(len(rows)) * self.cells, counts)
        return picked, batch + keys[picked] % self.cells


def assign(shown: ShownObjects, pyramid: Pyramid, shape: HeadShape) -> Targets:
    """Compute the targets of all samples."""
    learned = np.flatnonzero(shown.learned)
    found = [
        shape.candidates(shown, block, level, reach)
        for start in range(0, len(learned), BLOCK)
        for block in [learned[start : start + BLOCK]]
        for level, reach in zip(pyramid.predicted, pyramid.reaches, strict=True)
    ]
    blocks = [
        (learned[start : start + BLOCK], first)
        for start in range(0, len(learned), BLOCK)
        for first in pyramid.starts[:-1]
    ]
    pairs = list(zip(blocks, found, strict=True))
    nothing = np.empty(0, np.int64)
    owner = np.concatenate([nothing, *(block[f.owner] for (block, _), f in pairs)])
    cell = np.concatenate([nothing, *(first + f.cell for (_, first), f in pairs)])
    rank = np.concatenate([np.empty(0), *(f.rank for _, f in pairs)])
    places = np.concatenate([np.empty((0, shape.width)), *(f.places for _, f in pairs)])
    keys = shown.sample[owner] * pyramid.cells + cell
    # the best object of each cell is first
    order = np.lexsort((owner, rank, keys))
    order = order[np.diff(keys[order], prepend=-1) != 0]
    ignored = _ignored(shown, pyramid, shape.margin)
    return Targets(
        pyramid.cells,
        keys[order],
        shown.classes[owner[order]],
        places[order].astype(np.float32),
        np.setdiff1d(ignored, keys[order]),
        objects=len(learned),
        without_cell=len(learned) - len(np.unique(owner[order])),
    )


def _ignored(shown: ShownObjects, pyramid: Pyramid, margin: int) -> np.ndarray:
    """Keys of the cells whose centres are in the boxes of objects that are not learned, or within `margin` strides."""
    keys = [np.empty(0, np.int64)]
    regions = np.flatnonzero(~shown.learned)
    for level, start in zip(pyramid.predicted, pyramid.starts[:-1], strict=True):
        stride = np.array(level.stride)
        boxes = shown.boxes[regions] + (np.array([-1, -1, 1, 1]) * np.tile(stride, 2)) * margin
        low = np.ceil(boxes[:, :2] / stride - 0.5).astype(np.int64).clip(0)
        high = np.floor(boxes[:, 2:] / stride - 0.5).astype(np.int64) + 1
        high = np.minimum(high, level.size[::-1])
        for row, (left, top), (right, bottom) in zip(
            shown.sample[regions].tolist(), low.tolist(), high.tolist(), strict=True
        ):
            lines = np.arange(top, max(top, bottom))[:, None] * level.size[1]
            cells = lines + np.arange(left, max(left, right))
            keys.append(row * pyramid.cells + start + cells.reshape(-1))
    return np.unique(np.concatenate(keys))
