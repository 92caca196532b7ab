"""The initial inverse Hessian of L-BFGS: diagonal, or dense within each class.

In the eigenbasis of the features' covariance the Hessian of class k is nearly diagonal,
h_kj = c_k s_j + lam with c_k the mean of p (1 - p) and s_j the variance along direction j.
If lam is small relative to c_k s_j, this is not enough: the samples that still affect the loss are not
distributed like all samples. So for the leading directions, which the penalty does not dominate, the
exact Hessian of every class is computed, scaled to unit diagonal and inverted. Later Cs reuse the
inverse with new diagonals. It costs as much as `block_cost` iterations, and is recomputed after
that many iterations, which never costs more than twice the best schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

REACH = 1.0  # a direction is in the block if c s_j exceeds this times lam
MAX_ENTRIES = 120_000_000  # of the inverses of all classes: 480 MB
RIDGE = 3e-6  # on the unit diagonal, so that the inverse exists in float32


def _block_cost(n: int, q: int, m: int) -> float:
    """Cost of a block over m of q directions, in units of one iteration over n rows.

    Per class an iteration takes 4 n q multiply-adds, a block n m^2, and its inverse 8/3 m^3 at half the speed;
    the constants include weighting the n m features, and calls.
    """
    return 1.0 + 25.0 * m / q + m * m / (4.0 * q) * (1.0 + 5.4 * m / n)


class Metric:
    """Inverse Hessian estimate of an objective with K columns over q features.

    Parameters
    ----------
    backend : array operations.
    columns, n : number of classes and of rows.
    variances : (q,) second moments of the rotated features, 1 for the bias in column 0.
    """

    def __init__(self, backend, columns: int, n: int, variances) -> None:
        self.backend, self.n = backend, n
        self.known_variances = np.asarray(backend.numpy(variances), dtype=np.float64)
        self.variances = backend.real(variances)
        self.limit = min(len(self.known_variances), int((MAX_ENTRIES / columns) ** 0.5))
        self.spent = 0.0
        self.block: Any = None
        self.diagonal: Any = None

    def refresh(self, curvature, lam: float, project: bool) -> None:
        """Update the mean ``curvature`` (K,) of the classes and the penalty.

        ``project``: gradients sum to zero over classes (softmax).
        """
        b = self.backend
        self.project, self.lam = project, lam
        mean = b.numpy(curvature).astype(np.float64)
        self.mean = np.maximum(mean, max(1e-6 * float(mean.max()), 1e-30))
        free = np.count_nonzero(self.mean.max() * self.known_variances > REACH * lam)
        self.reach = max(1, min(self.limit, free))
        self.block_cost = _block_cost(self.n, len(self.known_variances), self.reach)
        hessian = b.real(self.mean)[:, None] * self.variances[None, :]
        hessian[:, 1:] += lam
        self.diagonal = 1.0 / hessian
        if self.block is not None:
            self._scale_block()

    def _scale_block(self) -> None:
        ratio = self.backend.real(self.mean / self.built_mean)[:, None]
        data = self.built_diagonal * ratio
        data[:, 1:] += self.lam
        self.scale = 1.0 / self.backend.sqrt(data)

    def wants_block(self) -> bool:
        return self.spent >= self.block_cost

    def demand_block(self) -> None:
        """Compute the block at the next check, regardless of its cost."""
        self.spent = float("inf")

    def drop_block(self) -> None:
        """Go back to the diagonal."""
        self.block = None

    def build_block(self, objective, at) -> None:
        """Compute and invert each class's Hessian over the leading ``size`` directions."""
        b, m = self.backend, self.reach
        self.size = m
        columns = len(self.mean)
        self.block = None  # so that two blocks are never in memory at once
        block = b.zeros((columns, m, m))
        diagonals = b.zeros((columns, m))
        step = slice(None, None, m + 1)
        for rows, spread in objective.spreads(at):
            leading = rows[:, :m]
            for k in range(columns):
                root = b.sqrt(b.maximum(spread[:, k], 0.0)).reshape(-1, 1)
                weighted = root * leading
                block[k] += weighted.swapaxes(0, 1) @ weighted
        for k in range(columns):
            hessian = block[k]
            flat = hessian.reshape(-1)
            flat[step] += 1e-12 * float(b.amax(flat[step], 0)) + 1e-30
            diagonals[k] = flat[step]
            flat[step][1:] += self.lam
            scale = 1.0 / b.sqrt(flat[step])
            hessian *= scale[:, None]
            hessian *= scale[None, :]
            flat[step] += RIDGE
            block[k] = b.inv(hessian)
        self.block, self.built_diagonal, self.built_mean = block, diagonals, self.mean
        self.spent = 0.0
        self._scale_block()

    def apply(self, vector):
        """(K, q) -> (K, q), symmetric and positive."""
        # softmax gradients sum to zero over classes, and so does the path to the optimum; neither
        # form of the metric has the flat curvature outside of this subspace, so project onto it
        if self.project:
            vector = vector - vector.mean(axis=0)
        if self.block is None:
            result = self.diagonal * vector
            return result - result.mean(axis=0) if self.project else result
        m = self.size
        inner = (self.block @ (self.scale * vector[:, :m])[:, :, None])[:, :, 0] * self.scale
        if m < vector.shape[1]:
            result = self.diagonal * vector
            result[:, :m] = inner
        else:
            result = inner
        if self.project:
            result = result - result.mean(axis=0)
        return result
