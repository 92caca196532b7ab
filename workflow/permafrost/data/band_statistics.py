"""What is known of each band after one pass: mean, deviation, range, percentiles, and a sample of pixels."""

from __future__ import annotations

import numpy as np

from permafrost.data.value_counts import ValueCounts

#: percentiles in the card, under ``p2`` and ``p98``
PERCENTILES = (2, 98)
#: at most so many rows and columns of an image are in the sample
_GRID = 16
#: and so many values of all images, but not fewer images than these: a batch has no more
_SAMPLE = 2**21
_FEWEST = 16


class BandStatistics:
    """Accumulates images; blocks are merged by Chan, Golub and LeVeque (1983), so nothing cancels.

    What it holds depends on the order of the images, and not on how they were divided between accumulators
    that were merged in this order.
    """

    def __init__(self, bands: int) -> None:
        self.count = np.zeros(bands)
        self.mean = np.zeros(bands)
        self.squares = np.zeros(bands)
        self.low = np.full(bands, np.inf)
        self.high = np.full(bands, -np.inf)
        self.values = [ValueCounts() for _ in range(bands)]
        self.sample = PixelSample(max(_FEWEST, _SAMPLE // (bands * _GRID**2)))

    def add(self, image: np.ndarray, leave_out: np.ndarray | None = None) -> None:
        """One image (C, H, W), or several of one size (n, C, H, W).

        Parameters
        ----------
        leave_out : bool of the same shape, True for pixels that do not count.
        """
        block = BandStatistics(len(self.count))
        for band in range(image.shape[-3]):
            stored = image[..., band, :, :]
            if leave_out is not None:
                stored = stored[~leave_out[..., band, :, :]]
            if stored.size:
                block.count[band] = stored.size
                block.low[band], block.high[band] = stored.min(), stored.max()
                block.values[band] = ValueCounts.of(stored)
                values = stored.astype(np.float64)
                block.mean[band] = values.mean()
                values -= block.mean[band]
                block.squares[band] = np.square(values, out=values).sum()
        for number, one in enumerate(image if image.ndim == 4 else [image]):
            gone = leave_out if leave_out is None or image.ndim == 3 else leave_out[number]
            block.sample.add(one, gone)
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
        for own, seen in zip(self.values, other.values, strict=True):
            own.merge(seen)
        self.sample.merge(other.sample)

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation."""
        return np.sqrt(self.squares / np.maximum(self.count, 1))

    def of_band(self, band: int) -> dict[str, float]:
        """The statistics of stored values that the card has of a band."""
        percentiles = {f"p{q}": self.values[band].percentile(q) for q in PERCENTILES}
        known = {"mean": self.mean, "std": self.std, "min": self.low, "max": self.high}
        return {**{name: float(values[band]) for name, values in known.items()}, **percentiles}


class PixelSample:
    """Pixels on a grid of every k-th image, k a power of two: of at most `images` images."""

    def __init__(self, images: int) -> None:
        self.images = images
        self.every = 1
        self.seen = 0
        self._kept: list[np.ndarray] = []

    def add(self, image: np.ndarray, leave_out: np.ndarray | None = None) -> None:
        """One image (C, H, W); `leave_out` as in `BandStatistics.add`."""
        self._take(1, [_on_a_grid(image, leave_out)] if self.seen % self.every == 0 else [])

    def merge(self, other: PixelSample) -> None:
        """Add what another sample of as many images at most has seen."""
        while self.every < other.every:
            self._thin()
        # of images that follow, those count whose number in the whole is a multiple
        numbers = range(self.seen, self.seen + other.seen, other.every)
        kept = zip(numbers, other._kept, strict=True)
        self._take(other.seen, [pixels for number, pixels in kept if number % self.every == 0])

    def _take(self, seen: int, pixels: list[np.ndarray]) -> None:
        self.seen += seen
        self._kept += pixels
        while len(self._kept) > self.images:
            self._thin()

    def _thin(self) -> None:
        self._kept, self.every = self._kept[::2], 2 * self.every

    @property
    def pixels(self) -> np.ndarray:
        """(C, n) stored values."""
        return np.concatenate(self._kept, axis=1)


def _on_a_grid(image: np.ndarray, leave_out: np.ndarray | None) -> np.ndarray:
    """(C, n) of the pixels that have data in all bands."""
    steps = tuple(slice(None, None, -(-side // _GRID)) for side in image.shape[1:])
    thinned = image[:, *steps].reshape(len(image), -1)
    if leave_out is None:
        return thinned.copy()
    return thinned[:, ~leave_out[:, *steps].any(axis=0).ravel()]
