"""Errors of predicted numbers, from sums over samples.

With e = prediction - truth over n samples::

    r2   = 1 - sum e^2 / sum (truth - mean truth)^2     share of explained variance
    rmse = sqrt(sum e^2 / n)                            in the unit of the target
    mae  = sum |e| / n                                  in the unit of the target
    median_absolute_error = median |e|                  in the unit of the target, of single samples alone

R² is 0 for always predicting the mean of the truth, and negative for worse predictions. It is undefined (NaN) if all
true numbers are equal. A few large errors can dominate R² and RMSE, but not the median.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.ratios import divide

# a variance below this share of the mean square is rounding
ROUNDING = 1e-12
MEDIAN = "median_absolute_error"


def evaluate(target, prediction) -> dict[str, float]:
    """All metrics of (N,) true and predicted numbers.

    Raises
    ------
    PermafrostError : different shapes, no sample, NaN or infinity.
    """
    target, prediction = (np.asarray(values, np.float64) for values in (target, prediction))
    if target.ndim != 1 or target.shape != prediction.shape or not target.size:
        raise PermafrostError(
            f"need one predicted value per target, got {prediction.shape} for {target.shape}",
            remedy="run their evaluation again",
        )
    for what, values in (("targets", target), ("predictions", prediction)):
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            raise PermafrostError(
                f"{bad} of {values.size} {what} are NaN or infinite",
                remedy="check the features, then run the evaluation again",
            )
    errors = prediction - target
    values = from_sums(sums_of(target - target.mean(), errors).sum(axis=0))
    found = {name: float(value) for name, value in values.items()}
    return {**found, MEDIAN: float(np.median(np.abs(errors)))}


def sums_of(centred: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """(N, 5) contribution of each sample to the sums: 1, e², |e|, truth, truth².

    Parameters
    ----------
    centred : (N,) truth minus a constant close to its mean, so that its squares stay accurate.
    errors : (N,) prediction - truth.
    """
    return np.stack([np.ones_like(errors), errors**2, np.abs(errors), centred, centred**2], axis=1)


def from_sums(sums: np.ndarray, task: str = "regression") -> dict[str, np.ndarray]:
    """Metrics (…) of a task from sums (5, …) in the order of `sums_of`."""
    count, squares, absolutes, truth, truth_squares = sums
    variance = truth_squares - divide(truth**2, count, undefined=0.0)
    variance = np.where(variance <= ROUNDING * truth_squares, 0.0, variance)
    return {
        "r2": 1 - divide(squares, variance),
        "rmse": np.sqrt(divide(squares, count)),
        "mae": divide(absolutes, count),
    }
