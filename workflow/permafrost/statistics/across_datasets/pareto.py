"""Which of several candidates no other one beats in both cost and score."""

from __future__ import annotations

import numpy as np


def pareto_front(costs, scores, *, higher_is_better: bool = True) -> np.ndarray:
    """(N,) whether each candidate is on the Pareto front of low cost and good score.

    One is off it if another costs no more and scores no worse, and is strictly better in one of
    both. So of equal costs the better score stays, of equal scores the lower cost, and of equal
    candidates all. One whose cost or score is missing (NaN or None) is off it, and beats none.

    Parameters
    ----------
    costs, scores : N numbers each; an infinite cost is a cost.
    """
    costs = np.array([np.nan if one is None else one for one in costs], np.float64)
    scores = np.array([np.nan if one is None else one for one in scores], np.float64)
    if costs.shape != scores.shape:
        raise ValueError(f"{costs.size} costs and {scores.size} scores")
    scores = scores if higher_is_better else -scores
    front = np.zeros(costs.shape, bool)
    known = np.flatnonzero(~(np.isnan(costs) | np.isnan(scores)))
    best = None
    # by cost, of equal costs the best score first: what comes later must beat all before it
    for one in known[np.lexsort((-scores[known], costs[known]))]:
        if best is None or scores[one] > scores[best]:
            best = one
        front[one] = costs[one] == costs[best] and scores[one] == scores[best]
    return front
