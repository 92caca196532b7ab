"""Oriented boxes: centre, sides, and an angle that the head says in numbers that never jump.

An angle has two places where numbers jump: half a turn gives the same box, and so does a quarter of a turn of a
square. A head that must jump learns badly there. So the targets of a cell are

    dx, dy                          from the cell's centre to the box's, in strides of the level
    w, h                            the longer and the shorter side, in strides
    e cos 2t, e sin 2t              the direction t of the longer side, with e = (w² - h²) / (w² + h²)
    cos 4t, sin 4t                  the direction of the sides, whichever is longer

All change continuously with the box, also where the sides change their roles (e is 0 there). The last pair gives the
direction to a quarter of a turn, as precisely for squares as for long boxes; the pair before it says which of the two
directions is that of the longer side. Two frequencies for long and square boxes are those of Yu and Da (2023,
Phase-Shifting Coder, dual-frequency).

The first six numbers are also the box's Gaussian: its mean is the centre, its covariance (w² + h²) / 24 times the
identity plus the second pair as a symmetric matrix without trace. Its loss is the Hellinger distance of the Gaussians
of target and prediction (Llerena et al. 2021, Probabilistic IoU), which is continuous in all numbers, and smaller
angles matter more the longer the box. The angles' numbers also have a smooth L1 loss, since the Gaussian of a square
has no direction.
"""

from __future__ import annotations

import numpy as np
import shapely
import torch
from torch.nn import functional

from permafrost.data.labels.geometries import POLYGON
from permafrost.data.labels.objects import Objects
from permafrost.data.labels.oriented import area_of, corners_of, enclosing, rotated_of
from permafrost.data.labels.rectangles import rectangle_around
from permafrost.metrics.objects.detected import OUTLINES, Detected, outlines_column
from permafrost.metrics.objects.shapes import OrientedShape
from permafrost.probes.detection.losses import hellinger
from permafrost.probes.detection.pyramid import Level, Pyramid
from permafrost.probes.detection.shapes.shape import Candidates, HeadShape, ShownObjects, near

RADIUS = 1.5
# centre-ness of the nearest cells of a box that covers no cell's centre
LEAST_CENTRED = 0.1
# share of the angles' loss in that of the box
ANGLES = 0.5
# longest side of a detection in strides; the exponential of an early epoch may be infinite
LONGEST = 1e6


class OrientedHead(HeadShape):
    """Oriented boxes. A box is assigned to the cells whose centre is inside it, within 1.5 strides of the box's
    centre, and to the cell in which that lies, so that no thin box is without a cell; on the level for the distance to
    its farthest side (`Pyramid.reaches`). If several boxes compete, a cell gets the smallest, the first of equals.

    A window learns the whole of an object that its edge cuts.
    """

    compared = OrientedShape()
    # eight numbers of the box, and centre-ness; targets have its value last
    channels, width = 9, 9

    def outputs(self, placed, scales):
        """Places: the numbers above."""
        levels = [
            torch.cat([x[..., :2] * scale, (x[..., 2:4] * scale).exp(), x[..., 4:8]], dim=-1)
            for x, scale in zip(placed, scales, strict=True)
        ]
        return torch.cat(levels, dim=1), torch.cat([x[..., 8] for x in placed], dim=1)

    def losses(self, found, places, centred, kind):
        """Distance of the boxes and of their angles, weighted by centre-ness, and cross-entropy of centre-ness."""
        central, number = places[:, 8], max(1, len(places))
        apart = hellinger(found, places)
        angles = functional.smooth_l1_loss(found[:, 4:8], places[:, 4:8], reduction="none")
        losses = (apart + ANGLES * angles.sum(dim=1)) * central
        entropy = functional.binary_cross_entropy_with_logits(centred, central, reduction="sum")
        return losses.sum() / central.sum().clamp(min=1e-6), entropy / number

    def outlines(self, objects: list[Objects]) -> np.ndarray:
        return np.concatenate([np.empty((0, 4, 2)), *(self.compared.of(each) for each in objects)])

    def learnable(self, shown, clipped, bounds, least) -> np.ndarray:
        """Objects of which more than `least` of the area is in the window."""
        shapes = shapely.polygons(shown.outlines)
        seen = shapely.area(shapely.intersection(shapes, shapely.box(*bounds.T)))
        return seen > least * area_of(shown.outlines)

    def candidates(self, shown: ShownObjects, rows, level: Level, reach) -> Candidates:
        x, y, width, height, angle = rotated_of(shown.outlines[rows], "le90").T
        middles = np.stack([x, y], axis=1)
        cells, centres, fits = near(middles, level, RADIUS)
        away = centres - middles[:, None]
        inside, farthest, central = _inside(away, width, height, angle)
        own = (cells == np.floor(middles / np.array(level.stride))[:, None]).all(axis=-1)
        fits &= (inside | own) & (farthest > reach[0]) & (farthest <= reach[1])
        owner, place = np.nonzero(fits)
        cell = cells[owner, place]
        spread = (width**2 - height**2) / np.maximum(width**2 + height**2, 1e-12)
        numbers = [
            *(-away[owner, place] / level.step).T,
            *(side[owner] / level.step for side in (width, height)),
            *(spread[owner] * turn(2 * angle[owner]) for turn in (np.cos, np.sin)),
            *(turn(4 * angle[owner]) for turn in (np.cos, np.sin)),
            central[owner, place],
        ]
        return Candidates(
            owner,
            cell[:, 1] * level.size[1] + cell[:, 0],
            (width * height)[owner],
            np.stack(numbers, axis=1),
        )

    def decode(self, places, cells, pyramid: Pyramid, scale) -> dict:
        places = places.astype(np.float64)
        steps = np.sqrt(pyramid.strides[cells].prod(axis=1))[:, None]
        middles = pyramid.centres[cells] + places[:, :2] * steps
        sides = np.minimum(places[:, 2:4], LONGEST) * steps
        numbers = np.hstack([middles, sides, angles_of(places)[:, None]])
        corners = corners_of(numbers, "le90") / scale
        if scale[0] != scale[1]:
            # a stretched rectangle is none
            corners = corners_of(rotated_of(corners, "le90"), "le90")
        return {"boxes": enclosing(corners), "outlines": corners.reshape(-1, 8)}

    def real(self, found: Detected) -> np.ndarray:
        """(M,) bool: those with an area and a finite outline."""
        return area_of(self.compared.of(found)) > 0

    def drawn(self, found: Detected) -> tuple[str, np.ndarray]:
        return POLYGON, shapely.polygons(self.compared.of(found))

    def joined(self, found: Detected, groups: list[list[int]]) -> Detected:
        corners = self.compared.of(found)
        made = [
            corners[group[0]] if len(group) == 1 else rectangle_around(corners[group])
            for group in groups
        ]
        outlines = np.array(made, np.float64).reshape(-1, 4, 2)
        first = found.take([group[0] for group in groups])
        return Detected(enclosing(outlines), first.classes, first.scores, outlines.reshape(-1, 8))

    def coco_truth(self, objects: Objects, size: tuple[int, int]) -> list[dict]:
        return [{"segmentation": polygon} for polygon in objects.polygons]

    def coco_found(self, found: Detected) -> list[dict]:
        return [{"segmentation": [ring]} for ring in self._rings(found)]

    def columns(self, found: list[Detected]) -> dict:
        return {OUTLINES: outlines_column(found)}

    def _rings(self, found: Detected) -> list[list[float]]:
        return self.compared.of(found).reshape(-1, 8).tolist()


def angles_of(places: np.ndarray) -> np.ndarray:
    """(n,) directions of the longer side in radians: of the two that the last pair of numbers leaves, that of the
    pair before."""
    quarter = np.arctan2(places[:, 7], places[:, 6]) / 4
    along = np.cos(2 * quarter) * places[:, 4] + np.sin(2 * quarter) * places[:, 5]
    return np.where(along < 0, quarter + np.pi / 2, quarter)


def _inside(
    away: np.ndarray, width: np.ndarray, height: np.ndarray, angle: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of cells (n, m, 2) away from the centres of n boxes: whether they are inside, (n, m); the distance to the
    farthest side of the box; and the centre-ness as for upright boxes, at least `LEAST_CENTRED`."""
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    along = np.abs(away[..., 0] * cos + away[..., 1] * sin)
    across = np.abs(away[..., 1] * cos - away[..., 0] * sin)
    near_side = np.stack([width[:, None] / 2 - along, height[:, None] / 2 - across])
    far_side = np.stack([width[:, None] / 2 + along, height[:, None] / 2 + across])
    central = np.sqrt((near_side.clip(0) / np.maximum(far_side, 1e-12)).prod(axis=0))
    return (
        (near_side > 0).all(axis=0),
        far_side.max(axis=0),
        central.clip(LEAST_CENTRED),
    )
