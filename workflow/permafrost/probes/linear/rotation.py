"""Features in the eigenbasis of their covariance, in which the Hessian is nearly diagonal.

With W = A V', V orthonormal and spanning all centred rows, the logits are Z A' + b' for
Z = (X - mean) V and b = b' - W mean, and ||W|| = ||A||: every A is a W of equal objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.probes.linear.table import Table

CHUNK = 4096  # rows in float64 at once
# an eigenvalue is zero up to the first share of the largest, and not zero from the second on
NULL, DISTINCT = 1e-13, 1e-9
NEGLIGIBLE = 1e-8  # largest relative change of the objective due to dropped directions


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


def rotate(backend, features, mean, scale, c_max: float) -> tuple[Basis, Table]:
    """An orthonormal basis of the centred rows, largest variance first, and the rows in it.

    Parameters
    ----------
    features : (n, d) rows of all fits, an array or `JoinedRows`. Rows that a fit
        omits only add directions; they do not change its optimum.
    mean, scale : (d,) subtracted from and divided out of the columns.
    c_max : the largest C. Directions of variance s whose sum satisfies s n C <= `NEGLIGIBLE` are
        dropped: the residuals' mean square is at most 2 f, so that the most they can lower f is
        s mean(r^2) / (2 lam) <= s n C f.

    Returns
    -------
    The basis, and (n, 1 + r) rows: the bias column, then the rotated features; in a file if
    features are in one. Products are computed in float64, because a direction of small variance is a
    small difference of large numbers, and its precision matters at large C.
    """
    n, d = features.shape
    mean, scale = backend.float64(mean), backend.float64(scale)

    def centred(rows: slice):
        return (backend.float64(features[rows]) - mean) / scale

    if d <= n:
        chunks = _chunks(n)
        _, vectors = backend.eigh(sum(_gram(centred(rows)) for rows in chunks))
        vectors = _reversed_columns(vectors)
        parts = (centred(rows) for rows in chunks)
        table, keep = _project(_Rows(backend, features, d + 1), parts, vectors, c_max)
        return Basis(mean, scale, vectors[:, :keep].swapaxes(0, 1)), table
    whole = centred(slice(0, n))  # if there are fewer rows than columns
    few = _few_rows(backend, whole)
    if few is not None:
        rotated, left = few
        return Basis(mean, scale, whole, left), Table(backend, rotated)
    outer, inner = backend.qr(whole.swapaxes(0, 1))
    _, turn = backend.eigh(_gram(inner.swapaxes(0, 1)))
    vectors = _reversed_columns(outer @ turn)
    rows = _Rows(backend, whole, vectors.shape[1] + 1)
    table, keep = _project(rows, [whole], vectors, c_max)
    return Basis(mean, scale, vectors[:, :keep].swapaxes(0, 1)), table


def _few_rows(backend, whole):
    """Rotated rows and ``left`` from the n x n products of n < d rows; None if this is inaccurate.

    With X X' = U S U', the rows in the eigenbasis are U sqrt(S) and the basis is S^-1/2 U' X. The error
    of its norms is eps / S, so small S must be clearly above zero. Columns of very different
    scale, whose small S matter, need the slower method.
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


class _Rows:
    """Rows with a leading 1 that arrive in pieces, in an array of the backend or in a file.

    Parameters
    ----------
    features : the features; if they are on disk and the backend has no room, rows are also on disk.
    """

    def __init__(self, backend, features, width: int) -> None:
        self.backend, self.width = backend, width
        self.n, self.start, self.rows = len(features), 0, None
        beside = getattr(features, "file", None)
        self.file = None
        if beside is not None and not backend.room_for(4 * self.n * width):
            self.file = beside.beside(width)
        else:
            self.rows = backend.zeros((self.n, width))
            self.rows[:, 0] = 1.0

    def add(self, rows) -> None:
        """Add (m, width - 1) float64 rows, without the leading 1."""
        b = self.backend
        if self.file is None:
            self.rows[self.start : self.start + len(rows), 1:] = rows
            self.start += len(rows)
            return
        whole = b.zeros((len(rows), self.width))
        whole[:, 0] = 1.0
        whole[:, 1:] = rows
        self.file.append(b.numpy(whole))

    def table(self, keep: int) -> Table:
        """The first ``keep`` columns of all rows."""
        b = self.backend
        if keep == self.width:
            return Table(b, self.rows if self.file is None else self.file)
        if self.file is None:
            return Table(b, b.real(self.rows[:, :keep]))
        narrow = self.file.beside(keep)
        for rows in self.file.blocks():
            narrow.append(self.file[rows][:, :keep])
        return Table(b, narrow)


def _chunks(n: int) -> list[slice]:
    return [slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]


def _project(rows: _Rows, parts, vectors, c_max: float) -> tuple[Table, int]:
    """Rows times ``vectors`` after a bias column, without negligible directions, and their number."""
    width = vectors.shape[1]
    energy = np.zeros(width)
    for part in parts:
        product = part @ vectors
        rows.add(product)
        product *= product
        energy += rows.backend.numpy(product.sum(axis=0))
    from_the_end = np.cumsum(energy[::-1])[::-1] * c_max
    keep = int(np.count_nonzero(from_the_end > NEGLIGIBLE))
    return rows.table(keep + 1), keep


def identity_basis(backend, features, mean, scale, c_max: float) -> tuple[Basis, Table]:
    """Centred and scaled rows with a leading bias column, not rotated; see `rotate`."""
    mean, scale = backend.float64(mean), backend.float64(scale)
    n, d = features.shape
    rows = _Rows(backend, features, d + 1)
    for chunk in _chunks(n):
        rows.add((backend.float64(features[chunk]) - mean) / scale)
    return Basis(mean, scale, backend.float64(np.eye(d))), rows.table(d + 1)


def _gram(rows):
    return rows.swapaxes(0, 1) @ rows


def _reversed_columns(matrix):
    """Columns in descending order of eigenvalue; `eigh` returns ascending ones."""
    return matrix[:, list(range(matrix.shape[1] - 1, -1, -1))]
