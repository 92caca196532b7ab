"""Upright boxes as in FCOS (Tian et al. 2019): distances from the cell's centre to the sides, and centre-ness."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.shapes import ObjectShape
from permafrost.probes.detection.losses import BOX_LOSSES, centreness
from permafrost.probes.detection.pyramid import Level, Pyramid
from permafrost.probes.detection.shapes.shape import Candidates, HeadShape, ShownObjects, near

RADIUS = 1.5


class UprightHead(HeadShape):
    """Upright boxes. A box is assigned to the cells whose centre is inside it, within 1.5 strides of the box's
    centre, on the level for the distance to its farthest side (`Pyramid.reaches`). If several boxes compete, a cell
    gets the smallest, the first of equals."""

    compared = ObjectShape()
    # the last channel is centre-ness
    channels, width = 5, 4

    def outputs(self, placed, scales):
        """Places: distances to the left, upper, right and lower side in strides, above 0."""
        sides = [(x[..., :4] * scale).exp() for x, scale in zip(placed, scales, strict=True)]
        return torch.cat(sides, dim=1), torch.cat([x[..., 4] for x in placed], dim=1)

    def losses(self, found, places, centred, kind):
        """The loss of boxes, weighted by centre-ness, and the cross-entropy of centre-ness."""
        central = centreness(places)
        losses = self.distance(found, places, kind) * central
        entropy = functional.binary_cross_entropy_with_logits(centred, central, reduction="sum")
        return losses.sum() / central.sum().clamp(min=1e-6), entropy / max(1, len(places))

    def distance(self, found, places, kind: str) -> torch.Tensor:
        """(P,) losses of the boxes of cells."""
        return BOX_LOSSES[kind](found, places)

    def learnable(self, shown, clipped, bounds, least) -> np.ndarray:
        """Objects of which more than `least` of the box is in the window."""
        whole, seen = (_areas(each) for each in (shown.boxes, clipped))
        return seen > least * whole

    def candidates(self, shown: ShownObjects, rows, level: Level, reach) -> Candidates:
        boxes = shown.boxes[rows]
        cells, centres, fits = near((boxes[:, :2] + boxes[:, 2:]) / 2, level, RADIUS)
        sides = np.concatenate(
            [centres - boxes[:, None, :2], boxes[:, None, 2:] - centres], axis=-1
        )
        farthest = sides.max(axis=-1)
        fits &= (sides.min(axis=-1) > 0) & (farthest > reach[0]) & (farthest <= reach[1])
        owner, place = np.nonzero(fits)
        cell = cells[owner, place]
        width, height = (boxes[owner, 2:] - boxes[owner, :2]).T
        return Candidates(
            owner,
            cell[:, 1] * level.size[1] + cell[:, 0],
            width * height,
            sides[owner, place] / np.tile(level.stride, 2),
        )

    def decode(self, places, cells, pyramid: Pyramid, scale) -> dict:
        height, width = pyramid.working_size
        boxes = corners(places, cells, pyramid)
        return {"boxes": boxes.clip(0, [width, height, width, height]) / np.tile(scale, 2)}

    def real(self, found: Detected) -> np.ndarray:
        return (found.boxes[:, 2:] > found.boxes[:, :2]).all(axis=1)

    def suppress(self, found: Detected, threshold: float) -> Detected:
        if len(found) < 2:
            return found
        # shift each class, so that boxes of different classes do not overlap
        apart = found.boxes.max() - min(found.boxes.min(), 0.0) + 1
        boxes = found.boxes + (found.classes * apart)[:, None]
        kept = _nms()(torch.from_numpy(boxes), torch.from_numpy(found.scores), threshold)
        return found.take(kept.numpy())


def corners(places: np.ndarray, cells: np.ndarray, pyramid: Pyramid) -> np.ndarray:
    """(n, 4) corners in working pixels, from `places` in strides from the centres of `cells`."""
    centres, strides = np.tile(pyramid.centres[cells], 2), np.tile(pyramid.strides[cells], 2)
    return centres + places.astype(np.float64) * np.array([-1, -1, 1, 1]) * strides


def _areas(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


@cache
def _nms():
    """The compiled function of ``torchvision.ops.nms``.

    Importing torchvision also imports torch's compiler, which takes five seconds per job; loading only its
    compiled library takes milliseconds.
    """
    package = find_spec("torchvision")
    folder = Path(package.origin).parent if package is not None and package.origin else Path()
    for library in sorted(folder.glob("_C*.so")) if package is not None else ():
        torch.ops.load_library(library)
    if hasattr(torch.ops.torchvision, "nms"):
        return torch.ops.torchvision.nms
    from torchvision.ops import nms

    return nms
