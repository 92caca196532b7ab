"""Sums over samples whose rounding depends only on the order of the samples, not on how jobs share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from _typeshed import SupportsAdd

#: samples that are added up before their sum is added to the total
GROUP = 16


class Pieces[T: SupportsAdd]:
    """Values of consecutive samples; whole groups of them are added up.

    Samples 0 to 15 of a split form a group, 16 to 31 the next, and so on. `extend` appends what
    another job has added up for the samples that follow. The sum then equals, bit by bit, that of a
    single job.

    Parameters
    ----------
    zero : value of an empty sum; values are added with +.
    first : number of the first sample.
    """

    def __init__(self, zero: T, first: int = 0) -> None:
        self.next = first
        self.zero = zero
        self._found: list[tuple[int, T]] = []
        # values of the unfinished group
        self._open: list[T] = []

    def add(self, value: T) -> None:
        """Append the value of the next sample."""
        self._open.append(value)
        self.next += 1
        if self.next % GROUP == 0:
            self._close()

    def extend(self, pieces: Iterable[tuple[int, T]]) -> None:
        """Append (number of samples, their sum) of the samples that follow.

        Raises
        ------
        ValueError : a group begins within another one.
        """
        for samples, value in pieces:
            if samples == 1:
                self.add(value)
            elif self._open or self.next % GROUP:
                raise ValueError(f"a group cannot begin with sample {self.next}")
            else:
                self._take(samples, value)
                self.next += samples

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """Yield (number of samples, their sum) for single samples and whole groups."""
        yield from self._found
        yield from ((1, value) for value in self._open)

    def _close(self) -> None:
        if len(self._open) == GROUP:
            self._take(GROUP, sum(self._open, self.zero))
        else:
            for value in self._open:
                self._take(1, value)
        self._open = []

    def _take(self, samples: int, value: T) -> None:
        self._found.append((samples, value))


class Total[T: SupportsAdd](Pieces[T]):
    """Like `Pieces` from the first sample on, but keeps only the sum."""

    def __init__(self, zero: T) -> None:
        super().__init__(zero)
        self._sum = zero

    @property
    def value(self) -> T:
        """The sum over all samples so far."""
        return self._sum + sum(self._open, self.zero) if self._open else self._sum

    def _take(self, samples: int, value: T) -> None:
        self._sum = self._sum + value


@dataclass(frozen=True)
class Moments:
    """Pixel count, mean and sum of squared deviations of each band; (C,) float64 each."""

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, bands: int) -> Moments:
        return cls(*np.zeros((3, bands)))

    @classmethod
    def of(cls, image: np.ndarray, leave_out: np.ndarray | None = None) -> Moments:
        """Moments of an image (C, H, W) or series (T, C, H, W), without pixels where `leave_out` is True."""
        self = cls.none(image.shape[-3])
        for band in range(image.shape[-3]):
            stored = image[..., band, :, :]
            stored = stored.ravel() if leave_out is None else stored[~leave_out[..., band, :, :]]
            if stored.size:
                values = stored.astype(np.float64)
                self.count[band] = values.size
                self.mean[band] = mean = values.mean()
                values -= mean
                self.squares[band] = np.square(values, out=values).sum()
        return self

    def __add__(self, other: Moments) -> Moments:
        """Moments of both sets of pixels, combined without cancellation (Chan, Golub and LeVeque 1983)."""
        total = np.maximum(self.count + other.count, 1)
        delta = other.mean - self.mean
        return Moments(
            self.count + other.count,
            self.mean + delta * other.count / total,
            self.squares + other.squares + delta**2 * self.count * other.count / total,
        )
