"""Boundary IoU: intersection over union of the bands along the insides of boundaries.

The band of a class consists of its pixels within d pixels (Chebyshev distance) of a pixel of
another class or of the outside of the image. Per image, d is a share of its diagonal, rounded, and
at least 1. The pixels in the intersection and the union of the bands of truth and
prediction are summed over images before the division, as for IoU.
Source: Cheng et al., Boundary IoU: Improving Object-Centric Image Segmentation Evaluation (2021),
with d and the treatment of the image's border as in the authors' implementation, which erodes d
times with a square of 3 x 3 pixels.

A pixel survives the erosion of its class exactly if one class fills the square of 2 d + 1 pixels
around it. So one pass serves all classes: it compares the least and the greatest class id of each
square. Its cost does not depend on the number of classes, and only logarithmically on d.

Ignored pixels have no class: they are removed from truth and prediction, so both have a band
along the edge of the scored area, and a correct prediction has an IoU of 1.
"""

from __future__ import annotations

import math

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.segmentation.confusion import checked_masks


def boundary_counts(
    truth, prediction, classes: int, ratio: float, ignore_index: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Count the pixels in both bands of each class, and in at least one of them, for one image.

    Parameters
    ----------
    truth : (H, W) integer class ids in [0, K) or `ignore_index`.
    prediction : (H, W) integer class ids, in [0, K) where `truth` is not ignored.
    classes : K.
    ratio : width of the band as a share of the image's diagonal, above 0 (Cheng et al.: 0.02).

    Returns
    -------
    intersection, union : (K,) int64.
    """
    truth, prediction = checked_masks(truth, prediction, classes, ignore_index)
    width = band_width(truth.shape, ratio)
    ignored = None if ignore_index is None else truth == ignore_index
    truth, prediction = (_labels(mask, ignored, classes) for mask in (truth, prediction))
    in_truth, in_prediction = (~interior(mask, width, classes) for mask in (truth, prediction))
    both = in_truth & in_prediction & (truth == prediction)
    counts = [
        np.bincount(mask[chosen], minlength=classes + 1)[:classes]
        for mask, chosen in ((truth, both), (truth, in_truth), (prediction, in_prediction))
    ]
    return counts[0], counts[1] + counts[2] - counts[0]


def band_width(shape: tuple[int, ...], ratio: float) -> int:
    """Width d of the band in pixels, in an image of the `shape` (H, W)."""
    if len(shape) != 2 or not 0 < ratio < 1:
        raise PermafrostError(
            f"no boundary of width {ratio} can be taken of a mask of the shape {shape}",
            remedy="give masks of height and width, and a share of the diagonal such as 0.02",
        )
    return max(1, round(ratio * math.hypot(*shape)))


def interior(mask: np.ndarray, width: int, outside: int) -> np.ndarray:
    """(H, W) bool: does one class fill the square of 2 `width` + 1 pixels around the pixel?

    Parameters
    ----------
    mask : (H, W) unsigned class ids.
    outside : id of the area beyond the image; not a class id.
    """
    padded = np.pad(mask, width, constant_values=outside)
    least, greatest = padded, padded
    for axis in (0, 1):
        least = _sliding(np.minimum, least, 2 * width + 1, axis)
        greatest = _sliding(np.maximum, greatest, 2 * width + 1, axis)
    return least == greatest


def _sliding(extreme, values: np.ndarray, length: int, axis: int) -> np.ndarray:
    """`extreme` of all windows of `length` along `axis`, from windows that double in length."""
    values = np.moveaxis(values, axis, 0)
    windows = len(values) - length + 1
    have = 1
    while 2 * have <= length:
        values = extreme(values[:-have], values[have:])
        have *= 2
    # two overlapping windows cover the whole length
    values = extreme(values[:windows], values[length - have : length - have + windows])
    return np.moveaxis(values, 0, axis)


def _labels(mask: np.ndarray, ignored: np.ndarray | None, classes: int) -> np.ndarray:
    """`mask` in the smallest integer type, with `classes` as the id of ignored pixels."""
    if ignored is not None:
        mask = np.where(ignored, classes, mask)
    return mask.astype(np.min_scalar_type(classes))
