"""Chips of scenes: the windows that form each split of a demo dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.data.world import aerial
from permafrost.data.world import scene as scenes

#: origin of the fictitious projection, and its scale in degrees of latitude per metre
LON0, LAT0, DEGREES = 9.0, 47.0, 1 / 111_195
SCENE_SPACING_M = 60_000.0
#: a chip has the class that covers at least this share of it
DOMINANT = 0.5


@dataclass(frozen=True)
class Chip[Spec: scenes.SceneSpec | aerial.ViewSpec]:
    """A window of a scene or aerial view; ``label``: the dominant class if chips are cut by class."""

    scene: Spec
    top: int
    left: int
    size: int
    label: int | None = None

    @property
    def name(self) -> str:
        return f"scene{self.scene.number:03d}_{self.top:04d}_{self.left:04d}"

    def window(self, array: np.ndarray) -> np.ndarray:
        return array[..., self.top : self.top + self.size, self.left : self.left + self.size]

    def lonlat(self) -> tuple[float, float]:
        """Centre of the chip; scenes lie on a grid of ten columns."""
        row, column = divmod(self.scene.number, 10)
        down, right = self.scene.corner_m
        pixel_m = self.scene.pixel_m
        north = -row * SCENE_SPACING_M - down - (self.top + self.size / 2) * pixel_m
        east = column * SCENE_SPACING_M + right + (self.left + self.size / 2) * pixel_m
        lat = LAT0 + north * DEGREES
        return LON0 + east * DEGREES / float(np.cos(np.radians(LAT0))), lat


def by_class(
    specs: list[scenes.SceneSpec],
    count: int,
    size: int,
    layout: Callable[[scenes.SceneSpec], np.ndarray],
    classes: Sequence[str],
) -> list[Chip]:
    """`count` chips, equally many per class, spread over the scenes; two of a scene overlap by a quarter at most.

    `layout` returns the ids of the `classes` in a scene. Raises `PermafrostError` if the chips do
    not fit.
    """
    wanted = _shares(count, len(classes))
    pools = [_Pool(spec, size, layout(spec), len(classes)) for spec in specs]
    chosen: list[Chip] = []
    while any(wanted):
        # the class with the fewest free windows per missing chip goes first
        label = max(range(len(wanted)), key=lambda c: wanted[c] / (1 + _room(pools, c)))
        chip = _take(pools, label)
        if chip is None:
            raise _too_small(f"{wanted[label]} chips of class {classes[label]} find no place")
        chosen.append(chip)
        wanted[label] -= 1
    return _in_order(chosen)


def anywhere(specs: list, count: int, size: int) -> list[Chip]:
    """`count` chips at random grid positions, spread over the scenes; two of a scene overlap by a quarter at most.

    Raises
    ------
    PermafrostError : the chips do not fit.
    """
    chips = []
    for spec, number in zip(specs, _shares(count, len(specs)), strict=True):
        side = spec.size // size
        if number > side * side:
            raise _too_small(f"{number} chips do not fit into a scene of {side * side} places")
        rng = np.random.default_rng(derive_seed("chips", spec.seed, spec.number, size))
        places = rng.permutation(side * side)[:number]
        chips += [Chip(spec, int(p // side) * size, int(p % side) * size, size) for p in places]
    return _in_order(chips)


class _Pool:
    """Windows of one scene by dominant class, in random order; used ones block their neighbours."""

    def __init__(self, spec: scenes.SceneSpec, size: int, truth: np.ndarray, classes: int) -> None:
        self.spec, self.size, self.apart = spec, size, size * 3 // 4
        step = max(1, size // 8)
        rng = np.random.default_rng(derive_seed("chips", spec.seed, spec.number, size))
        self.used = 0
        self.places: list[np.ndarray] = []
        for label in range(classes):
            share = _window_means(truth == label, size)[::step, ::step]
            self.places.append(rng.permutation(np.argwhere(share >= DOMINANT) * step))

    def take(self, label: int) -> Chip:
        top, left = (int(corner) for corner in self.places[label][0])
        self.used += 1
        self.places = [
            found[(np.abs(found - (top, left)) >= self.apart).any(axis=1)] for found in self.places
        ]
        return Chip(self.spec, top, left, self.size, label)


def _room(pools: list[_Pool], label: int) -> int:
    return sum(len(pool.places[label]) for pool in pools)


def _take(pools: list[_Pool], label: int) -> Chip | None:
    """A chip from the scene with free windows and the fewest chips so far, so that no scene dominates."""
    open_ = [pool for pool in pools if len(pool.places[label])]
    return min(open_, key=lambda pool: pool.used).take(label) if open_ else None


def _in_order(chips: list[Chip]) -> list[Chip]:
    # sorted by scene, so that a scene is rendered once
    return sorted(chips, key=lambda chip: (chip.scene.number, chip.top, chip.left))


def _window_means(values: np.ndarray, size: int) -> np.ndarray:
    """Mean of every size x size window, by differences of cumulative sums."""
    total = np.pad(values.astype(np.int64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    sums = total[size:, size:] - total[:-size, size:] - total[size:, :-size] + total[:-size, :-size]
    return sums / size**2


def _shares(count: int, parts: int) -> list[int]:
    return [count // parts + (i < count % parts) for i in range(parts)]


def _too_small(problem: str) -> PermafrostError:
    return PermafrostError(problem, remedy="use fewer chips, more scenes or larger scenes")
