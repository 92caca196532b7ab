"""Mean, standard deviation, minimum and maximum per band, in one pass, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class BandStatistics:
    """Accumulates images; blocks are merged by Chan, Golub and LeVeque (1983), so nothing cancels."""

    def __init__(self, bands: int) -> None:
        self.count = np.zeros(bands)
        self.mean = np.zeros(bands)
        self.squares = np.zeros(bands)
        self.low = np.full(bands, np.inf)
        self.high = np.full(bands, -np.inf)

    def add(self, image: np.ndarray, leave_out: np.ndarray | None = None) -> None:
        """One image (C, H, W), or several of one size (n, C, H, W).

        Parameters
        ----------
        leave_out : bool of the same shape, True for pixels that do not count.
        """
        block = BandStatistics(len(self.count))
        for band in range(image.shape[-3]):
            values = image[..., band, :, :].astype(np.float64)
            if leave_out is not None:
                values = values[~leave_out[..., band, :, :]]
            if values.size:
                block.count[band] = values.size
                block.mean[band] = values.mean()
                block.low[band], block.high[band] = values.min(), values.max()
                values -= block.mean[band]
                block.squares[band] = np.square(values, out=values).sum()
        self.merge(block)

    def merge(self, other: BandStatistics) -> None:
        """Add what another accumulator has seen."""
        total = np.maximum(self.count + other.count, 1)
        delta = other.mean - self.mean
        self.squares += other.squares + delta**2 * self.count * other.count / total
        self.mean += delta * other.count / total
        self.count += other.count
        self.low = np.minimum(self.low, other.low)
        self.high = np.maximum(self.high, other.high)

    @classmethod
    def beside(cls, parts: Sequence[BandStatistics]) -> BandStatistics:
        """Those of the bands of several modalities, one after the other."""
        joined = cls(0)
        for name in vars(joined):
            setattr(joined, name, np.concatenate([getattr(part, name) for part in parts]))
        return joined

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation."""
        return np.sqrt(self.squares / np.maximum(self.count, 1))
