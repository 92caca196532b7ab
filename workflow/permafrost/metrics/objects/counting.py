"""Errors of the number of objects in an image, from sums over images.

With t objects and f detections in an image, over n images::

    count_mae  = sum |f - t| / n
    count_rmse = sqrt(sum (f - t)^2 / n)
    count_bias = sum (f - t) / n                         above 0: too many are found
    count_r2   = 1 - sum (f - t)^2 / sum (t - mean t)^2

Boxes, points and masks count alike: where an object is found does not matter. R² is undefined (NaN) if all images
have the same number of objects, as in `metrics.regression`, whose formula it is. Without images everything is.
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.ratios import divide
from permafrost.metrics.regression import from_sums

#: number of sums that `count_terms` gives
TERMS = 5


def count_terms(truths, found) -> np.ndarray:
    """(5, …) int64 contribution of each image to the sums: |f - t|, (f - t)², t, t², f.

    Parameters
    ----------
    truths, found : (…) numbers of objects and of detections.
    """
    truths, found = np.asarray(truths, np.int64), np.asarray(found, np.int64)
    apart = found - truths
    return np.stack([np.abs(apart), apart**2, truths, truths**2, found])


def count_errors(images, sums) -> dict[str, np.ndarray]:
    """``count_mae``, ``count_rmse``, ``count_bias`` and ``count_r2``, each (…).

    Parameters
    ----------
    images : number of images, broadcastable to (…).
    sums : (5, …) sums of `count_terms` over them.
    """
    absolutes, squares, truths, truth_squares, found = np.asarray(sums)
    images = np.broadcast_to(images, truths.shape)
    errors = from_sums(np.stack([images, squares, absolutes, truths, truth_squares]))
    return {
        "count_mae": errors["mae"],
        "count_rmse": errors["rmse"],
        "count_bias": divide(found - truths, images),
        "count_r2": errors["r2"],
    }
