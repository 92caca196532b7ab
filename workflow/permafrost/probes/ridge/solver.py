"""Ridge regression in closed form, for all strengths of the penalty from one decomposition.

With centred features X and targets y, and X = Z V' where the columns of Z = XV are orthogonal with
squared lengths s_k::

    w(alpha)  = V diag(1 / (s_k + alpha)) Z'y
    1 - h_i   = 1 - 1/n - sum_k z_ik^2 / (s_k + alpha)      left-out residual_i = residual_i / (1 - h_i)

Minimises ||y - Xw - b||^2 + alpha ||w||^2 with b free, as scikit-learn's ``Ridge``; the left-out
residuals are those of ``RidgeCV``. Source: Golub, Heath and Wahba, Generalized Cross-Validation as a
Method for Choosing a Good Ridge Parameter (1979).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.probes.embeddings.arithmetic import centre_and_scale

# below it, what is left of 1 - h_i without a penalty is rounding: the features explain every target
EXPLAINED = 1e-10


@dataclass(frozen=True)
class Ridge:
    """Features and targets of one fit, decomposed; float64.

    Attributes
    ----------
    mean, scale : (d,) of the features, which are centred and divided by them.
    target_mean : of the targets.
    targets : (n,) centred.
    basis : (d, r) directions V along which the features vary.
    rows : (n, r) features in that basis, Z.
    squares : (r,) squared lengths of the columns of `rows`.
    """

    mean: np.ndarray
    scale: np.ndarray
    target_mean: float
    targets: np.ndarray
    basis: np.ndarray
    rows: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, targets: np.ndarray, *, standardize: bool) -> Ridge:
        """Decompose (n, d) features and (n,) targets, by the smaller of their two products."""
        mean, scale = centre_and_scale(features, standardize)
        centred = (features - mean) / scale
        level = float(np.mean(targets))
        count, width = centred.shape
        wide = width > count
        squares, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
        eps = np.finfo(np.float64).eps
        # centring leaves rounding of the mean, which is no direction of the features
        noise = count * np.sum((4 * eps * mean / scale) ** 2)
        rank = squares > max(max(count, width) * eps * squares[-1], noise)
        squares, vectors = squares[rank], vectors[:, rank]
        if wide:
            rows = vectors * np.sqrt(squares)
            basis = centred.T @ (vectors / np.sqrt(squares))
        else:
            rows, basis = centred @ vectors, vectors
        return cls(mean, scale, level, targets - level, basis, rows, squares)

    @property
    def directions(self) -> int:
        """Number of directions along which the features vary."""
        return len(self.squares)

    def predict(self, features: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """(N, d) features -> (N, A) predictions, one column per alpha."""
        rows = ((features - self.mean) / self.scale) @ self.basis
        return self.target_mean + rows @ self._weights(alphas)

    def left_out(self, alphas: np.ndarray) -> np.ndarray:
        """(n, A) residuals of each sample in the fit without it; scaling is that of all samples."""
        residuals = self.targets[:, None] - self.rows @ self._weights(alphas)
        shares = self.rows**2 / self.squares
        free = 1 - 1 / len(shares) - shares.sum(axis=1)
        free = np.where(free < EXPLAINED, 0.0, free)
        shrunk = alphas / (self.squares[:, None] + alphas)
        return residuals / (free[:, None] + shares @ shrunk)

    def _weights(self, alphas: np.ndarray) -> np.ndarray:
        return (self.rows.T @ self.targets)[:, None] / (self.squares[:, None] + alphas)
