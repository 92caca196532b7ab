"""Positions and sizes of the objects in an aerial view."""

from __future__ import annotations

import numpy as np

from permafrost.data.world.canvas import PIXEL_M
from permafrost.data.world.things import KINDS, Thing

_HECTARE = 10_000.0
#: largest deviation of log diameters from their median, in standard deviations
_WIDEST = 2.2


def throw(rng: np.random.Generator, density: np.ndarray, median: np.ndarray, kind: str):
    """Candidate positions of one kind: an inhomogeneous Poisson process with sizes.

    Parameters
    ----------
    density : (size, size) objects per hectare.
    median : (size, size) median diameters in metres.

    Returns
    -------
    (n, 3) rows of y and x in pixels and the radius in metres, in random order.
    """
    y, x = np.nonzero(density)
    hits = rng.poisson(density[y, x] * (PIXEL_M**2 / _HECTARE))
    y, x = rng.permutation(np.stack([y, x], axis=1).repeat(hits, axis=0)).T
    spread = np.clip(rng.standard_normal(len(y)), -_WIDEST, _WIDEST) * KINDS[kind].spread
    radius = median[y, x] * np.exp(spread) / 2
    return np.stack([y + rng.random(len(y)), x + rng.random(len(x)), radius], axis=1)


def settle(darts: dict[str, np.ndarray]) -> list[Thing]:
    """Place objects at candidate positions with enough room, in the order of `KINDS`.

    The distance of two objects is at least the sum of their radii times the mean of their kinds'
    gaps: crowns may overlap, buildings may not.
    """
    places = np.empty((sum(map(len, darts.values())), 4))
    things: list[Thing] = []
    for name, kind in KINDS.items():
        for y, x, radius in darts.get(name, ()):
            taken = places[: len(things)]
            gaps = (taken[:, 2] + radius) * (taken[:, 3] + kind.gap) / 2 / PIXEL_M
            if ((taken[:, 0] - y) ** 2 + (taken[:, 1] - x) ** 2 < gaps**2).any():
                continue
            places[len(things)] = y, x, radius, kind.gap
            things.append(Thing(name, float(y), float(x), float(radius)))
    return things
