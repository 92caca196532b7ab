"""From logits to probabilities, and from these to classes or labels."""

from __future__ import annotations

import numpy as np


def probabilities(logits: np.ndarray, task: str) -> np.ndarray:
    """(n, K) logits, -inf for what can not occur -> float32 probabilities (softmax or sigmoid)."""
    logits = np.asarray(logits, dtype=np.float64)
    if task == "multilabel":
        small = np.exp(-np.abs(logits))
        return (np.where(logits >= 0, 1.0, small) / (1.0 + small)).astype(np.float32)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)


def answers(scores: np.ndarray, task: str) -> np.ndarray:
    """Class ids, or labels of more than one half, from (N, K) probabilities."""
    return (scores > 0.5).astype(np.uint8) if task == "multilabel" else scores.argmax(axis=1)
