"""Assign objects to the cells of a pyramid, once per split for all objects; no torch.

Boxes as in FCOS (Tian et al. 2019): a box is assigned to the cells whose centre is inside it, within
1.5 strides of the box's centre, on the level for the distance to its farthest side (`Pyramid.reaches`). If
several boxes compete, a cell gets the smallest, the first of equals. A point is assigned to the cells whose
centres are within a stride of it, in x and in y; a cell gets the nearest point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.probes.detection.pyramid import Level, Pyramid
from permafrost.probes.detection.stitching import ShownObjects

RADIUS, POINT_RADIUS = 1.5, 1.0
# objects compared at once
BLOCK = 8192


@dataclass(frozen=True)
class BatchTargets:
    """Targets of the cells of a batch; all other cells are background.

    Attributes
    ----------
    cells : (P,) indices of cells with an object among the B L cells of the batch, ascending.
    classes : (P,) class ids.
    places : (P, 4) or (P, 2) float32 targets of `Output.places`.
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


def assign(shown: ShownObjects, pyramid: Pyramid, *, points: bool) -> Targets:
    """Compute the targets of all samples."""
    learned = np.flatnonzero(shown.learned)
    find = _points_of if points else _boxes_of
    found = [
        find(shown.boxes[block], level, reach)
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
    places = np.concatenate([np.empty((0, 2 if points else 4)), *(f.places for _, f in pairs)])
    keys = shown.sample[owner] * pyramid.cells + cell
    # the best object of each cell is first
    order = np.lexsort((owner, rank, keys))
    order = order[np.diff(keys[order], prepend=-1) != 0]
    ignored = _ignored(shown, pyramid, points=points)
    return Targets(
        pyramid.cells,
        keys[order],
        shown.classes[owner[order]],
        places[order].astype(np.float32),
        np.setdiff1d(ignored, keys[order]),
        objects=len(learned),
        without_cell=len(learned) - len(np.unique(owner[order])),
    )


@dataclass(frozen=True)
class _Found:
    """Pairs of an object and a candidate cell of a level; the object of lowest rank gets the cell."""

    owner: np.ndarray
    cell: np.ndarray
    rank: np.ndarray
    places: np.ndarray


def _near(middles: np.ndarray, level: Level, radius: float):
    """(n, m, 2) columns and rows of cells around the middles, (n, m, 2) x and y of their centres,
    and (n, m) bool: they exist and are close enough."""
    stride = np.array(level.stride)
    span = np.arange(-int(radius + 1), int(radius + 1) + 1)
    around = np.stack(np.meshgrid(span, span), axis=-1).reshape(-1, 2)
    cells = np.floor(middles / stride).astype(np.int64)[:, None] + around
    centres = (cells + 0.5) * stride
    exist = ((cells >= 0) & (cells < np.array(level.size[::-1]))).all(axis=-1)
    close = (np.abs(centres - middles[:, None]) < radius * stride).all(axis=-1)
    return cells, centres, exist & close


def _boxes_of(boxes: np.ndarray, level: Level, reach: tuple[float, float]) -> _Found:
    cells, centres, fits = _near((boxes[:, :2] + boxes[:, 2:]) / 2, level, RADIUS)
    sides = np.concatenate([centres - boxes[:, None, :2], boxes[:, None, 2:] - centres], axis=-1)
    farthest = sides.max(axis=-1)
    fits &= (sides.min(axis=-1) > 0) & (farthest > reach[0]) & (farthest <= reach[1])
    owner, place = np.nonzero(fits)
    cell = cells[owner, place]
    width, height = (boxes[owner, 2:] - boxes[owner, :2]).T
    return _Found(
        owner,
        cell[:, 1] * level.size[1] + cell[:, 0],
        width * height,
        sides[owner, place] / np.tile(level.stride, 2),
    )


def _points_of(points: np.ndarray, level: Level, _reach) -> _Found:
    cells, centres, fits = _near(points[:, :2], level, POINT_RADIUS)
    owner, place = np.nonzero(fits)
    cell = cells[owner, place]
    away = (points[owner, :2] - centres[owner, place]) / np.array(level.stride)
    return _Found(owner, cell[:, 1] * level.size[1] + cell[:, 0], np.hypot(*away.T), away)


def _ignored(shown: ShownObjects, pyramid: Pyramid, *, points: bool) -> np.ndarray:
    """Keys of the cells whose centres are in objects that are not learned; for points, within a stride."""
    keys = [np.empty(0, np.int64)]
    regions = np.flatnonzero(~shown.learned)
    for level, start in zip(pyramid.predicted, pyramid.starts[:-1], strict=True):
        stride = np.array(level.stride)
        boxes = shown.boxes[regions] + (np.array([-1, -1, 1, 1]) * np.tile(stride, 2)) * points
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
