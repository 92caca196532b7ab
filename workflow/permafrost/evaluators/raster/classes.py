"""Pixel values to class codes: class rasters, logits of several classes, one logit."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError


def as_codes(values: np.ndarray, valid: np.ndarray, where: str) -> np.ndarray:
    """(h, w) class codes as int64; a float raster must hold whole numbers.

    Raises
    ------
    PermafrostError : NaN or a fraction where there is data.
    """
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    used = np.where(valid, values, 0)
    wrong = ~np.isfinite(used) | (used != np.trunc(used))
    if wrong.any():
        raise PermafrostError(
            f"the value {used[wrong][0]} is no class code",
            where=where,
            remedy="declare it as nodata in the file, or give scores as --logits",
        )
    return used.astype(np.int64)


def logits_to_classes(
    logits: np.ndarray, valid: np.ndarray, where: str, *, threshold: float = 0.5
) -> np.ndarray:
    """(h, w) class positions from 0.

    Parameters
    ----------
    logits : (K, h, w). With several bands the class of the greatest logit, the first of equals;
        with one, class 1 where ``sigmoid(logit) > threshold``, strictly, else class 0.
    valid : (h, w); elsewhere the result means nothing.

    Raises
    ------
    PermafrostError : NaN where there is data; a threshold outside (0, 1).
    """
    if not 0 < threshold < 1:
        raise PermafrostError(
            f"the threshold {threshold} is no probability", remedy="give one between 0 and 1"
        )
    if np.isnan(logits[:, valid]).any():
        raise PermafrostError(
            "a logit is NaN",
            where=where,
            remedy="declare NaN as nodata in the file if these pixels were not predicted",
        )
    if len(logits) > 1:
        return np.argmax(logits, axis=0)
    with np.errstate(over="ignore"):
        probability = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
    return (probability > threshold).astype(np.int64)
