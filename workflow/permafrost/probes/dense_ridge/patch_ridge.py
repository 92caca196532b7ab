"""Ridge regression of weighted rows that arrive in pieces, for all penalties from one decomposition.

For rows (x_i, y_i) with weights w_i, only sums are kept: the products G = X'WX and c = X'Wy of values minus
their weighted means, updated piece by piece (Chan, Golub and LeVeque, 1979). With G = V diag(s) V'::

    b(alpha) = V diag(1 / (s + alpha)) V'c

minimises sum_i w_i (y_i - x_i b - b_0)^2 + alpha ||b||^2 with unpenalised b_0, as scikit-learn's ``Ridge`` with
``sample_weight``. For the fit without the rows of one image, let Z be its rows in the basis V times the
roots of their weights, and 1/sqrt(w) Z_0 = 1/sqrt(W) an additional column for b_0, W being the total weight::

    B = [Z, Z_0],  M = diag(s + alpha, 1),  H = B M^-1 B'
    left-out residuals = (I - H)^-1 r = r + B (M - B'B)^-1 B' r        r: residuals of the fit with them

The form with the smaller matrix is solved. Features are scaled by the statistics of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# rows summed at once: updating the sums costs as much as summing the rows of an image
BLOCK = 2048


class Moments:
    """Weighted sums of rows of `width` features and their targets; float64. Call `settle` before reading them."""

    def __init__(self, width: int) -> None:
        self._waiting: list[tuple[np.ndarray, ...]] = []
        self.rows, self.weight, self.target_mean = 0, 0.0, 0.0
        self.mean, self.cross = np.zeros(width), np.zeros(width)
        self.gram = np.zeros((width, width))
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)

    def add(self, features: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        """Add rows (n, width), targets (n,) and positive weights (n,)."""
        for start in range(0, len(features), BLOCK):
            rows = slice(start, start + BLOCK)
            self._waiting.append((features[rows], targets[rows], weights[rows]))
            if sum(len(piece[1]) for piece in self._waiting) >= BLOCK:
                self.settle()

    def settle(self) -> None:
        """Add the rows that are still buffered."""
        if self._waiting:
            x, y, w = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
            self._waiting.clear()
            self._add(x.astype(np.float64), y, w)

    def _add(self, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self.rows += len(x)
        self.low, self.high = (
            np.minimum(self.low, x.min(axis=0)),
            np.maximum(self.high, x.max(axis=0)),
        )
        weight = float(w.sum())
        mean, target_mean = w @ x / weight, float(w @ y / weight)
        x = (x - mean) * np.sqrt(w)[:, None]
        y = (y - target_mean) * np.sqrt(w)
        total = self.weight + weight
        step, target_step = mean - self.mean, target_mean - self.target_mean
        between = self.weight * weight / total
        self.gram += x.T @ x
        self.gram += between * np.outer(step, step)
        self.cross += x.T @ y + between * target_step * step
        self.mean = self.mean + step * (weight / total)
        self.target_mean += target_step * (weight / total)
        self.weight = total


@dataclass(frozen=True)
class PatchRidge:
    """The decomposition of one fit.

    Attributes
    ----------
    mean, scale : (d,) subtracted from and divided out of the features; target_mean : mean of the targets.
    weight : sum of all weights.
    basis : (d, r) directions V along which the features vary; squares : (r,) their eigenvalues s.
    projected : (r,) V'c.
    """

    mean: np.ndarray
    scale: np.ndarray
    target_mean: float
    weight: float
    basis: np.ndarray
    squares: np.ndarray
    projected: np.ndarray

    @classmethod
    def of(cls, moments: Moments, *, standardize: bool) -> PatchRidge:
        """Decompose; with `standardize`, features are divided by their weighted standard deviations."""
        moments.settle()
        scale = np.ones_like(moments.mean)
        if standardize:
            spread = np.sqrt(np.diag(moments.gram) / moments.weight)
            constant = (moments.low == moments.high) | (spread == 0)
            scale = np.where(constant, 1.0, spread)
        squares, basis = np.linalg.eigh(moments.gram / np.outer(scale, scale))
        eps = np.finfo(np.float64).eps
        # centring leaves the rounding error of the mean, which is not a direction of the features
        noise = moments.weight * np.sum((4 * eps * moments.mean / scale) ** 2)
        smallest = max(moments.rows, len(squares)) * eps * squares[-1]
        kept = squares > max(smallest, noise)
        basis = basis[:, kept]
        projected = basis.T @ (moments.cross / scale)
        return cls(
            moments.mean,
            scale,
            moments.target_mean,
            moments.weight,
            basis,
            squares[kept],
            projected,
        )

    @property
    def directions(self) -> int:
        """Number of directions along which the features vary."""
        return len(self.squares)

    def predict(self, features: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """(n, d) features -> (n, A) predictions, one column per alpha."""
        weights = (self.basis @ self._coefficients(alphas)) / self.scale[:, None]
        return self.target_mean + (features - self.mean) @ weights

    def left_out(
        self, features: np.ndarray, targets: np.ndarray, weights: np.ndarray, alphas: np.ndarray
    ) -> np.ndarray:
        """(p, A) residuals of an image's rows for the fit without them."""
        roots = np.sqrt(weights)[:, None]
        z = ((features - self.mean) / self.scale) @ self.basis * roots
        residuals = roots * (targets - self.target_mean)[:, None] - z @ self._coefficients(alphas)
        b = np.concatenate([z, roots / np.sqrt(self.weight)], axis=1)
        solve = _by_rows if len(b) <= b.shape[1] else _by_directions
        for column, alpha in enumerate(alphas):
            diagonal = np.append(self.squares + alpha, 1.0)
            residuals[:, column] = solve(b, diagonal, residuals[:, column])
        return residuals / roots

    def _coefficients(self, alphas: np.ndarray) -> np.ndarray:
        return self.projected[:, None] / (self.squares[:, None] + alphas)


def _by_rows(b: np.ndarray, diagonal: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    return np.linalg.solve(np.eye(len(b)) - (b / diagonal) @ b.T, residuals)


def _by_directions(b: np.ndarray, diagonal: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    return residuals + b @ np.linalg.solve(np.diag(diagonal) - b.T @ b, b.T @ residuals)
