"""How often each value occurs in a stream of pixels, and percentiles of them all.

Integers of up to 16 bits are counted one by one, so their percentiles are exact. Other numbers are counted in
buckets that are 1/2048 of their values wide: a percentile of them is at most that far from the true one, and any
order of the pixels gives the same. What is nearer to 0 than 2^-40 counts as 0.
"""

from __future__ import annotations

import numpy as np

#: bits of a float32 that say which bucket it is in: sign, exponent and 11 of the mantissa
_DROPPED = 12
#: the bucket of 2^-40, the first that is not 0
_FIRST = (127 - 40) << (23 - _DROPPED)
_MOST_COUNTED = 2


class ValueCounts:
    """Counts of the buckets from `low` on; ``counted`` where a bucket is a single integer."""

    def __init__(self) -> None:
        self.low = 0
        self.counts = np.zeros(0, np.int64)
        self.counted = True

    @classmethod
    def of(cls, values: np.ndarray) -> ValueCounts:
        """Counts of an array of any shape, finite and not empty."""
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
        """Add what another has counted of the same type of numbers."""
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
        """As ``numpy.percentile``; NaN where nothing was counted."""
        total = int(self.counts.sum())
        if not total:
            return float("nan")
        rank = (total - 1) * percent / 100
        below, above = (self._at(place) for place in (int(rank), min(int(rank) + 1, total - 1)))
        return below + (above - below) * (rank - int(rank))

    def _at(self, place: int) -> float:
        """The value at a place of the sorted pixels, from 0 on."""
        reached = np.cumsum(self.counts)
        number = int(np.searchsorted(reached, place, side="right"))
        bucket = self.low + number
        if self.counted:
            return float(bucket)
        # as if the pixels of a bucket lay evenly in it
        inside = place - (reached[number] - self.counts[number]) + 0.5
        near, far = _edges(bucket)
        return near + (far - near) * inside / self.counts[number]


def _buckets(values: np.ndarray) -> np.ndarray:
    """Number of each value's bucket: 0 around 0, growing with the value."""
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
    """The lower and the upper end of a bucket."""
    if bucket == 0:
        return 0.0, 0.0
    first = abs(bucket) + _FIRST - 1
    near, far = (np.array([first, first + 1], np.int32) << _DROPPED).view(np.float32).tolist()
    return (near, far) if bucket > 0 else (-far, -near)
