"""Selective prediction: the errors among the predictions that are kept if the least certain are dropped.

Items are kept in the order of falling confidence, the probability of what was predicted. With e_i errors among
the first i of n items::

    risk at coverage i / n = e_i / i          AURC = 1 / n sum_i e_i / i

the area under the risk-coverage curve. Items of equal confidence count as the mean over their orders. After N
items with E errors, the j-th of m tied items with e errors has on average E + j e / m errors at or before it, so
the m items add to n AURC, with the harmonic numbers H::

    e + (E - N e / m) (H(N + m) - H(N))

Therefore the order of rows has no effect, and an item that was drawn twice is two tied items. The excess is
AURC minus that of the best order, all errors last: e - (n - e) (H(n) - H(n - e)), divided by n.
Source: Geifman and El-Yaniv, Selective Classification for Deep Neural Networks (NeurIPS 2017); Geifman, Uziel and
El-Yaniv, Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers (ICLR 2019), which approximate the best
order by r + (1 - r) log(1 - r).
"""

from __future__ import annotations

import numpy as np

from permafrost.core.tasks import targets_of
from permafrost.metrics.calibration.confidence import Confidence, confidence
from permafrost.metrics.ratios import divide

# points of a drawn curve
_POINTS = 200


def aurc(target, scores, *, task: str) -> tuple[float, float]:
    """AURC and its excess, in [0, 1], of a test set; arguments and errors as `confidence`.

    ``multilabel`` counts every label of every item as one prediction, present above 0.5, whose confidence is the
    probability of what was predicted.
    """
    blocks = _tied(*entries_of(confidence(target, scores, task=task), task))
    area, excess = areas(*(np.array(each)[:, None] for each in blocks))
    return float(area[0]), float(excess[0])


def risk_coverage(target, scores, *, task: str) -> dict[str, np.ndarray]:
    """The risk-coverage curve as columns ``coverage`` and ``risk`` of at most 200 points; arguments as `aurc`."""
    blocks = _tied(*entries_of(confidence(target, scores, task=task), task))
    ends, errors = (np.concatenate(([0], np.cumsum(each))) for each in blocks)
    kept = np.unique(-(-np.arange(1, _POINTS + 1) * ends[-1] // _POINTS))
    # errors grow evenly within tied items
    return {"coverage": kept / ends[-1], "risk": np.interp(kept, ends, errors) / kept}


def entries_of(items: Confidence, task: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, E) confidence in what was predicted, and (N, E) bool whether it is wrong."""
    if targets_of(task).several:
        trust = np.maximum(items.confidence, 1 - items.confidence)
        return trust, (items.confidence > 0.5) != items.hit
    return items.confidence, ~items.hit


def areas(entries: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B,) AURC and its excess, from (G, B) whole numbers of entries and errors of tied blocks, most certain first.

    A block without entries adds nothing. NaN without entries.
    """
    ends, wrong = (np.cumsum(each, axis=0, dtype=np.int64) for each in (entries, errors))
    n, total = ends[-1], wrong[-1]
    harmonic = _harmonic(int(n.max(initial=0)))
    before, wrong_before = ends - entries, wrong - errors
    rest = wrong_before - before * divide(errors, entries, undefined=0.0)
    area = total + np.sum(rest * (harmonic[ends] - harmonic[before]), axis=0)
    best = total - (n - total) * (harmonic[n] - harmonic[n - total])
    # rounding may leave the best order below 0
    return divide(area, n), divide(np.maximum(area - best, 0.0), n)


def _harmonic(most: int) -> np.ndarray:
    """(most + 1,) harmonic numbers from H(0) = 0."""
    return np.concatenate(([0.0], np.cumsum(1 / np.arange(1, most + 1))))


def _tied(trust: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entries and errors of each distinct confidence, highest first."""
    _, block = np.unique(-trust.ravel(), return_inverse=True)
    return np.bincount(block), np.bincount(block, wrong.ravel()).astype(np.int64)
