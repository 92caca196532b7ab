"""Ridge regression in closed form, for all strengths of the penalty from one decomposition.

With centred features X and targets y, and X = Z V', where the columns of Z = XV are orthogonal with
squared lengths s_k::

    w(alpha)  = V diag(1 / (s_k + alpha)) Z'y
    1 - h_i   = 1 - 1/n - sum_k z_ik^2 / (s_k + alpha)      left-out residual_i = residual_i / (1 - h_i)

w minimises ||y - Xw - b||^2 + alpha ||w||^2 with unpenalised b, as scikit-learn's ``Ridge``; the left-out
residuals are those of ``RidgeCV``. Source: Golub, Heath and Wahba, Generalized Cross-Validation as a
Method for Choosing a Good Ridge Parameter (1979).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.probes.embeddings.arithmetic import centre_and_scale

# if 1 - h_i without a penalty is smaller, it is a rounding error: the features explain every target
EXPLAINED = 1e-10
CHUNK = 4096  # rows in float64 at once


@dataclass(frozen=True)
class Ridge:
    """The decomposed features and targets of one fit; float64.

    Attributes
    ----------
    mean, scale : (d,) subtracted from and divided out of the features.
    target_mean : mean of the targets.
    targets : (n,) centred targets.
    basis : (d, r) directions V along which the features vary.
    rows : (n, r) features in that basis, Z; None for more than `CHUNK` rows, which are recomputed.
    squares : (r,) squared lengths of the columns of Z.
    cross : (r,) Z'y.
    """

    mean: np.ndarray
    scale: np.ndarray
    target_mean: float
    targets: np.ndarray
    basis: np.ndarray
    rows: np.ndarray | None
    squares: np.ndarray
    cross: np.ndarray

    @classmethod
    def of(cls, features, targets: np.ndarray, *, standardize: bool) -> Ridge:
        """Decompose (n, d) features and (n,) targets, using the smaller of X X' and X' X.

        Features are an array, a `RowFile` or `JoinedRows`; unless n < d, `CHUNK` rows are read at once.
        """
        mean, scale = centre_and_scale(features, standardize)
        level = float(np.mean(targets))
        targets = targets - level
        count, width = features.shape
        wide = width > count
        chunks = [slice(0, count)] if wide else _chunks(count)

        def centred(rows: slice) -> np.ndarray:
            return (features[rows] - mean) / scale

        if wide:
            whole = centred(chunks[0])
            squares, vectors = np.linalg.eigh(whole @ whole.T)
        else:
            squares, vectors = np.linalg.eigh(sum(_gram(centred(rows)) for rows in chunks))
        eps = np.finfo(np.float64).eps
        # centring leaves the rounding error of the mean, which is not a direction of the features
        noise = count * np.sum((4 * eps * mean / scale) ** 2)
        rank = squares > max(max(count, width) * eps * squares[-1], noise)
        squares, vectors = squares[rank], vectors[:, rank]
        if wide:
            kept = vectors * np.sqrt(squares)
            basis = whole.T @ (vectors / np.sqrt(squares))
            cross = kept.T @ targets
        else:
            kept, basis, cross = None, vectors, np.zeros(len(squares))
            for rows in chunks:
                turned = centred(rows) @ vectors
                cross = cross + turned.T @ targets[rows]
                kept = turned if len(chunks) == 1 else None
        return cls(mean, scale, level, targets, basis, kept, squares, cross)

    @property
    def directions(self) -> int:
        """Number of directions along which the features vary."""
        return len(self.squares)

    def predict(self, features, alphas: np.ndarray) -> np.ndarray:
        """(N, d) features -> (N, A) predictions, one column per alpha."""
        found = np.empty((len(features), len(alphas)))
        weights = self._weights(alphas)
        for rows in _chunks(len(features)):
            found[rows] = self.target_mean + self._turned(features[rows]) @ weights
        return found

    def left_out(self, features, alphas: np.ndarray) -> np.ndarray:
        """(n, A) residuals of each sample for the fit without it, with the scaling of all samples.

        Parameters
        ----------
        features : the features of the fit.
        """
        found = np.empty((len(self.targets), len(alphas)))
        weights = self._weights(alphas)
        shrunk = alphas / (self.squares[:, None] + alphas)
        for some in [slice(0, len(found))] if self.rows is not None else _chunks(len(found)):
            rows = self._turned(features[some]) if self.rows is None else self.rows
            residuals = self.targets[some, None] - rows @ weights
            shares = rows**2 / self.squares
            free = 1 - 1 / len(found) - shares.sum(axis=1)
            free = np.where(free < EXPLAINED, 0.0, free)
            found[some] = residuals / (free[:, None] + shares @ shrunk)
        return found

    def _turned(self, features: np.ndarray) -> np.ndarray:
        return ((features - self.mean) / self.scale) @ self.basis

    def _weights(self, alphas: np.ndarray) -> np.ndarray:
        return self.cross[:, None] / (self.squares[:, None] + alphas)


def _chunks(count: int) -> list[slice]:
    return [slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows
