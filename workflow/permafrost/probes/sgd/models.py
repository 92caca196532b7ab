"""Several linear layers in one matrix, a network of two layers, and the gradients of their losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.targets import ManyLabels, OneClass, by_targets
from permafrost.core.tasks import targets_of

if TYPE_CHECKING:
    from permafrost.core.targets import Targets


def softmax_residual(logits: np.ndarray, labels: np.ndarray, heads: int) -> np.ndarray:
    """Gradient of each head's mean cross-entropy.

    Parameters
    ----------
    logits : (B, heads * K), head after head.
    labels : (B,) class ids.

    Returns
    -------
    (heads * K, B) float32. Classes are the first axis, so that a maximum over few classes is fast.
    """
    count = len(labels)
    by_class = np.ascontiguousarray(logits.T).reshape(heads, -1, count)
    by_class -= by_class.max(axis=1, keepdims=True)
    np.exp(by_class, out=by_class)
    by_class *= 1 / (count * by_class.sum(axis=1, keepdims=True))
    by_class[:, labels, np.arange(count)] -= np.float32(1 / count)
    return by_class.reshape(-1, count)


def sigmoid_residual(logits: np.ndarray, labels: np.ndarray, heads: int) -> np.ndarray:
    """Gradient of each head's binary cross-entropy, the mean over samples and labels.

    Parameters
    ----------
    logits : (B, heads * L), head after head.
    labels : (B, L) of 0 and 1.

    Returns
    -------
    (heads * L, B) float32.
    """
    count, width = labels.shape
    by_label = np.ascontiguousarray(logits.T).reshape(heads, width, count)
    small = np.exp(-np.abs(by_label))  # never of positive numbers, so that nothing overflows
    residual = np.where(by_label >= 0, np.float32(1), small) / (1 + small)
    residual -= labels.T
    residual *= np.float32(1 / (count * width))
    return residual.reshape(-1, count)


RESIDUALS: dict[type[Targets], Callable[[np.ndarray, np.ndarray, int], np.ndarray]]
RESIDUALS = {OneClass: softmax_residual, ManyLabels: sigmoid_residual}


class LinearHeads:
    """H linear layers of K outputs, computed by one product.

    Parameters
    ----------
    weight, bias : (d, K), (K,) float32 from which every head starts.
    heads : H.
    task : decides the loss.

    Attributes
    ----------
    heads, width : H, K.
    parameters : [(d, H * K), (H * K,)] float32, head after head.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, heads: int, task: str) -> None:
        self.heads, self.width = heads, len(bias)
        self._residual = by_targets(RESIDUALS, targets_of(task))
        self.parameters = [np.tile(weight, heads), np.tile(bias, heads)]
        self.gradients = [np.empty_like(p) for p in self.parameters]

    def backward(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Store in `gradients` the gradients of each head's mean loss over (B, d) rows."""
        residual = self._residual(self._flat_logits(rows), labels, self.heads)
        np.matmul(rows.T, residual.T, out=self.gradients[0])
        np.sum(residual, axis=1, out=self.gradients[1])

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """(N, d) features -> (N, H, K) logits."""
        return self._flat_logits(rows).reshape(len(rows), self.heads, self.width)

    def _flat_logits(self, rows: np.ndarray) -> np.ndarray:
        logits = rows @ self.parameters[0]
        logits += self.parameters[1]
        return logits


def uniform_start(
    generator: np.random.Generator, inputs: int, outputs: int
) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, outputs) weight and (outputs,) bias, uniform within 1 / sqrt(inputs), float32.

    The distribution of the initial weights of ``torch.nn.Linear``.
    """
    bound = inputs**-0.5
    weight = generator.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
    return weight, generator.uniform(-bound, bound, outputs).astype(np.float32)


class Perceptron:
    """``relu(x W1 + b1) W2 + b2``.

    Parameters
    ----------
    generator : draws the initial weights, layer after layer, see `uniform_start`.
    inputs, hidden, outputs : widths.
    task : decides the loss.

    Attributes
    ----------
    parameters : [W1 (inputs, hidden), b1, W2 (hidden, outputs), b2] float32.
    """

    def __init__(
        self, generator: np.random.Generator, inputs: int, hidden: int, outputs: int, task: str
    ) -> None:
        self._residual = by_targets(RESIDUALS, targets_of(task))
        self.parameters = [
            *uniform_start(generator, inputs, hidden),
            *uniform_start(generator, hidden, outputs),
        ]
        self.gradients = [np.empty_like(p) for p in self.parameters]

    def backward(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Store in `gradients` the gradients of the mean loss over (B, inputs) rows."""
        hidden, logits = self._forward(rows)
        residual = self._residual(logits, labels, 1).T
        first, second = self.gradients[:2], self.gradients[2:]
        np.matmul(hidden.T, residual, out=second[0])
        np.sum(residual, axis=0, out=second[1])
        behind = residual @ self.parameters[2].T
        behind *= hidden > 0
        np.matmul(rows.T, behind, out=first[0])
        np.sum(behind, axis=0, out=first[1])

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """(N, inputs) features -> (N, 1, outputs) logits."""
        return self._forward(rows)[1][:, None, :]

    def _forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weight, bias, last_weight, last_bias = self.parameters
        hidden = rows @ weight
        hidden += bias
        np.maximum(hidden, 0, out=hidden)
        logits = hidden @ last_weight
        logits += last_bias
        return hidden, logits
