"""Bilinear resizing as a pair of matrices, with equal results in NumPy and torch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=256)
def bilinear_matrix(source: int, target: int, align_corners: bool = False) -> np.ndarray:
    """(target, source) float64 weights that resize a line of `source` values to `target` values.

    Pixel centres are mapped as by ``torch.nn.functional.interpolate`` with the same `align_corners`;
    beyond the outermost centres the outermost value is used. Every row sums to 1. Read-only.
    """
    if source < 1 or target < 1:
        raise ValueError(f"cannot resize {source} values to {target}")
    places = np.arange(target, dtype=np.float64)
    if align_corners:
        places *= (source - 1) / (target - 1) if target > 1 else 0.0
    else:
        places = np.maximum((places + 0.5) * (source / target) - 0.5, 0.0)
    low = np.minimum(places.astype(np.int64), source - 1)
    high = np.minimum(low + 1, source - 1)
    share = places - low
    weights = np.zeros((target, source))
    rows = np.arange(target)
    np.add.at(weights, (rows, low), 1.0 - share)
    np.add.at(weights, (rows, high), share)
    weights.flags.writeable = False
    return weights


def resize_bilinear(maps: np.ndarray, size) -> np.ndarray:
    """(…, h, w) -> (…, *size) float32, as torch with ``align_corners=False``."""
    rows = bilinear_matrix(maps.shape[-2], int(size[0])).astype(np.float32)
    columns = bilinear_matrix(maps.shape[-1], int(size[1])).astype(np.float32)
    return rows @ (np.asarray(maps, dtype=np.float32) @ columns.T)


def nearest_indices(source: int, target: int) -> np.ndarray:
    """(target,) index of the source value under the centre of each target value.

    ``nearest-exact`` in torch and Pillow's nearest, without the shift of torch's older ``nearest``.
    """
    return np.minimum((np.arange(target) * 2 + 1) * source // (2 * target), source - 1)


def resize_mask(mask: np.ndarray, size) -> np.ndarray:
    """(h, w) class ids -> (*size), by nearest; the mask itself if it has that size."""
    if mask.shape == tuple(size):
        return mask
    rows = nearest_indices(mask.shape[0], int(size[0]))
    columns = nearest_indices(mask.shape[1], int(size[1]))
    return mask[rows[:, None], columns]
