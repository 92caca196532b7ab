"""Choice among values of C with equal scores on validation.

A few dozen validation samples allow a few dozen different accuracies, so for small draws most of the grid is
a plateau, and its smallest C gives a model that has hardly learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from permafrost.core.tasks import targets_of

TIES = ("smallest", "log_loss")


def first_or_surest(
    scores: Sequence[float], logits_of: Callable[[int], np.ndarray], labels, task: str, ties: str
) -> int:
    """Index of the best score; ties go to the first, or to the least log-loss (then the first).

    Parameters
    ----------
    scores : (C,) score of each C on validation, ascending in C.
    logits_of : index to (N, K) logits; -inf or inf for classes that were not fitted.
    labels : (N,) class ids or (N, K) of 0 and 1.
    """
    best = np.flatnonzero(np.asarray(scores) == np.max(scores))
    if ties == "smallest" or len(best) == 1:
        return int(best[0])
    return int(best[int(np.argmin([log_loss(logits_of(i), labels, task) for i in best]))])


def log_loss(logits: np.ndarray, labels, task: str) -> float:
    """Mean -log p of the truth over samples whose class (or labels that) were fitted; inf if none was."""
    if targets_of(task).one_class:
        known = np.isfinite(logits[np.arange(len(labels)), labels])
        chosen, own = logits[known], labels[known]
        peak = chosen.max(axis=1, keepdims=True, initial=-np.inf)
        spread = np.log(np.exp(chosen - peak).sum(axis=1)) + peak[:, 0]
        terms = spread - chosen[np.arange(len(own)), own]
    else:
        known = np.isfinite(logits)
        terms = np.logaddexp(0.0, np.where(labels > 0, -logits, logits)[known])
    return float(terms.mean()) if len(terms) else float("inf")
