"""Points: two distances from the cell's centre, predicted on the finest level."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from permafrost.metrics.objects.shapes import PointShape
from permafrost.probes.detection.pyramid import Level, Pyramid
from permafrost.probes.detection.shapes.shape import Candidates, HeadShape, ShownObjects, near

RADIUS = 1.0


class PointHead(HeadShape):
    """Points. A point is assigned to the cells whose centres are within a stride of it, in x and in y; a cell
    gets the nearest point."""

    compared = PointShape()
    channels = width = 2
    sized, cut = False, False
    margin = 1

    def outputs(self, placed, scales):
        """Places: x and y of the point, in strides from the cell's centre."""
        offsets = [x * scale for x, scale in zip(placed, scales, strict=True)]
        return torch.cat(offsets, dim=1), None

    def losses(self, found, places, centred, kind):
        """Smooth L1."""
        return (functional.smooth_l1_loss(found, places, reduction="sum") / max(1, len(places)),)

    def learnable(self, shown, clipped, bounds, least) -> np.ndarray:
        """Points in the window."""
        return (clipped == shown.boxes).all(axis=1)

    def candidates(self, shown: ShownObjects, rows, level: Level, reach) -> Candidates:
        points = shown.boxes[rows, :2]
        cells, centres, fits = near(points, level, RADIUS)
        owner, place = np.nonzero(fits)
        cell = cells[owner, place]
        away = (points[owner] - centres[owner, place]) / np.array(level.stride)
        return Candidates(owner, cell[:, 1] * level.size[1] + cell[:, 0], np.hypot(*away.T), away)

    def decode(self, places, cells, pyramid: Pyramid, scale) -> dict:
        centres, strides = np.tile(pyramid.centres[cells], 2), np.tile(pyramid.strides[cells], 2)
        boxes = centres + np.tile(places, 2).astype(np.float64) * strides
        height, width = pyramid.working_size
        return {"boxes": boxes.clip(0, [width, height, width, height]) / np.tile(scale, 2)}

    def limit(self, share: float, detection: dict) -> float:
        """A share of the matching distance, in pixels."""
        return share * detection["match_distance"]
