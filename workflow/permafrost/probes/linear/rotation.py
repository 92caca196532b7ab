"""Features in the eigenbasis of their covariance: the same problem, nearly diagonal.

With W = A V', V orthonormal and spanning all centred rows, the logits are Z A' + b' for
Z = (X - mean) V and b = b' - W mean, and ||W|| = ||A||: every A is a W of equal objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

CHUNK = 4096  # rows in float64 at a time
NULL, DISTINCT = 1e-13, 1e-9  # eigenvalues, as shares of the largest: zero; not zero
NEGLIGIBLE = 1e-8  # relative change of the objective that dropped directions may cause


@dataclass
class Basis:
    """Orthonormal directions: the rows of ``left @ right`` (of ``right`` without ``left``).

    ``mean`` and ``scale`` (d,) are subtracted from and divided out of raw features; all float64.
    """

    mean: Any
    scale: Any
    right: Any
    left: Any = None

    def raw(self, backend, theta) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (K, d) and intercept (K,) for raw features, float64."""
        weights = backend.float64(theta[:, 1:])
        if self.left is not None:
            weights = weights @ self.left
        weights = (weights @ self.right) / self.scale
        intercept = backend.float64(theta[:, 0]) - weights @ self.mean
        return backend.numpy(weights), backend.numpy(intercept)


def rotate(backend, features: np.ndarray, mean, scale, c_max: float) -> tuple[Basis, Any]:
    """An orthonormal basis of the centred rows, largest variance first, and the rows in it.

    Parameters
    ----------
    features : (n, d) every row that any fit will see. Rows that a fit leaves out only add
        directions, they do not change its optimum.
    mean, scale : (d,) subtracted from and divided out of the columns.
    c_max : the largest C. Directions of variance s whose sum satisfies s n C <= `NEGLIGIBLE` are
        dropped: the residuals' mean square is at most 2 f, so that the most they can lower f is
        s mean(r^2) / (2 lam) <= s n C f.

    Returns
    -------
    The basis, and (n, 1 + r) rows: the bias column, then the rotated features. Products are taken
    in float64, because a direction of small variance is a small difference of large numbers and
    its digits matter at large C.
    """
    n, d = features.shape
    mean, scale = backend.float64(mean), backend.float64(scale)

    def centred(rows: slice):
        return (backend.float64(features[rows]) - mean) / scale

    if d <= n:
        chunks = [slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]
        _, vectors = backend.eigh(sum(_gram(centred(rows)) for rows in chunks))
        vectors = _reversed_columns(vectors)
        rotated, keep = _project(backend, (centred(rows) for rows in chunks), n, vectors, c_max)
        return Basis(mean, scale, vectors[:, :keep].swapaxes(0, 1)), rotated
    whole = centred(slice(0, n))
    few = _few_rows(backend, whole)
    if few is not None:
        rotated, left = few
        return Basis(mean, scale, whole, left), rotated
    outer, inner = backend.qr(whole.swapaxes(0, 1))
    _, turn = backend.eigh(_gram(inner.swapaxes(0, 1)))
    vectors = _reversed_columns(outer @ turn)
    rotated, keep = _project(backend, [whole], n, vectors, c_max)
    return Basis(mean, scale, vectors[:, :keep].swapaxes(0, 1)), rotated


def _few_rows(backend, whole):
    """Rotated rows and ``left`` from the n x n products of n < d rows; None where inexact.

    With X X' = U S U', the rows in the eigenbasis are U sqrt(S) and the basis is S^-1/2 U' X. Its
    norms are good to eps / S, so this serves only where small S are clearly apart from zero, and
    columns of very different scale (whose small S matter) are left to the slower way.
    """
    spread = backend.numpy((whole * whole).sum(axis=0))
    spread = spread[spread > 0]
    if len(spread) == 0 or spread.max() > 1e6 * spread.min():
        return None
    values, vectors = backend.eigh(whole @ whole.swapaxes(0, 1))
    share = backend.numpy(values) / float(values[-1])
    if ((share > NULL) & (share < DISTINCT)).any():
        return None
    keep = int((share >= DISTINCT).sum())
    vectors = _reversed_columns(vectors)[:, :keep]
    root = backend.sqrt(values[-keep:])[list(range(keep - 1, -1, -1))]
    rotated = backend.zeros((whole.shape[0], keep + 1))
    rotated[:, 0] = 1.0
    rotated[:, 1:] = vectors * root
    return rotated, (vectors / root).swapaxes(0, 1)


def _project(backend, parts, n: int, vectors, c_max: float):
    """Rows times ``vectors`` behind a bias column, cut to the directions worth keeping."""
    width = vectors.shape[1]
    rotated = backend.zeros((n, width + 1))
    rotated[:, 0] = 1.0
    energy, start = np.zeros(width), 0
    for part in parts:
        product = part @ vectors
        rotated[start : start + len(part), 1:] = product
        start += len(part)
        product *= product
        energy += backend.numpy(product.sum(axis=0))
    from_the_end = np.cumsum(energy[::-1])[::-1] * c_max
    keep = int(np.count_nonzero(from_the_end > NEGLIGIBLE))
    return (rotated if keep == width else backend.real(rotated[:, : keep + 1])), keep


def identity_basis(backend, features: np.ndarray, mean, scale, c_max: float) -> tuple[Basis, Any]:
    """Centred and scaled rows with a leading bias column, not rotated; see `rotate`."""
    mean, scale = backend.float64(mean), backend.float64(scale)
    rows = (backend.float64(features) - mean) / scale
    whole = backend.zeros((rows.shape[0], rows.shape[1] + 1))
    whole[:, 0] = 1.0
    whole[:, 1:] = rows
    return Basis(mean, scale, backend.float64(np.eye(rows.shape[1]))), whole


def _gram(rows):
    return rows.swapaxes(0, 1) @ rows


def _reversed_columns(matrix):
    """Columns in descending order of eigenvalue: `eigh` ascends."""
    return matrix[:, list(range(matrix.shape[1] - 1, -1, -1))]
