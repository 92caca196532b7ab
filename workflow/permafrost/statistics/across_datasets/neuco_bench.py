"""NeuCo-Bench's score: a statistic of scores over folds, and ranks over tasks weighted by its spread.

Source: ``benchmark/evaluation/evaluation.py`` and ``results.py`` of github.com/embed2scale/NeuCo-Bench (Vinge et
al., CVPR Workshops 2026).
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

# added to the deviation, so that equal folds give 100 times the mean
_OFFSET = 0.02


def mean_of_folds(folds: np.ndarray) -> np.ndarray:
    """(…) means of (…, F) scores without NaN; NaN if all F are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of slices without a number
        return np.nanmean(folds, axis=-1)


def q_statistic(folds: np.ndarray) -> np.ndarray:
    """(…) Q = 2 · mean / (0.02 + deviation) of (…, F) scores, with divisor F; NaN as in `mean_of_folds`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return mean_of_folds(folds) / (_OFFSET + np.nanstd(folds, axis=-1)) * 2


class Weighted(NamedTuple):
    """NeuCo-Bench's leaderboard.

    Attributes
    ----------
    score : (B,) mean of a backbone's ranks over the tasks, weighted; 1 is best.
    rank : (B,) of the scores, equal ones share the smallest.
    weights : (T,) of the tasks, with sum 1: the deviation of Q over the backbones (divisor B - 1).
    """

    score: np.ndarray
    rank: np.ndarray
    weights: np.ndarray


def weighted_ranks(q: np.ndarray) -> Weighted:
    """Rank backbones by (B, T) Q statistics; those with NaN in a task have a score and rank of NaN, and no influence.

    One backbone alone has equal weights, and so have backbones that are all equal (there, the source divides 0 by 0).
    """
    score, rank = np.full((2, len(q)), np.nan)
    whole = np.isfinite(q).all(axis=1)
    known, tasks = q[whole], q.shape[1]
    spread = known.std(axis=0, ddof=1) if len(known) > 1 else np.zeros(tasks)
    weights = spread / spread.sum() if spread.sum() > 0 else np.full(tasks, 1 / max(tasks, 1))
    # summed as in the source, since the last digit decides ties
    score[whole] = (rankdata(-known, axis=0, method="min") * weights).sum(axis=1)
    rank[whole] = rankdata(score[whole], method="min")
    return Weighted(score, rank, weights)
