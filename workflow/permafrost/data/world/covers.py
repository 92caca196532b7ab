"""Pixel-by-pixel material mixture of each land cover.

Every function returns ``{material: share}`` for the pixels of a site, with shares in [0, 1] that
sum to 1 per pixel. Scrubland and orchards have the same materials in the same amounts, residential
and industrial areas almost so: only the spatial arrangement distinguishes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from permafrost.data.world.fields import Site, soft_step

Mixture = dict[str, np.ndarray]


@dataclass(frozen=True)
class Season:
    """Properties of a whole scene: dryness, kind of forest, and progress of the harvest."""

    dryness: float
    broadleaf: float
    harvest: float


def water(site: Site, season: Season) -> Mixture:
    silt = soft_step(site.noise(40), site.rng.normal(0.3, 0.8), 2.5)
    return {"silty_water": silt, "clear_water": 1 - silt}


def forest(site: Site, season: Season) -> Mixture:
    kind = soft_step(site.noise(14, rough=0.3), 0.5 - season.broadleaf, 1.0)
    shade = 0.45 * soft_step(site.noise(1.2), 0.5, 2.0)
    return {"broadleaf": kind * (1 - shade), "conifer": (1 - kind) * (1 - shade), "shade": shade}


def scrubland(site: Site, season: Season) -> Mixture:
    return _bushes_over_grass(site, season, site.noise(1.6, rough=0.15))


def orchard(site: Site, season: Season) -> Mixture:
    cell, _ = site.parcels(34, stretch=1.4)
    return _bushes_over_grass(
        site, season, 1.2 * site.rows(cell, 4.5, 7.5) + 0.35 * site.noise(1.2)
    )


def _bushes_over_grass(site: Site, season: Season, pattern: np.ndarray) -> Mixture:
    bush = 0.85 * soft_step(pattern + 0.25 * site.noise(30), 0.15, 1.0)
    dry = np.clip(season.dryness + 0.2 * site.noise(18), 0, 1)
    return {
        "broadleaf": 0.6 * bush,
        "conifer": 0.25 * bush,
        "shade": 0.15 * bush,
        "dry_grass": (1 - bush) * dry,
        "grass": (1 - bush) * (1 - dry),
    }


def pasture(site: Site, season: Season) -> Mixture:
    cell, border = site.parcels(42, stretch=1.2)
    hedge = 0.8 * (1 - soft_step(border, 0.9, 1.0)) * (site.per_cell(cell) > 0.35)
    dry = season.dryness - 0.25 + 0.35 * (site.per_cell(cell) - 0.5)
    dry = np.clip(dry + 0.12 * site.noise(6, rough=0.4), 0, 1)
    return {"broadleaf": hedge, "grass": (1 - hedge) * (1 - dry), "dry_grass": (1 - hedge) * dry}


def cropland(site: Site, season: Season) -> Mixture:
    cell, border = site.parcels(26, stretch=2.0)
    stage = np.clip(site.per_cell(cell) + season.harvest, 0, 1)
    green = soft_step(0.45 - stage, 0, 0.15)
    bare = soft_step(stage, 0.75, 0.15) * (1 - green)
    uneven = 0.15 + 0.08 * site.noise(8, rough=0.4) + 0.06 * site.rows(cell, 3.5, 4.5)
    uneven = np.clip(uneven, 0, 1)
    margin = 0.6 * (1 - soft_step(border, 0.6, 1.0))
    crop = (1 - margin) * (1 - uneven)
    gaps = (1 - margin) * uneven
    dark = site.per_cell(cell)
    return {
        "grass": margin,
        "green_crop": crop * green,
        "ripe_crop": crop * (1 - green - bare),
        "soil": crop * bare * (1 - dark) + 0.5 * gaps,
        "dark_soil": crop * bare * dark + 0.5 * gaps,
    }


def residential(site: Site, season: Season) -> Mixture:
    _, border = site.parcels(15, stretch=1.8)
    lot, lot_border = site.parcels(3.6, stretch=1.1)
    street = 1 - soft_step(border, 0.8, 0.8)
    house = soft_step(lot_border, 0.55, 0.5) * (site.per_cell(lot) < 0.72)
    tree = soft_step(site.noise(1.4), 0.5, 1.0)
    return _built(site, season, _Lots(lot, street, house, tree, pale=0.35))


def industrial(site: Site, season: Season) -> Mixture:
    _, border = site.parcels(34, stretch=1.5)
    lot, lot_border = site.parcels(13, stretch=1.6)
    street = 1 - soft_step(border, 1.0, 0.8)
    house = soft_step(lot_border, 1.6, 0.6) * (site.per_cell(lot) < 0.7)
    tree = soft_step(site.noise(5), 0.6, 1.0)
    return _built(site, season, _Lots(lot, street, house, tree, pale=0.5))


class _Lots(NamedTuple):
    """Lots of a built-up area: lot number per pixel; shares of street, house and tree; share of pale roofs."""

    number: np.ndarray
    street: np.ndarray
    house: np.ndarray
    tree: np.ndarray
    pale: float


def _built(site: Site, season: Season, lots: _Lots) -> Mixture:
    street, tree = lots.street, lots.tree
    roof = (1 - street) * lots.house
    yard = (1 - street) * (1 - lots.house)
    kind = (site.per_cell(lots.number) < lots.pale).astype(np.float32)
    worn = 0.4 + 0.6 * site.per_cell(lots.number)
    paved = 0.3 * (1 - tree) * yard
    lawn = yard - paved - yard * tree
    return {
        "pale_roof": roof * kind * worn,
        "tile_roof": roof * (1 - kind) * worn,
        "asphalt": street + paved + roof * (1 - worn),
        "broadleaf": 0.8 * yard * tree,
        "shade": 0.2 * yard * tree,
        "grass": lawn * (1 - season.dryness),
        "dry_grass": lawn * season.dryness,
    }


COVERS: dict[str, Callable[[Site, Season], Mixture]] = {
    "water": water,
    "forest": forest,
    "scrubland": scrubland,
    "orchard": orchard,
    "pasture": pasture,
    "cropland": cropland,
    "residential": residential,
    "industrial": industrial,
}
