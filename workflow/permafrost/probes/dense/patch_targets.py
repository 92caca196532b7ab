"""Targets of patches: the majority class of their pixels, or the mean of their numbers."""

from __future__ import annotations

import numpy as np

NO_LABEL = -1


def patch_labels(
    mask: np.ndarray, grid: tuple[int, int], classes: int, ignore_index: int | None
) -> np.ndarray:
    """(gh, gw) int64: majority class of the pixels whose centre is in each patch.

    Ties go to the smallest class; `NO_LABEL` for patches without a scored pixel.

    Parameters
    ----------
    mask : (h, w) class ids, or `ignore_index`.
    grid : (gh, gw), size of the map.
    """
    rows, columns = (
        cells_of(length, count) for length, count in zip(mask.shape, grid, strict=True)
    )
    cells = (rows[:, None] * grid[1] + columns) * classes
    cells = cells + mask.astype(np.int64)
    if ignore_index is not None:
        cells = cells[mask != ignore_index]
    counts = np.bincount(cells.reshape(-1), minlength=grid[0] * grid[1] * classes)
    counts = counts.reshape(*grid, classes)
    return np.where(counts.any(axis=-1), counts.argmax(axis=-1), NO_LABEL)


def patch_means(target: np.ndarray, grid: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """((gh, gw) means, (gh, gw) shares of pixels with data), float64, of the pixels whose centre is in each patch.

    A patch without such pixels has share 0 and mean NaN.

    Parameters
    ----------
    target : (h, w), NaN for pixels without data.
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


def cells_of(length: int, count: int) -> np.ndarray:
    """(length,) index of the one of `count` equal parts that contains the centre of each pixel."""
    return (2 * np.arange(length) + 1) * count // (2 * length)
