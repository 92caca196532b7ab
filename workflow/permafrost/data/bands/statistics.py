"""Band statistics in one pass: mean, standard deviation, range, percentiles and a sample of pixels.

Integers of up to 16 bits are counted one by one, so their percentiles are exact. Other numbers are
counted in buckets whose width is 1/2048 of their value. A percentile has at most this relative
error and does not depend on the order of the pixels. Values nearer to 0 than 2^-40 count as 0.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from permafrost.data.bands.in_order import Moments, Pieces, Total

#: percentiles in the card, under ``p2`` and ``p98``
PERCENTILES = (2, 98)
#: at most this many rows and columns of an image are in the sample
_GRID = 16
#: most values over all sampled images, but at least this many images
_SAMPLE = 2**21
_FEWEST = 16


class BandStatistics:
    """Accumulates samples. The result depends on their order, but not on how accumulators share them.

    Parameters
    ----------
    first : number of the first sample.
    moments : a `Total` if all samples of the split are added here; `mean` and `std` need it.
    """

    def __init__(self, bands: int, first: int = 0, moments: Pieces[Moments] | None = None) -> None:
        self.moments = Total(Moments.none(bands)) if moments is None else moments
        self.low = np.full(bands, np.inf)
        self.high = np.full(bands, -np.inf)
        self.values = [ValueCounts() for _ in range(bands)]
        self.sample = PixelSample(max(_FEWEST, _SAMPLE // (bands * _GRID**2)), first)

    @classmethod
    def piece(cls, bands: int, first: int) -> BandStatistics:
        """An accumulator of later samples, to be merged behind those before them."""
        return cls(bands, first, Pieces(Moments.none(bands), first))

    def add(self, image: np.ndarray, leave_out: np.ndarray | None = None) -> None:
        """Add one sample, an image (C, H, W) or a series (T, C, H, W).

        Parameters
        ----------
        leave_out : bool of the same shape, True for excluded pixels.
        """
        self._count(image, leave_out)
        self._add(image, leave_out)

    def add_alike(self, samples: np.ndarray) -> None:
        """Add several samples (n, …) of one shape without excluded pixels."""
        self._count(samples, None)
        for sample in samples:
            self._add(sample, None)

    def _add(self, image: np.ndarray, leave_out: np.ndarray | None) -> None:
        self.moments.add(Moments.of(image, leave_out))
        self.sample.add(image, leave_out)

    def _count(self, images: np.ndarray, leave_out: np.ndarray | None) -> None:
        for band, values in enumerate(self.values):
            stored = images[..., band, :, :]
            if leave_out is not None:
                stored = stored[~leave_out[..., band, :, :]]
            if stored.size:
                self.low[band] = min(self.low[band], stored.min())
                self.high[band] = max(self.high[band], stored.max())
                values.merge(ValueCounts.of(stored))

    def merge(self, other: BandStatistics) -> None:
        """Append the statistics of a `piece`, which covers the samples that follow."""
        self.moments.extend(other.moments)
        self.low = np.minimum(self.low, other.low)
        self.high = np.maximum(self.high, other.high)
        for own, seen in zip(self.values, other.values, strict=True):
            own.merge(seen)
        self.sample.merge(other.sample)

    @property
    def count(self) -> np.ndarray:
        """(C,) number of pixels that count."""
        return cast("Total[Moments]", self.moments).value.count

    @property
    def mean(self) -> np.ndarray:
        return cast("Total[Moments]", self.moments).value.mean

    @property
    def std(self) -> np.ndarray:
        """(C,) population standard deviation."""
        found = cast("Total[Moments]", self.moments).value
        return np.sqrt(found.squares / np.maximum(found.count, 1))

    def of_band(self, band: int) -> dict[str, float]:
        """Statistics of one band's stored values, as the card lists them."""
        percentiles = {f"p{q}": self.values[band].percentile(q) for q in PERCENTILES}
        known = {"mean": self.mean, "std": self.std, "min": self.low, "max": self.high}
        return {**{name: float(values[band]) for name, values in known.items()}, **percentiles}


class PixelSample:
    """Pixels on a regular grid in every k-th sample; k is the smallest power of two that gives at most `images` images.

    The first sample is always in it.

    Attributes
    ----------
    kept : (sample number, its number of images, their pixels (C, n)), in the order of samples.
    """

    def __init__(self, images: int, first: int = 0) -> None:
        self.images = images
        self.every = 1
        self.next = first
        self.kept: list[tuple[int, int, np.ndarray]] = []
        self._held = 0

    def add(self, image: np.ndarray, leave_out: np.ndarray | None = None) -> None:
        """Add one sample; `leave_out` as in `BandStatistics.add`."""
        if self.next % self.every == 0:
            dates = image.reshape(-1, *image.shape[-3:])
            gone = [None] * len(dates) if leave_out is None else leave_out.reshape(dates.shape)
            pixels = [_on_a_grid(one, out) for one, out in zip(dates, gone, strict=True)]
            self.put([(self.next, len(dates), np.concatenate(pixels, axis=1))])
        self.next += 1

    def merge(self, other: PixelSample) -> None:
        """Append another sample with at most as many images, drawn from the samples that follow."""
        self._thin(other.every)
        self.put(other.kept)
        self.next = other.next

    def put(self, kept: list[tuple[int, int, np.ndarray]]) -> None:
        """Append samples in the form of `kept`; drops those that are not on the grid and thins if
        there are too many."""
        kept = [one for one in kept if one[0] % self.every == 0]
        self.kept += kept
        self._held += sum(images for _, images, _ in kept)
        while self._held > self.images and len(self.kept) > 1:
            self._thin(2 * self.every)

    def _thin(self, every: int) -> None:
        """Keep every k-th sample, with k at least `every`."""
        if every > self.every:
            self.every = every
            self.kept = [one for one in self.kept if one[0] % every == 0]
            self._held = sum(images for _, images, _ in self.kept)

    @property
    def pixels(self) -> np.ndarray:
        """(C, n) stored values."""
        return np.concatenate([pixels for _, _, pixels in self.kept], axis=1)


def _on_a_grid(image: np.ndarray, leave_out: np.ndarray | None) -> np.ndarray:
    """(C, n) pixels on a grid that have data in all bands."""
    steps = tuple(slice(None, None, -(-side // _GRID)) for side in image.shape[1:])
    thinned = image[:, *steps].reshape(len(image), -1)
    if leave_out is None:
        return thinned.copy()
    return thinned[:, ~leave_out[:, *steps].any(axis=0).ravel()]


#: low bits of a float32 that its bucket ignores; a bucket is sign, exponent and 11 bits of the
#: mantissa
_DROPPED = 12
#: bucket of 2^-40, the first one that is not 0
_FIRST = (127 - 40) << (23 - _DROPPED)
_MOST_COUNTED = 2


class ValueCounts:
    """Counts per bucket, from bucket `low` on; with ``counted``, each bucket is a single integer."""

    def __init__(self) -> None:
        self.low = 0
        self.counts = np.zeros(0, np.int64)
        self.counted = True

    @classmethod
    def of(cls, values: np.ndarray) -> ValueCounts:
        """Count an array of any shape; it must be finite and not empty."""
        self = cls()
        values = values.ravel()
        self.counted = values.dtype.kind in "iu" and values.dtype.itemsize <= _MOST_COUNTED
        if not self.counted:
            values = _buckets(values)
        if values.dtype.kind == "i":
            self.low = int(values.min())
            values = np.subtract(values, self.low, dtype=np.intp)
        self.counts = np.bincount(values)
        return self

    def merge(self, other: ValueCounts) -> None:
        """Add the counts of another one for the same number type."""
        if not len(self.counts):
            self.low, self.counts, self.counted = other.low, other.counts.copy(), other.counted
        elif len(other.counts):
            low = min(self.low, other.low)
            high = max(self.low + len(self.counts), other.low + len(other.counts))
            if high - low > len(self.counts):
                grown = np.zeros(high - low, np.int64)
                grown[self.low - low :][: len(self.counts)] = self.counts
                self.low, self.counts = low, grown
            self.counts[other.low - low :][: len(other.counts)] += other.counts

    def percentile(self, percent: float) -> float:
        """As ``numpy.percentile``; NaN if nothing was counted."""
        total = int(self.counts.sum())
        if not total:
            return float("nan")
        rank = (total - 1) * percent / 100
        below, above = (self._at(place) for place in (int(rank), min(int(rank) + 1, total - 1)))
        return below + (above - below) * (rank - int(rank))

    def _at(self, place: int) -> float:
        """The value at a position of the sorted pixels, from 0."""
        reached = np.cumsum(self.counts)
        number = int(np.searchsorted(reached, place, side="right"))
        bucket = self.low + number
        if self.counted:
            return float(bucket)
        # assumes that the pixels of a bucket are spread evenly
        inside = place - (reached[number] - self.counts[number]) + 0.5
        near, far = _edges(bucket)
        return near + (far - near) * inside / self.counts[number]


def _buckets(values: np.ndarray) -> np.ndarray:
    """Each value's bucket: 0 around 0, increasing with the value."""
    bits = np.array(values, np.float32).view(np.int32)
    negative = bits < 0 if bits.min() < 0 else None
    if negative is not None:
        bits &= 0x7FFFFFFF
    bits >>= _DROPPED
    bits -= _FIRST - 1
    np.maximum(bits, 0, out=bits)
    if negative is not None:
        np.negative(bits, out=bits, where=negative)
    return bits


def _edges(bucket: int) -> tuple[float, float]:
    """Lower and upper bound of a bucket."""
    if bucket == 0:
        return 0.0, 0.0
    first = abs(bucket) + _FIRST - 1
    near, far = (np.array([first, first + 1], np.int32) << _DROPPED).view(np.float32).tolist()
    return (near, far) if bucket > 0 else (-far, -near)
