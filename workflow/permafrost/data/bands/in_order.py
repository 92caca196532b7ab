"""Sums over samples whose rounding depends on the order of the samples alone, whoever adds them up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

#: samples that are added to each other before their sum is added to the others
GROUP = 16


class Pieces[T]:
    """Values of consecutive samples, of which whole groups are added up.

    The samples 0 to 15 of a split are a group, so are 16 to 31, and so on. What this holds of some samples can be put
    behind what it holds of those before them (`extend`), and gives the sum that one would have had that saw all.

    Parameters
    ----------
    zero : the value of no sample; values are added with +.
    first : number of the first sample.
    """

    def __init__(self, zero: T, first: int = 0) -> None:
        self.next = first
        self.zero = zero
        self._found: list[tuple[int, T]] = []
        # of the group that is not whole yet
        self._open: list[T] = []

    def add(self, value: T) -> None:
        """The value of the next sample."""
        self._open.append(value)
        self.next += 1
        if self.next % GROUP == 0:
            self._close()

    def extend(self, pieces: Iterable[tuple[int, T]]) -> None:
        """What others hold of the samples that follow."""
        for samples, value in pieces:
            if samples == 1:
                self.add(value)
            elif self._open or self.next % GROUP:
                raise ValueError(f"a group cannot begin with sample {self.next}")
            else:
                self._take(samples, value)
                self.next += samples

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """(number of samples, their sum), of one sample or of a whole group."""
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


class Total[T](Pieces[T]):
    """The same from the first sample on: only the sum is kept."""

    def __init__(self, zero: T) -> None:
        super().__init__(zero)
        self._sum = zero

    @property
    def value(self) -> T:
        """The sum over all samples until now."""
        return self._sum + sum(self._open, self.zero) if self._open else self._sum

    def _take(self, samples: int, value: T) -> None:
        self._sum = self._sum + value


@dataclass(frozen=True)
class Moments:
    """Of the pixels of each band: how many, their mean, and the sum of squares about it; (C,) float64 each."""

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, bands: int) -> Moments:
        return cls(*np.zeros((3, bands)))

    @classmethod
    def of(cls, image: np.ndarray, leave_out: np.ndarray | None = None) -> Moments:
        """Of one image (C, H, W) or series (T, C, H, W), without the pixels where `leave_out` is True."""
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
        """Of both together, by Chan, Golub and LeVeque (1983), so that nothing cancels."""
        total = np.maximum(self.count + other.count, 1)
        delta = other.mean - self.mean
        return Moments(
            self.count + other.count,
            self.mean + delta * other.count / total,
            self.squares + other.squares + delta**2 * self.count * other.count / total,
        )
