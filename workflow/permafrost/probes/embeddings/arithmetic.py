"""Arithmetic that probes of embeddings share: scaling, probabilities, and comparing settings on validation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile, row_blocks
from permafrost.metrics.classification import accuracy, micro_average_precision

BLOCK_ROWS = 1024
# spreads of features that probes take as they are, and the share of the mean below which a spread is rounding
ORDINARY, ROUNDING = (1e-4, 1e6), 1e-6


def centre_and_scale(
    features: np.ndarray | RowFile, standardize: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and divisor of each column, float64; the bias absorbs the mean, so it is always taken.

    Without `standardize` the divisor is 1, but for features of an extreme scale (`common_divisor`).

    Rows are added in order whatever is read at a time, so that the size of blocks changes nothing.
    """
    count, width = features.shape
    mean = _column_sums(features, lambda rows: rows) / count
    if not standardize:
        return mean, np.full_like(mean, common_divisor(features, mean))
    spread = np.sqrt(_column_sums(features, lambda rows: (rows - mean) ** 2) / count)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for rows in row_blocks(features):
        block = features[rows]
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    return mean, np.where((low == high) | (spread == 0), 1.0, spread)


def common_divisor(features: np.ndarray | RowFile, mean: np.ndarray) -> float:
    """1, or the power of two next to the spread of features whose scale is extreme.

    Penalties and learning rates are meant for features around 1: those of 1e-8 would be held down by any of them,
    those of 1e30 overflow. The spread is the root of the mean squared distance of the (N, d) rows to their (d,) mean.
    Spreads in `ORDINARY` stay, and so does one that is rounding beside the mean: such features have collapsed.
    """
    squares = _column_sums(features, lambda rows: (rows - mean) ** 2)
    spread = float(np.sqrt(squares.sum() / max(len(features), 1)))
    ordinary = ORDINARY[0] <= spread <= ORDINARY[1]
    if ordinary or spread <= ROUNDING * float(np.linalg.norm(mean)):
        return 1.0
    return float(2.0 ** np.round(np.log2(spread)))


def scale_gates(scale: np.ndarray, standardize: bool) -> list[str]:
    """``rescaled_features:1.5e-08`` if `centre_and_scale` met features of an extreme scale."""
    rescaled = not standardize and scale.size and scale[0] != 1.0
    return [f"rescaled_features:{scale[0]:.1e}"] if rescaled else []


def _column_sums(features: np.ndarray | RowFile, of: Callable) -> np.ndarray:
    """(d,) sums over rows of `of` (float64 rows)."""
    total = np.zeros((0, features.shape[1]))
    for start in range(0, len(features), BLOCK_ROWS):
        rows = of(features[start : start + BLOCK_ROWS].astype(np.float64))
        # one column is no sum over the outer axis, which NumPy takes in order
        add = np.add.reduce if rows.shape[1] > 1 else _last_sum
        total = add(np.concatenate([total, rows]), axis=0)[None]
    return total[0] if len(total) else np.zeros(features.shape[1])


def _last_sum(rows: np.ndarray, axis: int) -> np.ndarray:
    return np.add.accumulate(rows, axis=axis)[-1]


def scaled(
    features: np.ndarray | RowFile, mean: np.ndarray, scale: np.ndarray
) -> np.ndarray | RowFile:
    """(N, d) float32 of (features - mean) / scale, subtracted in float64; in a file where features are in one."""
    if isinstance(features, RowFile):
        whole = features.beside(features.width)
        for rows in row_blocks(features):
            whole.append(scaled(features[rows], mean, scale))
        return whole
    rows = np.empty(features.shape, np.float32)
    for start in range(0, len(features), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        rows[block] = (features[block] - mean) / scale
    return rows


def bad_rows(features: np.ndarray | RowFile) -> np.ndarray:
    """Numbers of the rows that hold NaN or infinity."""
    rest = tuple(range(1, features.ndim))
    finite = [np.isfinite(features[rows]).all(axis=rest) for rows in row_blocks(features)]
    return np.flatnonzero(~np.concatenate(finite)) if finite else np.zeros(0, np.int64)


def varies(features: np.ndarray | RowFile) -> bool:
    """Whether there is a row that differs from the first."""
    return any((features[rows] != features[:1]).any() for rows in row_blocks(features))


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
