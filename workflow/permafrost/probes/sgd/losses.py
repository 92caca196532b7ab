"""Gradients of the losses with respect to logits, for many heads at once."""

from __future__ import annotations

import numpy as np


def softmax_residual(logits: np.ndarray, labels: np.ndarray, heads: int) -> np.ndarray:
    """Gradient of each head's mean cross-entropy.

    Parameters
    ----------
    logits : (B, heads * K), head after head.
    labels : (B,) class ids.

    Returns
    -------
    (heads * K, B) float32. Classes come before samples, so that a maximum over few classes runs
    over whole rows of samples.
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
    small = np.exp(-np.abs(by_label))  # of one sign only, so that nothing overflows
    residual = np.where(by_label >= 0, np.float32(1), small) / (1 + small)
    residual -= labels.T
    residual *= np.float32(1 / (count * width))
    return residual.reshape(-1, count)


RESIDUALS = {"classification": softmax_residual, "multilabel": sigmoid_residual}
