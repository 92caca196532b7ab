"""Arithmetic that probes of embeddings share: scaling, probabilities, and comparing settings on validation."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.classification import accuracy, micro_average_precision

BLOCK_ROWS = 1024


def centre_and_scale(features: np.ndarray, standardize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and divisor of each column, float64; the bias absorbs the mean, so it is always taken."""
    mean = features.mean(axis=0, dtype=np.float64)
    if not standardize:
        return mean, np.ones_like(mean)
    spread = features.std(axis=0, dtype=np.float64)
    constant = features.min(axis=0) == features.max(axis=0)
    return mean, np.where(constant | (spread == 0), 1.0, spread)


def scaled(features: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(N, d) float32 of (features - mean) / scale, subtracted in float64, block by block."""
    rows = np.empty(features.shape, np.float32)
    for start in range(0, len(features), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        rows[block] = (features[block] - mean) / scale
    return rows


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


def score_on_validation(labels, scores, prediction, task: str) -> float:
    """Accuracy of `prediction`, or micro-AP of `scores` for ``multilabel``.

    Raises
    ------
    PermafrostError : no validation sample, or none with a label.
    """
    labels = np.asarray(labels)
    if not len(labels) or (task == "multilabel" and not labels.any()):
        lacking = "has any label, so micro-AP is undefined" if len(labels) else "is there"
        raise PermafrostError(
            f"no validation sample {lacking}",
            where="validation split",
            remedy="split the dataset so that validation holds samples with labels",
        )
    if task == "multilabel":
        return float(micro_average_precision(labels, scores))
    return float(accuracy(labels, prediction))


def validation_metric(task: str) -> dict:
    """What `score_on_validation` gives, as an entry of a probe's settings."""
    return {"val_metric": "micro_ap" if task == "multilabel" else "accuracy"}
