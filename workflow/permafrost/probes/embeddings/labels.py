"""Sanity checks on the labels that a probe learns from."""

from __future__ import annotations

import numpy as np


def class_gates(labels: np.ndarray, task: str, n_classes: int) -> list[str]:
    """``class_missing_in_train:ID`` for every class without a sample in `labels`."""
    if task == "multilabel":
        counts = np.asarray(labels, dtype=np.int64).sum(axis=0)
    else:
        counts = np.bincount(labels, minlength=n_classes)
    return [f"class_missing_in_train:{class_id}" for class_id in np.flatnonzero(counts == 0)]
