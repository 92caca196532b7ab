"""Top-k accuracy with a rule for ties."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.classification._checks import class_ids, float_scores, same_length


def top_k_hits(target, scores, k: int) -> np.ndarray:
    """(N,) bool: is the target among the k classes of highest score?

    Ties go to the lowest class id, as in the nearest-neighbour vote: the target is among them when
    fewer than k classes score higher or score the same with a lower id. With k = 1 this is
    ``argmax(scores) == target``.

    Parameters
    ----------
    target : (N,) class ids in [0, K).
    scores : (N, K), without NaN.
    k : between 1 and K.
    """
    scores = float_scores(scores)
    if scores.ndim != 2 or not 1 <= k <= scores.shape[1]:
        raise PermafrostError(
            f"top-{k} accuracy is not defined for scores of the shape {scores.shape}",
            remedy=f"give scores of at least {k} classes",
        )
    target = class_ids(target, "target", scores.shape[1]).astype(np.int64)
    same_length(target, scores, "scores")
    own = np.take_along_axis(scores, target[:, None], axis=1)
    lower_id = np.arange(scores.shape[1]) < target[:, None]
    ahead = (scores > own) | ((scores == own) & lower_id)
    return np.count_nonzero(ahead, axis=1) < k


def top_k_accuracy(target, scores, k: int) -> float:
    """Share of the samples whose target is among the k best classes; see `top_k_hits`."""
    hits = top_k_hits(target, scores, k)
    return int(np.count_nonzero(hits)) / len(hits)
