"""Centre and scale of features, from a split's own statistics."""

from __future__ import annotations

import numpy as np

BLOCK_ROWS = 1024


def centre_and_scale(features: np.ndarray, standardize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and divisor of each column, float64; the bias absorbs the mean, so it is always taken."""
    mean = features.mean(axis=0, dtype=np.float64)
    if not standardize:
        return mean, np.ones_like(mean)
    spread = features.std(axis=0, dtype=np.float64)
    constant = features.min(axis=0) == features.max(axis=0)
    return mean, np.where(constant | (spread == 0), 1.0, spread)


def scaled(features: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(N, d) float32 of (features - mean) / scale, subtracted in float64, block by block."""
    rows = np.empty(features.shape, np.float32)
    for start in range(0, len(features), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        rows[block] = (features[block] - mean) / scale
    return rows
