"""A network of two layers: linear, rectifier, linear."""

from __future__ import annotations

import numpy as np

from permafrost.probes.sgd.linear_heads import uniform_start
from permafrost.probes.sgd.losses import RESIDUALS


class Perceptron:
    """``relu(x W1 + b1) W2 + b2``.

    Parameters
    ----------
    generator : draws the start, layer after layer, see `uniform_start`.
    inputs, hidden, outputs : widths.
    task : decides the loss.

    Attributes
    ----------
    parameters : [W1 (inputs, hidden), b1, W2 (hidden, outputs), b2] float32.
    """

    def __init__(
        self, generator: np.random.Generator, inputs: int, hidden: int, outputs: int, task: str
    ) -> None:
        self._residual = RESIDUALS[task]
        self.parameters = [
            *uniform_start(generator, inputs, hidden),
            *uniform_start(generator, hidden, outputs),
        ]
        self.gradients = [np.empty_like(p) for p in self.parameters]

    def backward(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Leave in `gradients` those of the mean loss over (B, inputs) rows."""
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
        """(N, inputs) -> (N, 1, outputs)."""
        return self._forward(rows)[1][:, None, :]

    def _forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weight, bias, last_weight, last_bias = self.parameters
        hidden = rows @ weight
        hidden += bias
        np.maximum(hidden, 0, out=hidden)
        logits = hidden @ last_weight
        logits += last_bias
        return hidden, logits
