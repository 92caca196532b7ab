"""Shapes of objects in an aerial view: ``shape(dy, dx) -> height, inside``.

Every function takes a random generator, so that objects differ, and the radius in metres. It
returns the height in metres and such a shape for `canvas.Canvas.put`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Shape = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Straight:
    """A shape over a rectangle.

    Attributes
    ----------
    along, across : half of its sides in metres.
    angle : of the first side, clockwise from the x axis where y points down, in radians.
    roof : function of the offsets along and across, in metres, that returns heights.
    """

    along: float
    across: float
    angle: float
    roof: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def __call__(self, dy: np.ndarray, dx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u, v = _turned(dy, dx, self.angle)
        return self.roof(u, v), (np.abs(u) < self.along) & (np.abs(v) < self.across)

    def corners(self) -> np.ndarray:
        """(4, 2) offsets of the corners from the centre in metres, x and y."""
        u, v = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]).T * [[self.along], [self.across]]
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return np.stack([cos * u - sin * v, sin * u + cos * v], axis=1)


def broadleaf(rng: np.random.Generator, radius: float) -> tuple[float, Shape]:
    """A dome of smaller domes with an uneven outline."""
    height = float(2.1 * (2 * radius) ** 0.75 * rng.lognormal(0, 0.12))
    outline = _outline(rng, (2, 3, 4, 5), 0.05)
    count = 5 + int(2 * radius)
    away = radius * 0.75 * np.sqrt(rng.random(count))
    around = rng.uniform(0, 2 * np.pi, count)
    sizes = radius * rng.uniform(0.28, 0.46, count)
    lumps = np.stack([away * np.sin(around), away * np.cos(around), sizes]).astype(np.float32)

    def shape(dy, dx):
        rho = np.hypot(dy, dx) / (radius * outline(dy, dx))
        dome = _dome(rho) * radius
        y, x, size = lumps[:, :, None, None]
        bumps = size**2 - (dy - y) ** 2 - (dx - x) ** 2
        bump = np.sqrt(np.maximum(bumps, 0)).max(axis=0)
        return height - 1.25 * radius + 0.75 * dome + 0.9 * bump, rho < 1

    return height, shape


def conifer(rng: np.random.Generator, radius: float) -> tuple[float, Shape]:
    """A cone with protruding branches."""
    height = float(3.0 * (2 * radius) ** 0.8 * rng.lognormal(0, 0.12))
    outline = _outline(rng, (int(rng.integers(7, 12)), 2), 0.09)

    def shape(dy, dx):
        rho = np.hypot(dy, dx) / (radius * outline(dy, dx))
        return height - min(0.7 * height, 2.4 * radius) * rho, rho < 1

    return height, shape


def bush(rng: np.random.Generator, radius: float) -> tuple[float, Shape]:
    """A low cushion."""
    height = float(radius * rng.uniform(0.5, 0.9))
    outline = _outline(rng, (2, 3, 4), 0.1)

    def shape(dy, dx):
        rho = np.hypot(dy, dx) / (radius * outline(dy, dx))
        return height * (0.3 + 0.7 * _dome(rho)), rho < 1

    return height, shape


def rock(rng: np.random.Generator, radius: float) -> tuple[float, Shape]:
    """A lump with flat sides."""
    height = float(radius * rng.uniform(0.4, 0.9))
    angles = np.sort(rng.uniform(0, 2 * np.pi, 6)).astype(np.float32)
    cuts = rng.uniform(0.6, 1.0, 6).astype(np.float32) * radius

    def shape(dy, dx):
        sides = [np.sin(a) * dy + np.cos(a) * dx - c for a, c in zip(angles, cuts, strict=True)]
        depth = -np.max([*sides, np.hypot(dy, dx) - radius], axis=0)
        return np.minimum(height, 0.25 + depth), depth > 0

    return height, shape


def cylinder(rng: np.random.Generator, radius: float) -> tuple[float, Shape]:
    """A tank or a bale."""
    height = float(radius * rng.uniform(0.7, 1.1))

    def shape(dy, dx):
        rho = np.hypot(dy, dx) / radius
        return height - 0.12 * radius * rho, rho < 1

    return height, shape


def house(rng: np.random.Generator, radius: float, angle: float) -> tuple[float, Shape]:
    """A gable roof over a rectangle with corners at distance `radius`."""
    ridge = rng.uniform(2.0, 3.5)
    wall = rng.uniform(2.8, 5.5)
    along, across = _sides(rng, radius, 1.2, 1.7)

    def roof(u, v):
        return wall + ridge * (1 - np.abs(v) / across)

    return float(wall + ridge), Straight(along, across, angle, roof)


def hall(rng: np.random.Generator, radius: float, angle: float) -> tuple[float, Shape]:
    """A flat roof."""
    height = rng.uniform(5.0, 9.0)
    along, across = _sides(rng, radius, 1.2, 2.2)

    def roof(u, v):
        return np.full(np.broadcast_shapes(u.shape, v.shape), height, np.float32)

    return float(height), Straight(along, across, angle, roof)


def car(rng: np.random.Generator, radius: float, angle: float) -> tuple[float, Shape]:
    """A box with a cabin."""
    along, across = _sides(rng, radius, 2.2, 2.6)

    def roof(u, v):
        return 0.9 + 0.6 * np.clip(1.6 - np.abs(u + 0.1 * along) / (0.6 * along), 0, 1)

    return 1.5, Straight(along, across, angle, roof)


def _outline(rng: np.random.Generator, waves: tuple[int, ...], amount: float):
    """Relative distance of the edge by direction, about 1."""
    sizes = amount * rng.uniform(0.5, 1.5, len(waves))
    phases = rng.uniform(0, 2 * np.pi, len(waves))

    def at(dy, dx):
        angle = np.arctan2(dy, dx)
        edge = sum(s * np.cos(w * angle + p) for w, s, p in zip(waves, sizes, phases, strict=True))
        return (1 - sizes.sum() / 2 + edge).astype(np.float32)

    return at


def _dome(rho: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(1 - rho**2, 0.0))


def _sides(rng: np.random.Generator, radius: float, low: float, high: float) -> tuple[float, float]:
    """Half side lengths of a rectangle with half diagonal `radius` and side ratio between `low` and `high`."""
    ratio = rng.uniform(low, high)
    across = radius / np.hypot(1, ratio)
    return float(ratio * across), float(across)


def _turned(dy: np.ndarray, dx: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return cos * dx + sin * dy, cos * dy - sin * dx
