"""The objective of logistic regression, evaluated in blocks of rows, and the labels that it is made of.

Softmax:  f(W, b) = mean_i log sum_k exp(t_ik - t_i,y) + lam/2 ||W||^2,          lam = 1 / (n C)
Sigmoid:  f(W, b) = mean_il log(1 + exp(-s_il t_il))   + lam/2 ||W||^2,  s = +-1, lam = 1 / (n L C)

with logits t = x W' + b and the bias free: scikit-learn's objective divided by n C (by n L C).
Everything is written in margins (t_ik - t_iy, or -s t), because 1 - p loses all its digits in
float32 where a sample is classified well, and large C is decided by exactly those samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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


@dataclass
class Targets:
    """Labels of one fit.

    Attributes
    ----------
    task, n_classes : as given.
    labels : (n,) ids, or (n, n_classes) of 0 and 1.
    columns : ids that are fitted. Single-label: classes that occur. Multi-label: labels that take
        both values; a constant label has its infimum at an infinite bias and is not fitted.
    """

    task: str
    n_classes: int
    labels: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, n_classes: int, task: str) -> Targets:
        if task == "classification":
            columns = np.flatnonzero(np.bincount(labels, minlength=n_classes))
        else:
            counts = labels.sum(axis=0)
            columns = np.flatnonzero((counts > 0) & (counts < len(labels)))
        return cls(task, n_classes, labels, columns)

    def subset(self, rows: np.ndarray) -> Targets:
        """The same columns over some of the rows."""
        return Targets(self.task, self.n_classes, self.labels[rows], self.columns)

    def objective(self, backend, rows):
        """The objective of these labels over (n, q) rows with a leading 1."""
        if self.task == "classification":
            compact = np.searchsorted(self.columns, self.labels)
            return SoftmaxObjective(backend, rows, backend.integer(compact), len(self.columns))
        active = backend.real(self.labels[:, self.columns])
        return SigmoidObjective(backend, rows, active, self.n_classes)

    def carry(self, backend, theta, columns: np.ndarray):
        """Rows of ``theta``, which are those of ``columns``, as a start for `self.columns`."""
        start = backend.zeros((len(self.columns), theta.shape[1]))
        for new, column in enumerate(self.columns):
            old = np.flatnonzero(columns == column)
            if len(old):
                start[new] = theta[int(old[0])]
        return start

    def whole(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all classes: what is not fitted gets weights 0 and bias -inf or inf."""
        all_coef = np.zeros((self.n_classes, coef.shape[1]))
        all_intercept = np.full(self.n_classes, -np.inf)
        if self.task == "multilabel":
            all_intercept[self.labels.all(axis=0)] = np.inf
        all_coef[self.columns], all_intercept[self.columns] = coef, intercept
        return all_coef, all_intercept

    def spread_logits(self, logits: np.ndarray) -> np.ndarray:
        """(n, fitted) logits -> (n, n_classes)."""
        _, constants = self.whole(np.zeros((len(self.columns), 1)), np.zeros(len(self.columns)))
        full = np.tile(constants, (len(logits), 1))
        full[:, self.columns] = logits
        return full
