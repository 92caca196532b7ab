"""Sums over units, weighted by each unit's count in a resample, in double precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from permafrost.statistics.resampling.resamples import Resamples

# with more units, counts are converted to floats for blocks of units, else for blocks of resamples
MANY_UNITS = 1 << 15
_UNITS_TOGETHER = 2048


class UnitSums(Protocol):
    """(S, U) sums of units, computed on access; an array serves as well."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def __getitem__(self, key: tuple[slice, slice]) -> np.ndarray:
        """``[:, start:stop]``: (S, stop - start) sums of some units."""


def weighted_by_counts(
    parts: Mapping[str, np.ndarray | UnitSums], resamples: Resamples, *, float_bytes: int
) -> dict[str, np.ndarray]:
    """(S, B) sums of each of the (S, U) parts, weighted by the (U, B) counts.

    Parameters
    ----------
    float_bytes : with few units, bytes of counts converted to floats at a time. The last bit of a
        product may depend on it.
    """
    # one product per part: the last bit of a product may depend on its number of rows
    out = {name: np.zeros((sums.shape[0], len(resamples))) for name, sums in parts.items()}
    width = max((sums.shape[1] for sums in parts.values()), default=1)
    if width > MANY_UNITS:
        for start in range(0, width, _UNITS_TOGETHER):
            units = slice(start, min(start + _UNITS_TOGETHER, width))
            counts = resamples.counts[units].astype(np.float64)
            for name, sums in parts.items():
                out[name] += sums[:, units] @ counts
        return out
    step = max(1, float_bytes // (8 * width))
    for start in range(0, len(resamples) if parts else 0, step):
        counts = resamples.counts[:, start : start + step].astype(np.float64)
        for name, sums in parts.items():
            out[name][:, start : start + step] = sums[:, :] @ counts
    return out
