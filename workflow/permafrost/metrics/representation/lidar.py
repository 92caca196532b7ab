"""LiDAR: effective rank of the differences between images, relative to the variation of augmentations."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.representation.directions import STILL
from permafrost.metrics.representation.measure import Measure, terms_by_unit, undefined
from permafrost.metrics.representation.points import check_features, check_units

DELTA = 1e-4
EPSILON = 1e-7


def lidar(views, *, delta: float = DELTA, units=None) -> Measure:
    """exp of the entropy of the eigenvalues' shares of Sw^-1/2 Sb Sw^-1/2.

    Sb is the covariance of the N images' means over their q views about the mean of all, Sw the
    mean covariance of views about their image's mean, plus `delta` times the identity; 1e-7 is added
    to shares, as in RankMe. The covariances divide by N and by N q.

    Parameters
    ----------
    views : (N, q, d) features of q augmented views of each image.
    delta : the paper's 1e-4 by default; published ports use 1e-6 to 1e-4. It does not adapt to the scale
        of features, so values of backbones are comparable only if it is small relative to their variance.
    units : (N,) independent unit of each image.

    From 1 to min(N - 1, d). Units: dimensions. Undefined for one image, one view, or images whose
    means are all equal. If views vary no more than `delta`, the value is close to the rank
    of the means, and has a flag. O(N q d + d^2) memory.
    Source: Thilak et al., LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL
    Architectures, ICLR 2024.
    """
    views = np.asarray(views)
    if views.ndim != 3 or not delta > 0:
        raise PermafrostError(
            f"LiDAR takes views of shape (images, views, dimensions) and a delta above 0, "
            f"not {views.shape} and {delta}",
            remedy="stack the features of the augmented views of each image",
        )
    images, count, dimensions = views.shape
    flat = check_features(views.reshape(images * count, dimensions), "the views")
    units = check_units(units, images)
    notes = {"rows": images, "views": count, "delta": delta}
    if images < 2 or count < 2:
        return undefined("it takes two images and two views of each", notes)
    views = flat.astype(np.float64).reshape(views.shape)
    means = views.mean(axis=1)
    inner = (views - means[:, None]).reshape(-1, dimensions)
    means -= means.mean(axis=0)
    # the mean of equal numbers may have a rounding error
    if np.abs(means).max() <= 4 * np.finfo(np.float64).eps * np.abs(views).max():
        return undefined("the means of all images are equal", notes)
    within = inner.T @ inner / len(inner)
    if (flat == np.repeat(flat[::count], count, axis=0)).all():
        notes["flag"] = STILL
    elif delta > within.trace() / dimensions:
        notes["flag"] = "delta exceeds the mean variance of an image's views"
    scales, axes = np.linalg.eigh(within)
    whiten = axes / np.sqrt(np.maximum(scales, 0.0) + delta)
    outer = means @ whiten
    values, right = _spectrum(outer)
    total = values.sum()
    shares = values / total + EPSILON
    slopes = np.log(shares) + 1.0
    gradient = (slopes @ values / total - slopes) / total
    # to first order an eigenvalue l changes by v' (dSb - l dSw) v, with v' Sw v = 1
    across = (outer @ right) ** 2
    inside = ((inner @ (whiten @ right)) ** 2).reshape(images, count, -1).mean(axis=1)
    effects = (across - values - values * (inside - inside.mean(axis=0))) @ gradient / images
    terms = terms_by_unit(effects, units, int(units.max()) + 1)
    return Measure(float(np.exp(-shares @ np.log(shares))), notes, terms, "log")


def _spectrum(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (min(N, d),) of the covariance of (N, d) centred rows, and their directions as columns."""
    count, dimensions = rows.shape
    if count >= dimensions:
        values, right = np.linalg.eigh(rows.T @ rows / count)
        return np.maximum(values, 0.0), right
    values, left = np.linalg.eigh(rows @ rows.T / count)
    values = np.maximum(values, 0.0)
    lengths = np.sqrt(values * count)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return values, (rows.T @ left) * inverse
