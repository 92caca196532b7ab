"""The objective of logistic regression, evaluated in blocks of rows, in terms of margins.

Softmax:  f(W, b) = mean_i log sum_k exp(t_ik - t_i,y) + lam/2 ||W||^2,          lam = 1 / (n C)
Sigmoid:  f(W, b) = mean_il log(1 + exp(-s_il t_il))   + lam/2 ||W||^2,  s = +-1, lam = 1 / (n L C)

with logits t = x W' + b and the bias free: scikit-learn's objective divided by n C (by n L C).
Everything is written in margins (t_ik - t_iy, or -s t), because 1 - p loses all its digits in
float32 where a sample is classified well, and large C is decided by exactly those samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# exp(-60) = 1e-26 adds nothing to a sum that holds 1; smaller ones become denormal numbers in
# later products, and those take a hundred times as long
LEAST = -60.0


@dataclass
class Softmax:
    """What one evaluation leaves for slopes, residual and curvature. Shapes (blocks, [K,] rows).

    ``wrong`` exp(margin - peak), 0 at the true class; ``rest`` its sum over classes;
    ``share`` row weight / S and ``inverse`` 1 / S for S = sum of all exponentials;
    ``right`` exp(-peak).
    """

    loss: float
    wrong: Any
    rest: Any
    share: Any
    inverse: Any
    right: Any


@dataclass
class Sigmoid:
    """``wrong`` probability of the opposite label, ``spread`` p (1 - p)."""

    loss: float
    wrong: Any
    spread: Any


class Rows:
    """Rows of features cut in blocks, padded with zero rows of weight zero.

    Parameters
    ----------
    backend : array operations.
    features : (n, q) float32; the first column is 1 (the bias).
    columns : number of columns of logits.
    """

    def __init__(self, backend, features, columns: int) -> None:
        n, q = features.shape
        self.backend, self.n, self.q, self.columns = backend, n, q, columns
        self.rows = backend.block_rows(n, columns, q)
        self.blocks = -(-n // self.rows)
        padded = self.blocks * self.rows
        if padded != n:
            whole = backend.zeros((padded, q))
            whole[:n] = features
            features = whole
        self.flat = features
        self.tall = features.reshape(self.blocks, self.rows, q)
        self.wide = self.tall.swapaxes(1, 2)
        weight = backend.zeros((padded,))
        weight[:n] = 1.0
        self.real = weight.reshape(self.blocks, self.rows)

    def logits(self, theta):
        """(K, q) -> (blocks, K, rows)."""
        return theta @ self.wide

    def gather(self, residual):
        """Sum over rows of residual times features: (blocks, K, rows) -> (K, q)."""
        return (residual @ self.tall).sum(axis=0)

    def blocked(self, table):
        """(n, K) -> (blocks, K, rows), padded with zeros."""
        whole = self.backend.zeros((self.blocks * self.rows, table.shape[1]))
        whole[: self.n] = table
        blocks = whole.reshape(self.blocks, self.rows, -1).swapaxes(1, 2)
        return self.backend.real(blocks)


class SoftmaxObjective(Rows):
    """Mean cross-entropy over n rows; ``labels`` (n,) in 0..K-1."""

    couples_columns = True

    def __init__(self, backend, features, labels, columns: int) -> None:
        super().__init__(backend, features, columns)
        padded = backend.integer([0] * (self.blocks * self.rows))
        padded[: self.n] = labels
        position = backend.integer(range(self.blocks * self.rows))
        block, row = position // self.rows, position % self.rows
        flat = (block * columns + padded) * self.rows + row
        self.true = flat.reshape(self.blocks, self.rows)
        self.weight = self.real / self.n
        self.penalty_share = 1.0 / self.n

    def margins(self, logits):
        return logits - self.backend.take(logits, self.true)[:, None, :]

    def evaluate(self, margins) -> Softmax:
        b = self.backend
        peak = b.amax(margins, 1)  # never below 0, the true class's own margin
        wrong = b.maximum(margins - peak[:, None, :], LEAST)
        b.exp_(wrong)
        b.put_(wrong, self.true, 0.0)
        rest = wrong.sum(axis=1)
        below = b.expm1(-peak)
        excess = rest + below  # S - 1, exact where the peak is the true class
        loss = b.total((peak + b.log1p(excess)) * self.weight)
        inverse = 1.0 / (1.0 + excess)
        return Softmax(loss, wrong, rest, self.weight * inverse, inverse, below + 1.0)

    def slopes(self, at: Softmax, step) -> tuple[float, float]:
        """First and second derivative of the loss along ``step`` (margins of a direction)."""
        b = self.backend
        moved = at.wrong * step
        first = moved.sum(axis=1)
        moved *= step
        second = b.dot(moved.sum(axis=1), at.share)
        drift = first * at.share
        return b.total(drift), second - b.dot(drift, first * at.inverse)

    def residual(self, at: Softmax):
        """Derivative of the loss by the logits."""
        result = at.wrong * at.share[:, None, :]
        self.backend.put_(result, self.true, -(at.rest * at.share))
        return result

    def spread(self, at: Softmax):
        """Diagonal of the second derivative by the logits, weight times p (1 - p)."""
        result = at.wrong * at.inverse[:, None, :]
        result *= 1.0 - result
        result *= self.weight[:, None, :]
        self.backend.put_(result, self.true, at.rest * at.share * at.right * at.inverse)
        return result


class SigmoidObjective(Rows):
    """Mean binary cross-entropy over n rows times L labels; ``labels`` (n, K), 0 or 1.

    ``width`` is L: columns with one value only are left out of the fit, but not of the mean.
    """

    couples_columns = False

    def __init__(self, backend, features, labels, width: int) -> None:
        super().__init__(backend, features, labels.shape[1])
        self.sign = 1.0 - 2.0 * self.blocked(labels)
        self.penalty_share = 1.0 / (self.n * width)
        self.weight = self.real[:, None, :] * self.penalty_share

    def margins(self, logits):
        return logits * self.sign

    def evaluate(self, margins) -> Sigmoid:
        b = self.backend
        small = b.maximum(-abs(margins), LEAST)
        b.exp_(small)
        loss = b.total((b.maximum(margins, 0.0) + b.log1p(small)) * self.weight)
        inverse = 1.0 / (1.0 + small)
        minor = small * inverse
        return Sigmoid(loss, b.where(margins >= 0, inverse, minor), minor * inverse)

    def slopes(self, at: Sigmoid, step) -> tuple[float, float]:
        weighted = step * self.weight
        return self.backend.dot(weighted, at.wrong), self.backend.dot(weighted * step, at.spread)

    def residual(self, at: Sigmoid):
        return at.wrong * self.sign * self.weight

    def spread(self, at: Sigmoid):
        return at.spread * self.weight
