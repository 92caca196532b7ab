"""Resamples as counts: how often each unit was drawn.

A resample draws U units with replacement from U units. Every metric here depends on a resample only
through these counts. They are drawn once for all metrics and all backbones of a dataset, and depend
only on the seed and the number of units.
Counts are unit-major, (U, B), because statistics sum the rows of few units over all resamples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError

# largest size of a block of counts, whatever the number of resamples
BLOCK_BYTES = 64 << 20
# resamples are drawn resample-major and transposed: this many at a time stay in the cache. Blocks
# are whole tiles, so that draws do not depend on the block
TILE = 64
# units drawn per call; for small test sets this is more than one resample
_DRAWN_TOGETHER = 1 << 14


@dataclass(frozen=True)
class Resamples:
    """Some resamples of the units of a test set.

    Attributes
    ----------
    counts : (U, B) unsigned, count of each unit in each resample.
    size : number of units in a resample; (B,) if blocks of different size were left out.
    peak : the largest count.
    """

    counts: np.ndarray
    size: int | np.ndarray
    peak: int

    @classmethod
    def of(cls, counts: np.ndarray) -> Resamples:
        """From existing unsigned counts, whose columns must have the same sum."""
        sizes = counts.sum(axis=0, dtype=np.int64)
        if not (sizes == sizes[0]).all():
            raise ValueError("the resamples differ in size")
        return cls(counts, int(sizes[0]), int(counts.max()))

    def __len__(self) -> int:
        return self.counts.shape[1]

    def part(self, start: int, stop: int) -> Resamples:
        """Resamples [start, stop), contiguous in memory."""
        size = self.size if np.ndim(self.size) == 0 else cast("np.ndarray", self.size)[start:stop]
        return Resamples(np.ascontiguousarray(self.counts[:, start:stop]), size, self.peak)


def draw_resamples(n_units: int, resamples: int, seed) -> Resamples:
    """All resamples at once, for many statistics of one test set; arguments as in
    `iter_resamples`."""
    return next(iter_resamples(n_units, resamples, seed, block=max(1, resamples)))


def iter_resamples(
    n_units: int, resamples: int, seed, *, block: int | None = None
) -> Iterator[Resamples]:
    """Yield the resamples in blocks that bound memory.

    Parameters
    ----------
    n_units : U, at least 1.
    resamples : B, at least 1. The first B' of them are those of a smaller B'.
    seed : an integer, or a numpy Generator, which is advanced.
    block : resamples per block, rounded up to a multiple of 64; the default keeps a block below
        64 MiB if possible. It does not affect the draws.
    """
    check_resamples(resamples, n_units)
    generator = seed if isinstance(seed, np.random.Generator) else _generator(seed)
    block = _whole_tiles(BLOCK_BYTES // n_units if block is None else block)
    for first in range(0, resamples, block):
        yield _draw_block(generator, n_units, min(block, resamples - first))


def check_resamples(resamples: int, n_units: int = 1) -> None:
    """Refuse zero resamples or zero units."""
    if n_units < 1 or resamples < 1:
        raise PermafrostError(
            f"cannot draw {resamples} resamples of {n_units} units",
            remedy="give at least one unit and one resample",
        )


def iter_jackknife(
    n_units: int, parts: int | None = None, *, block: int | None = None
) -> Iterator[Resamples]:
    """Yield resamples that each leave out one block of units, in the order of these blocks.

    Parameters
    ----------
    parts : J, at most U. Block j has the units j, j + J, j + 2 J, …, which `units` numbers at
        random; None makes every unit a block.
    block : resamples per yield, as in `iter_resamples`.
    """
    parts = n_units if parts is None else min(parts, n_units)
    block = _whole_tiles(BLOCK_BYTES // n_units if block is None else block)
    of_unit = np.arange(n_units) % parts
    sizes = n_units - np.bincount(of_unit, minlength=parts)
    for first in range(0, parts, block):
        last = min(first + block, parts)
        counts = np.ones((n_units, last - first), np.uint8)
        own = (of_unit >= first) & (of_unit < last)
        counts[own, of_unit[own] - first] = 0
        size = sizes[first:last]
        yield Resamples(counts, int(size[0]) if (size == size[0]).all() else size, 1)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _whole_tiles(block: int) -> int:
    return max(1, -(-block // TILE)) * TILE


def _draw_block(generator: np.random.Generator, n_units: int, width: int) -> Resamples:
    counts, peak = np.empty((n_units, width), np.uint8), 0
    together = min(TILE, 1 << max(0, (_DRAWN_TOGETHER // n_units).bit_length() - 1))
    for start in range(0, width, TILE):
        rows = min(TILE, width - start)
        tile = np.concatenate(
            [_draw(generator, n_units, together) for _ in range(0, rows, together)]
        )
        peak = max(peak, int(tile.max()))
        counts = _wide_enough(counts, peak)
        counts[:, start : start + rows] = tile[:rows].T
    return Resamples(counts, n_units, peak)


def _draw(generator: np.random.Generator, n_units: int, resamples: int) -> np.ndarray:
    """(resamples, U) counts, in one call for all of them."""
    # four 16-bit integers come from one 64-bit word
    kind = np.uint16 if n_units <= 1 << 16 else np.uint32
    drawn = generator.integers(0, n_units, size=(resamples, n_units), dtype=kind)
    places = drawn + np.arange(resamples, dtype=np.intp)[:, None] * n_units
    counts = np.bincount(places.ravel(), minlength=resamples * n_units)
    return counts.astype(np.min_scalar_type(int(counts.max()))).reshape(resamples, n_units)


def _wide_enough(counts: np.ndarray, peak: int) -> np.ndarray:
    """`counts`, in a wider type if `peak` does not fit."""
    return counts.astype(np.promote_types(counts.dtype, np.min_scalar_type(peak)), copy=False)
