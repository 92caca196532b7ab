"""What is kept of a predicted raster: sums from which R², RMSE and MAE of any set of images follow."""

from __future__ import annotations

import numpy as np

from permafrost.probes.dense.interpolate import bilinear_matrix

BINS = 48


def enlarged(grid: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(gh, gw) predictions of patches -> (h, w) float64, bilinear as `dense.interpolate.resize_bilinear`."""
    rows, columns = (bilinear_matrix(*pair) for pair in zip(grid.shape, size, strict=True))
    return rows @ np.asarray(grid, np.float64) @ columns.T


def image_sums(truth: np.ndarray, prediction: np.ndarray, centre: float) -> dict[str, float]:
    """Sums over the pixels of an image that have data, truth being counted from `centre`.

    ``pixels``, ``squared_error``, ``absolute_error``, ``truth``, ``truth_squares``; and the ranges
    ``truth_min``, ``truth_max``, ``prediction_min``, ``prediction_max`` (None without such a pixel).
    """
    known = ~np.isnan(truth)
    true = truth[known].astype(np.float64)
    said = prediction[known]
    error, true_from = said - true, true - centre
    ranges = {"truth": true, "prediction": said}
    return {
        "pixels": len(true),
        "squared_error": float(np.sum(error**2)),
        "absolute_error": float(np.sum(np.abs(error))),
        "truth": float(np.sum(true_from)),
        "truth_squares": float(np.sum(true_from**2)),
        **{f"{name}_min": float(v.min()) if len(v) else None for name, v in ranges.items()},
        **{f"{name}_max": float(v.max()) if len(v) else None for name, v in ranges.items()},
    }


def joint_histogram(
    truth: np.ndarray, prediction: np.ndarray, limits: tuple[float, float]
) -> np.ndarray:
    """(BINS, BINS) int64 pixels by true (rows) and predicted number; what lies beyond counts in the outermost."""
    known = ~np.isnan(truth)
    low, high = limits
    places = [
        np.clip((values[known] - low) / (high - low) * BINS, 0, BINS - 1).astype(np.int64)
        for values in (truth.astype(np.float64), prediction)
    ]
    return np.bincount(places[0] * BINS + places[1], minlength=BINS**2).reshape(BINS, BINS)
