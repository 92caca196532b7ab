"""Appearance of each land cover from an aircraft: ground materials and density of objects.

The counterpart of ``covers``, whose larger pixels mix everything. Here trees and buildings are
objects instead of materials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from permafrost.data.world.canvas import PIXEL_M
from permafrost.data.world.covers import Mixture, Season
from permafrost.data.world.fields import Site, soft_step

#: darts thrown at each position of a planted row; the first hit is used
_DARTS = 2.2


class Plot(Site):
    """The pixels of one land cover in an aerial view; all lengths are in metres."""

    def __init__(self, rng: np.random.Generator, here: np.ndarray) -> None:
        super().__init__(rng, here)
        self.y, self.x = self.y * np.float32(PIXEL_M), self.x * np.float32(PIXEL_M)

    def noise(self, length: float, *, rough: float = 0.0) -> np.ndarray:
        return super().noise(length / PIXEL_M, rough=rough)

    def planted(self, along: float, across: float) -> np.ndarray:
        """True at the pixels of a rotated grid of positions."""
        angle = np.float32(self.rng.uniform(0, np.pi))
        u = self.x * np.cos(angle) + self.y * np.sin(angle) + self.rng.uniform(0, along)
        v = self.y * np.cos(angle) - self.x * np.sin(angle) + self.rng.uniform(0, across)
        inside = [
            np.abs((w + p / 2) % p - p / 2) < PIXEL_M / 2 for w, p in ((u, along), (v, across))
        ]
        return inside[0] & inside[1]


@dataclass(frozen=True)
class Land:
    """A cover's ground: shares of materials, and objects per hectare, per pixel (n,) or as one value."""

    ground: Mixture
    things: dict[str, np.ndarray | float]
    #: median diameters in metres that differ from the kind's own
    sizes: dict[str, float] = field(default_factory=dict)


def water(plot: Plot, season: Season) -> Land:
    silt = soft_step(plot.noise(30), 0.3, 2.5)
    return Land({"silty_water": silt, "clear_water": 1 - silt}, {})


def forest(plot: Plot, season: Season) -> Land:
    stand = soft_step(plot.noise(16), 0.6 - 1.2 * season.broadleaf, 0.8)
    thick = 200 * soft_step(plot.noise(11), -1.2, 1.0)
    litter = soft_step(plot.noise(1.5, rough=0.4), 0.3, 1.5)
    return Land(
        {"grass": 0.5 * litter, "green_crop": 0.4 * litter, "dark_soil": 1 - 0.9 * litter},
        {"broadleaf": thick * stand, "conifer": 1.7 * thick * (1 - stand), "bush": 60.0},
        {"broadleaf": 9.5, "conifer": 6.4},
    )


def scrubland(plot: Plot, season: Season) -> Land:
    clump = soft_step(plot.noise(9), 0.7, 1.4)
    stony = soft_step(plot.noise(6, rough=0.3), 1.0, 1.2)
    grass = _grass(plot, season.dryness, 0.25)
    ground = {name: (1 - 0.5 * stony) * share for name, share in grass.items()}
    return Land(
        {**ground, "soil": 0.5 * stony},
        {
            "broadleaf": 110 * clump,
            "conifer": 110 * clump * (1.1 - season.broadleaf / 2),
            "bush": 60 + 200 * clump,
            "rock": 70 * stony,
        },
        {"broadleaf": 6.2, "conifer": 5.0},
    )


def orchard(plot: Plot, season: Season) -> Land:
    cell, border = plot.parcels(90, stretch=1.4)
    spacing = plot.rng.uniform(7.5, 10.0)
    rows = plot.planted(spacing, spacing * plot.rng.uniform(1.0, 1.25)) & (border > 3)
    track = 1 - soft_step(border, 1.5, 0.8)
    grass = _grass(plot, season.dryness - 0.1, 0.15)
    ground = {name: (1 - track) * share for name, share in grass.items()}
    per_hectare = _DARTS * 10_000 / PIXEL_M**2
    return Land(
        {**ground, "soil": track},
        {"broadleaf": per_hectare * rows, "bush": 12.0, "car": 2 * track},
        {"broadleaf": spacing * 0.68},
    )


def pasture(plot: Plot, season: Season) -> Land:
    cell, border = plot.parcels(85, stretch=1.2)
    hedge = (border < 3) & (plot.per_cell(cell) > 0.4)
    return Land(
        _grass(plot, season.dryness - 0.25, 0.3),
        {
            "broadleaf": 10 + 300 * hedge,
            "conifer": 4 + 60 * hedge,
            "bush": 10 + 350 * hedge,
            "rock": 5.0,
        },
    )


def cropland(plot: Plot, season: Season) -> Land:
    cell, border = plot.parcels(75, stretch=2.0)
    stage = np.clip(plot.per_cell(cell) + season.harvest, 0, 1)
    green = (stage < 0.45).astype(np.float32)
    bare = (stage > 0.75) * (1 - green)
    margin = 1 - soft_step(border, 1.6, 0.6)
    furrow = np.clip(0.2 + 0.15 * plot.rows(cell, 1.6, 3.0) + 0.1 * plot.noise(5, rough=0.4), 0, 1)
    weeds = 0.8 * soft_step(plot.noise(1.8), 2.1, 0.3) * (1 - margin)
    crop = (1 - margin) * (1 - furrow) * (1 - weeds)
    dark = plot.per_cell(cell)
    soil = (1 - margin) * (1 - weeds) * (furrow + (1 - furrow) * bare)
    return Land(
        {
            "grass": margin,
            "green_crop": crop * green + weeds,
            "ripe_crop": crop * (1 - green - bare),
            "soil": soil * (1 - dark),
            "dark_soil": soil * dark,
        },
        {
            "broadleaf": 2 + 170 * (margin > 0),
            "conifer": 30 * (margin > 0),
            "bush": 300 * (margin > 0),
            "bale": 25 * (1 - green - bare),
        },
    )


def residential(plot: Plot, season: Season) -> Land:
    _, border = plot.parcels(62, stretch=1.5)
    street = 1 - soft_step(border, 3.0, 0.5)
    paved = 0.85 * soft_step(plot.noise(4), 1.2, 0.3) * (1 - street)
    lawn = _grass(plot, season.dryness, 0.2)
    ground = {name: (1 - street - paved) * share for name, share in lawn.items()}
    garden = border > 4.5
    return Land(
        {**ground, "asphalt": street + paved},
        {
            "house": 60 * (border > 10),
            "broadleaf": 55 * garden + 25 * ((border > 3) & ~garden),
            "conifer": 38 * garden,
            "bush": 110 * garden,
            "car": 40 * street,
        },
        {"broadleaf": 7.2, "conifer": 5.2},
    )


def industrial(plot: Plot, season: Season) -> Land:
    _, border = plot.parcels(95, stretch=1.5)
    street = 1 - soft_step(border, 4.0, 0.6)
    verge = soft_step(plot.noise(8), 0.2, 0.3) * (1 - street)
    lawn = _grass(plot, season.dryness, 0.2)
    ground = {name: verge * share for name, share in lawn.items()}
    return Land(
        {**ground, "asphalt": 1 - verge},
        {
            "hall": 14 * (border > 18),
            "tank": 14 * (border > 8),
            "broadleaf": 70 * verge,
            "conifer": 50 * verge,
            "bush": 90 * verge,
            "car": 90 * (1 - verge),
        },
        {"broadleaf": 6.0},
    )


def _grass(plot: Plot, dryness: float, uneven: float) -> Mixture:
    """Grass from dry to lush; lush grass is as green as leaves."""
    state = dryness + uneven * plot.noise(5, rough=0.4)
    dry = np.clip(state, 0, 1)
    lush = (1 - dry) * np.clip(1.2 - 3 * state, 0, 1)
    return {"grass": 1 - dry - lush, "dry_grass": dry, "green_crop": lush}


PLOTS: dict[str, Callable[[Plot, Season], Land]] = {
    "water": water,
    "forest": forest,
    "scrubland": scrubland,
    "orchard": orchard,
    "pasture": pasture,
    "cropland": cropland,
    "residential": residential,
    "industrial": industrial,
}
