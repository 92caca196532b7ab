"""Linear layers over the same features, side by side in one matrix."""

from __future__ import annotations

import numpy as np

from permafrost.probes.sgd.losses import RESIDUALS


class LinearHeads:
    """H linear layers of K outputs; one product serves them all.

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
        self.heads, self.width, self._residual = heads, len(bias), RESIDUALS[task]
        self.parameters = [np.tile(weight, heads), np.tile(bias, heads)]
        self.gradients = [np.empty_like(p) for p in self.parameters]

    def backward(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Leave in `gradients` those of each head's mean loss over (B, d) rows."""
        residual = self._residual(self._flat_logits(rows), labels, self.heads)
        np.matmul(rows.T, residual.T, out=self.gradients[0])
        np.sum(residual, axis=1, out=self.gradients[1])

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """(N, d) -> (N, H, K)."""
        return self._flat_logits(rows).reshape(len(rows), self.heads, self.width)

    def _flat_logits(self, rows: np.ndarray) -> np.ndarray:
        logits = rows @ self.parameters[0]
        logits += self.parameters[1]
        return logits


def uniform_start(generator: np.random.Generator, inputs: int, outputs: int):
    """(inputs, outputs) weight and (outputs,) bias, uniform within 1 / sqrt(inputs), float32.

    The law of a fresh ``torch.nn.Linear``.
    """
    bound = inputs**-0.5
    weight = generator.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
    return weight, generator.uniform(-bound, bound, outputs).astype(np.float32)
