"""Patches of a map and their targets: the mean of those of a patch's pixels that have data."""

from __future__ import annotations

import numpy as np

from permafrost.probes.segmentation.patches import cells_of


def patch_means(target: np.ndarray, grid: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """((gh, gw) means, (gh, gw) shares of pixels with data), float64, of the pixels whose centre lies in each patch.

    A patch without such pixels has share 0 and mean NaN.

    Parameters
    ----------
    target : (h, w), NaN where there is no data.
    grid : (gh, gw), size of the map.
    """
    rows, columns = (
        cells_of(length, count) for length, count in zip(target.shape, grid, strict=True)
    )
    places = (rows[:, None] * grid[1] + columns).reshape(-1)
    values, count = target.reshape(-1).astype(np.float64), grid[0] * grid[1]
    known = ~np.isnan(values)
    pixels = np.bincount(places, minlength=count)
    valid = np.bincount(places[known], minlength=count)
    sums = np.bincount(places[known], weights=values[known], minlength=count)
    means = np.divide(sums, valid, out=np.full(count, np.nan), where=valid > 0)
    shares = np.divide(valid, pixels, out=np.zeros(count), where=pixels > 0)
    return means.reshape(grid), shares.reshape(grid)
