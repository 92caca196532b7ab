"""Arithmetic shared by probes of embeddings: scaling, and the validation metric of settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.row_file import RowFile, row_blocks
from permafrost.core.targets import Labels
from permafrost.core.tasks import TASKS, targets_of
from permafrost.metrics.classification import accuracy, micro_average_precision

BLOCK_ROWS = 1024
# range of spreads that need no rescaling, and the share of the mean below which a spread is a rounding error
ORDINARY, ROUNDING = (1e-4, 1e6), 1e-6
_VALIDATION = {"accuracy": accuracy, "micro_ap": micro_average_precision}


def centre_and_scale(
    features: np.ndarray | RowFile, standardize: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and divisor of each column, float64. Centring is always possible, as the bias absorbs the mean.

    Without `standardize` the divisor is 1, except for features of an extreme scale (`common_divisor`).

    Rows are added in order, so that the result does not depend on the size of blocks.
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
    """1, or the power of two closest to the spread of features if it is extreme.

    Penalties and learning rates are meant for features around 1: features around 1e-8 would learn nothing,
    features around 1e30 overflow. The spread is the root mean squared distance of the (N, d) rows to their (d,) mean.
    The divisor is 1 for spreads in `ORDINARY`, and if the spread is only rounding error of the mean, since such
    features have collapsed.
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
        # NumPy sums over the outer axis in order, but a single column pairwise
        add = np.add.reduce if rows.shape[1] > 1 else _last_sum
        total = add(np.concatenate([total, rows]), axis=0)[None]
    return total[0] if len(total) else np.zeros(features.shape[1])


def _last_sum(rows: np.ndarray, axis: int) -> np.ndarray:
    return np.add.accumulate(rows, axis=axis)[-1]


def scaled(
    features: np.ndarray | RowFile, mean: np.ndarray, scale: np.ndarray
) -> np.ndarray | RowFile:
    """(N, d) float32 (features - mean) / scale, computed in float64; in a file if features are in one."""
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
    """Indices of the rows with NaN or infinity."""
    rest = tuple(range(1, features.ndim))
    finite = [np.isfinite(features[rows]).all(axis=rest) for rows in row_blocks(features)]
    return np.flatnonzero(~np.concatenate(finite)) if finite else np.zeros(0, np.int64)


def varies(features: np.ndarray | RowFile) -> bool:
    """Whether any row differs from the first."""
    return any((features[rows] != features[:1]).any() for rows in row_blocks(features))


def label_targets(task: str, probe: str) -> Labels:
    """The targets of a task whose samples have classes; refuses other tasks, which `probe` does not support."""
    known = {name: one.targets for name, one in TASKS.items() if isinstance(one.targets, Labels)}
    return look_up(known, task, f"{probe}: unknown task")


def check_labels(labels, rows: int, n_classes: int, task: str, where: str) -> np.ndarray:
    """(N,) class ids below ``n_classes`` as int64, or (N, ``n_classes``) of 0 and 1 as uint8.

    Raises
    ------
    PermafrostError : another task, shape or value.
    """
    labels, targets = np.asarray(labels), label_targets(task, where.partition(",")[0])
    expected = targets.shape(rows, n_classes)
    if labels.shape != expected:
        raise PermafrostError(
            f"labels have shape {labels.shape}, expected {expected} for task {task}",
            where=where,
            remedy="give one label row per feature row",
        )
    whole = labels if labels.dtype.kind in "iu" else labels.astype(np.int64)
    top = targets.highest(n_classes)
    if labels.size and ((whole != labels).any() or whole.min() < 0 or whole.max() > top):
        raise PermafrostError(
            f"labels have values outside 0..{top}", where=where, remedy="use the card's class ids"
        )
    return whole.astype(targets.stored, copy=False)


def score_on_validation(labels, scores, prediction, task: str) -> float:
    """The metric by which a setting is chosen: accuracy of `prediction`, or micro-AP of `scores`.

    Raises
    ------
    PermafrostError : no validation sample, or none with a label.
    """
    labels, targets = np.asarray(labels), cast(Labels, targets_of(task))
    if not len(labels) or (targets.several and not labels.any()):
        lacking = "has any label, so micro-AP is undefined" if len(labels) else "is there"
        raise PermafrostError(
            f"no validation sample {lacking}",
            where="validation split",
            remedy="split the dataset so that validation holds samples with labels",
        )
    return float(_VALIDATION[targets.validation](labels, targets.scored(scores, prediction)))
