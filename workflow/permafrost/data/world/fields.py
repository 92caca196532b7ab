"""Random fields of a landscape: smooth noise, parcels, rows. All seeded, all float32."""

from __future__ import annotations

import numpy as np


def smooth_noise(
    rng: np.random.Generator, size: int, length: float, *, rough: float = 0.0
) -> np.ndarray:
    """Periodic Gaussian noise (size, size) with mean 0 and variance 1.

    Parameters
    ----------
    length : correlation length in pixels (standard deviation of the Gaussian kernel).
    rough : in [0, 1); share of the variance in a field of a quarter of that length.
    """
    spectrum = np.fft.rfft2(rng.standard_normal((size, size), dtype=np.float32))
    square = (
        np.fft.fftfreq(size).astype(np.float32)[:, None] ** 2
        + np.fft.rfftfreq(size).astype(np.float32)[None, :] ** 2
    )

    def field(scale: float) -> np.ndarray:
        damped = spectrum * np.exp(np.float32(-2 * (np.pi * scale) ** 2) * square)
        filtered = np.fft.irfft2(damped, (size, size))
        filtered -= filtered.mean()
        return filtered / filtered.std()

    noise = field(length)
    if rough:
        noise = np.sqrt(1 - rough) * noise + np.sqrt(rough) * field(length / 4)
    return noise.astype(np.float32)


def enlarge(field: np.ndarray, factor: int) -> np.ndarray:
    """Bilinear enlargement of a periodic field."""
    for axis in (0, 1):
        nxt = np.roll(field, -1, axis=axis)
        steps = [field + (nxt - field) * (step / factor) for step in range(factor)]
        shape = list(field.shape)
        shape[axis] *= factor
        field = np.stack(steps, axis=axis + 1).reshape(shape)
    return field


def soft_step(field: np.ndarray, threshold: float | np.ndarray, width: float) -> np.ndarray:
    """0 below the threshold, 1 above, with a linear edge of the given width."""
    return np.clip((field - threshold) / width + 0.5, 0, 1)


class Site:
    """The pixels of one land cover in a scene; fields are (n,), one value per pixel.

    Parameters
    ----------
    here : bool (size, size), the pixels of the cover.
    """

    def __init__(self, rng: np.random.Generator, here: np.ndarray) -> None:
        self.rng = rng
        self.here = here
        self.y, self.x = (axis.astype(np.float32) for axis in np.nonzero(here))

    def noise(self, length: float, *, rough: float = 0.0) -> np.ndarray:
        """`smooth_noise` at the site's pixels."""
        return smooth_noise(self.rng, self.here.shape[0], length, rough=rough)[self.here]

    def parcels(self, spacing: float, *, stretch: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Cells around jittered grid points, rotated by a random angle.

        Returns
        -------
        cell : id of the cell of each pixel, below 2**16.
        border : distance to the cell's border, roughly in pixels.
        """
        angle = np.float32(self.rng.uniform(0, np.pi))
        u = (self.x * np.cos(angle) + self.y * np.sin(angle)) / np.float32(spacing)
        v = (self.y * np.cos(angle) - self.x * np.sin(angle)) / np.float32(spacing * stretch)
        column, row = np.floor(u).astype(np.int32), np.floor(v).astype(np.int32)
        jitter = self.rng.uniform(0.15, 0.85, (256, 256, 2)).astype(np.float32)
        best = np.full(u.shape, np.inf, np.float32)
        second = best.copy()
        cell = np.zeros(u.shape, np.int32)
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                r, c = (row + dr) & 255, (column + dc) & 255
                du = (column + dc - u) + jitter[r, c, 0]
                dv = (row + dr - v) + jitter[r, c, 1]
                distance = np.sqrt(du * du + dv * dv).astype(np.float32)
                nearer = distance < best
                second = np.where(nearer, best, np.minimum(second, distance))
                cell = np.where(nearer, r * 256 + c, cell)
                best = np.where(nearer, distance, best)
        return cell, (second - best) * np.float32(spacing / 2)

    def per_cell(self, cell: np.ndarray) -> np.ndarray:
        """A uniform number in [0, 1) for each cell."""
        return self.rng.random(2**16, dtype=np.float32)[cell]

    def rows(self, cell: np.ndarray, shortest: float, longest: float) -> np.ndarray:
        """A sine in [-1, 1] across straight rows; each cell has its direction, period and phase."""
        angle = self.per_cell(cell) * np.float32(np.pi)
        period = shortest + np.float32(longest - shortest) * self.per_cell(cell)
        across = self.x * np.cos(angle) + self.y * np.sin(angle)
        return np.sin(np.float32(2 * np.pi) * (across / period + self.per_cell(cell)))
