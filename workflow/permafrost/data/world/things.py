"""Objects of an aerial view: crowns, and objects that a detector might confuse with them; their materials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from permafrost.data.world import shapes, spectra
from permafrost.data.world.covers import Season


@dataclass(frozen=True)
class Kind:
    """Properties of one kind of object.

    Attributes
    ----------
    build : function ``(rng, radius)``, or ``(rng, radius, angle)`` for straight sides, that returns
        height and shape.
    materials : function ``(rng, season)`` that returns shares of materials with sum 1.
    diameter : median in metres. Diameters are log-normal, at most 2.2 `spread` from the median.
    spread : standard deviation of the logarithm of the diameter.
    gap : least distance of two centres, as a share of the sum of their radii.
    rough : standard deviation of the brightness inside one object; `vary`, between objects.
    crown : id of the class, or None if not a crown.
    built : id of the class among buildings and vehicles, or None.
    """

    build: Callable
    materials: Callable[[np.random.Generator, Season], dict[str, float]]
    diameter: float
    spread: float
    gap: float
    rough: float
    vary: float
    turned: bool = False
    crown: int | None = None
    built: int | None = None


def _broadleaf(rng, season: Season) -> dict[str, float]:
    dry = rng.beta(1.2, 4) * (0.5 + season.dryness)
    fresh = rng.uniform(0, 0.3)
    return _mix(dry_grass=dry, green_crop=fresh, shade=rng.uniform(0, 0.15), broadleaf=1)


def _conifer(rng, season: Season) -> dict[str, float]:
    return _mix(dry_grass=rng.uniform(0, 0.2), broadleaf=rng.beta(1, 4), conifer=1)


def _bush(rng, season: Season) -> dict[str, float]:
    return _mix(
        dry_grass=0.5 * season.dryness * rng.random(),
        grass=rng.uniform(0, 0.5),
        conifer=rng.uniform(0, 0.6),
        broadleaf=1,
    )


def _rock(rng, season: Season) -> dict[str, float]:
    return _mix(pale_roof=rng.uniform(0.1, 0.5), asphalt=0.5, soil=rng.uniform(0, 0.5), grass=0.1)


def _house(rng, season: Season) -> dict[str, float]:
    return _mix(tile_roof=rng.choice([0.05, 1]), asphalt=rng.random(), pale_roof=rng.beta(0.6, 2))


def _hall(rng, season: Season) -> dict[str, float]:
    return _mix(pale_roof=rng.random(), asphalt=rng.random())


def _tank(rng, season: Season) -> dict[str, float]:
    # some are painted green
    return _mix(pale_roof=rng.random(), conifer=rng.choice([0.0, 1.5]), asphalt=0.3)


def _bale(rng, season: Season) -> dict[str, float]:
    return _mix(ripe_crop=1, soil=rng.uniform(0, 0.4))


def _car(rng, season: Season) -> dict[str, float]:
    paint = rng.choice(["pale_roof", "tile_roof", "shade", "asphalt", "pale_roof", "clear_water"])
    return _mix(**{str(paint): 1.0})


def _mix(**parts: float) -> dict[str, float]:
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()}


#: classes of crowns, in the order of their ids
CROWNS = ["broadleaf", "conifer"]
#: classes of buildings and vehicles, in the order of their ids
BUILT = ["building", "vehicle"]
#: in the order of placement: buildings, plants, loose objects
KINDS: dict[str, Kind] = {
    "hall": Kind(shapes.hall, _hall, 28, 0.25, 1.0, 0.03, 0.1, turned=True, built=0),
    "house": Kind(shapes.house, _house, 14, 0.14, 0.95, 0.05, 0.12, turned=True, built=0),
    "tank": Kind(shapes.cylinder, _tank, 7.5, 0.25, 1.1, 0.03, 0.1),
    "broadleaf": Kind(shapes.broadleaf, _broadleaf, 8.4, 0.26, 0.7, 0.13, 0.13, crown=0),
    "conifer": Kind(shapes.conifer, _conifer, 6.0, 0.22, 0.7, 0.12, 0.13, crown=1),
    "car": Kind(shapes.car, _car, 4.8, 0.06, 0.7, 0.03, 0.2, turned=True, built=1),
    "bale": Kind(shapes.cylinder, _bale, 2.2, 0.1, 1.5, 0.08, 0.1),
    "rock": Kind(shapes.rock, _rock, 2.4, 0.35, 0.8, 0.12, 0.15),
    "bush": Kind(shapes.bush, _bush, 2.6, 0.3, 0.65, 0.14, 0.15),
}


@dataclass(frozen=True)
class Thing:
    """One object: its kind, its centre in pixels of the view, its radius in metres."""

    kind: str
    y: float
    x: float
    radius: float

    @property
    def crown(self) -> int | None:
        return KINDS[self.kind].crown

    def build(self, rng: np.random.Generator, angle: float) -> tuple[float, shapes.Shape]:
        """Its height in metres and its shape; `angle` rotates straight sides."""
        kind = KINDS[self.kind]
        return kind.build(rng, self.radius, angle) if kind.turned else kind.build(rng, self.radius)

    def reflectance(self, rng: np.random.Generator, season: Season) -> np.ndarray:
        """(13,) reflectance of the whole object in all bands, before light and texture."""
        kind = KINDS[self.kind]
        mixed = np.zeros(len(spectra.BANDS), np.float32)
        for material, share in kind.materials(rng, season).items():
            mixed += np.float32(share) * spectra.REFLECTANCE[spectra.MATERIALS.index(material)]
        return mixed * np.float32(rng.lognormal(0, kind.vary))
