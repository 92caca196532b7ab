"""Features in two dimensions, and the nearest other rows, for a picture of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from permafrost.metrics.representation.points import as_points

# of the longest row's square: a squared distance from products is not more accurate
_EQUAL = 1e-12
# squared distances in memory at once
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Plane:
    """The first two principal components of N rows.

    Attributes
    ----------
    coordinates : (N, 2) of the centred rows, times a power of two; the row farthest from 0 on an axis is positive.
    shares : (2,) of the variance; 0 if there is no variance.
    """

    coordinates: np.ndarray
    shares: np.ndarray


def plane_of(features) -> Plane:
    """Principal component analysis of (N, d) features, or `Points`, in two dimensions.

    Raises
    ------
    PermafrostError : see `as_points`.
    """
    values = as_points(features).values
    count, width = values.shape
    coordinates, shares = np.zeros((count, 2)), np.zeros(2)
    total = float(np.einsum("ij,ij->", values, values))
    if total > 0:
        # the smaller of the two matrices of products has the same eigenvalues
        tall = count > width
        products = values.T @ values if tall else values @ values.T
        found = min(2, len(products))
        last = [len(products) - found, len(products) - 1]
        own, vectors = linalg.eigh(products, subset_by_index=last)
        own, vectors = np.maximum(own[::-1], 0), vectors[:, ::-1]
        shares[:found] = own / total
        along = values @ vectors if tall else vectors * np.sqrt(own)
        coordinates[:, :found] = along * _signs(along)
    return Plane(coordinates, shares)


def _signs(along: np.ndarray) -> np.ndarray:
    """+1 or -1 of each column, so that its entry farthest from 0 becomes positive."""
    farthest = along[np.abs(along).argmax(axis=0), np.arange(along.shape[1])]
    return np.where(farthest < 0, -1.0, 1.0)


def nearest_rows(features, count: int) -> np.ndarray:
    """(N, M) the nearest other rows of each row by Euclidean distance, nearest first; ties by number.

    Distances that differ by less than a millionth of the longest centred row are equal.

    Parameters
    ----------
    features : (N, d), or `Points`. count : M; fewer if there are fewer other rows.
    """
    values = as_points(features).values
    rows = len(values)
    count = max(0, min(count, rows - 1))
    norms = np.einsum("ij,ij->i", values, values)
    equal = _EQUAL * float(norms.max()) or 1.0
    found = np.empty((rows, count), np.intp)
    step = max(1, _BLOCK // rows)
    for start in range(0, rows if count else 0, step):
        own = np.arange(start, min(start + step, rows))
        squared = norms[own, None] + norms[None] - 2 * values[own] @ values.T
        steps = np.rint(squared / equal)
        steps[own - start, own] = np.inf
        found[own] = np.argsort(steps, axis=1, kind="stable")[:, :count]
    return found
