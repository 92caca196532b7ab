"""Possible copies that were changed: images whose features have one neighbour that is far nearer than all others.

The ratio of the distances to the nearest and to the second nearest image of another dataset is small for a copy that
was cut, mirrored or made brighter, and needs no scale (Lowe, Distinctive Image Features from Scale-Invariant Keypoints,
2004). The same ratio among the training images of the own dataset, where the images have no copies, says how small it
is by chance: the threshold is the k-th smallest of n such ratios. An image without a copy is below it with a chance of
k / (n + 1), if its ratio varies as those do (conformal p-value; Vovk, Gammerman and Shafer 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class NearFeatures:
    """Suspected copies, the smallest ratio first.

    Attributes
    ----------
    rows, others : of the test image and of its nearest image. ratios : of the distances.
    by_chance : number of images that are expected here without any copy.
    """

    rows: np.ndarray
    others: np.ndarray
    ratios: np.ndarray
    by_chance: float


def near_features(
    test: np.ndarray, others: np.ndarray, own: np.ndarray, *, clean: np.ndarray, rate: float = 1e-3
) -> NearFeatures:
    """Test images of a dataset that may be changed copies of images of another one.

    Parameters
    ----------
    test, others, own : features of N test images, of all images of the other dataset, and of the training images of
        the own dataset; at least two each.
    clean : (N,) bool, test images without known copies in `own`.
    rate : of images without a copy that may be suspected; with fewer than 1 / rate images, one of them.
    """
    nearest, ratios = _ratios(test, others)
    _, known = _ratios(test[clean], own)
    rank = max(1, math.floor(rate * (len(known) + 1)))
    threshold = np.sort(known)[rank - 1] if len(known) else -np.inf
    rows = np.flatnonzero(ratios < threshold)
    rows = rows[np.argsort(ratios[rows], kind="stable")]
    return NearFeatures(rows, nearest[rows], ratios[rows], len(test) * rank / (len(known) + 1))


def _ratios(queries: np.ndarray, gallery: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest row of the gallery, and its distance over that of the second nearest (1 if both are 0)."""
    gallery = np.asarray(gallery, np.float64)
    mean = gallery.mean(axis=0)
    gallery = gallery - mean
    squares = np.einsum("ij,ij->i", gallery, gallery)
    nearest, ratios = np.zeros(len(queries), np.int64), np.ones(len(queries))
    step = max(1, _BLOCK_BYTES // (8 * len(gallery)))
    for start in range(0, len(queries), step):
        own = np.asarray(queries[start : start + step], np.float64) - mean
        far = squares - 2 * own @ gallery.T
        two = np.argpartition(far, 1, axis=1)[:, :2]
        # differences themselves, which are exact for equal rows
        apart = np.linalg.norm(own[:, None] - gallery[two], axis=2)
        rows = np.arange(len(own))
        least = apart.argmin(axis=1)
        nearest[start : start + step] = two[rows, least]
        one, other = apart.min(axis=1), apart.max(axis=1)
        ratios[start : start + step] = np.divide(one, other, out=np.ones(len(own)), where=other > 0)
    return nearest, ratios
