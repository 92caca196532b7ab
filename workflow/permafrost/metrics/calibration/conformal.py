"""Split-conformal prediction sets, calibrated on one half of the items and evaluated on the other half.

Each class y of an item has a score of nonconformity from its probabilities p::

    lac : 1 - p_y                                       (smallest sets)
    aps : sum of all p_k with p_k >= p_y                (sets that adapt to the item)

With the scores of the true classes of n items of the other half, the threshold is the ceil((n + 1) (1 - alpha))-th
smallest of them, and the set holds the classes with a score up to it. If items of both halves are exchangeable, the
true class is in the set with a probability of at least 1 - alpha. The same holds within each class, or group, if it
has its own threshold from its own items. With too few of them, n < 1 / alpha - 1, the threshold is infinite: the
class is in every set, or sets of the group hold all classes.
Every item is evaluated once per repeat, each with other halves.
Source: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005); Sadinle, Lei and Wasserman, Least
Ambiguous Set-Valued Classifiers (JASA 2019); Romano, Sesia and Candès, Classification with Valid and Adaptive
Coverage (NeurIPS 2020), here without randomisation.

Without it, aps sets of confident probes are large: an item whose true class is not the most probable has a score near
1. If such items are more than a share alpha, the threshold is near 1 too, and at 1 sets hold all classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.row_file import row_blocks
from permafrost.metrics.ratios import divide

KINDS = ("lac", "aps")
# (n + 1) (1 - alpha) is a whole number if it differs from one by rounding only
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PredictionSets:
    """Sets of N items, as means over R repeats.

    Attributes
    ----------
    covered : (N,) share of the repeats in which the set holds the true class.
    size : (N,) mean number of classes in the set.
    single : (N,) share of the repeats in which the set holds exactly one class.
    coverage, slopes : (S,) coverage of each of S strata, and (2, S) change of the mean size, and of the share of
        single classes, with it, if the threshold of the stratum moves. For groups S is 0.
    thresholds, infinite : number of thresholds, and of those from too few items.
    """

    covered: np.ndarray
    size: np.ndarray
    single: np.ndarray
    coverage: np.ndarray
    slopes: np.ndarray
    thresholds: int
    infinite: int


def prediction_sets(
    target, scores, halves, *, strata=None, alpha: float, kind: str = "lac"
) -> PredictionSets:
    """Sets of all items, each from thresholds of the items in the other half.

    Parameters
    ----------
    target : (N,) class ids; scores : (N, K) probabilities, an array or a `RowFile`, both checked by
        `confidence.check`.
    halves : (R, N) bool, which half each item is in, per repeat.
    strata : None for one threshold; ``"class"`` for one per class; or (N,) ids of groups for one per group.
    alpha : accepted share of sets without the true class, in (0, 1).
    kind : one of `KINDS`.
    """
    n, classes = scores.shape
    by_class, whole = isinstance(strata, str), strata is None
    own = np.concatenate(
        [_of_class(nonconformity(scores[rows], kind), target[rows]) for rows in row_blocks(scores)]
    )
    stratum = target if by_class else np.zeros(n, np.intp) if whole else strata
    count = classes if by_class else int(stratum.max()) + 1
    # (R, 2, 3, S); the thresholds of half h come from the items of the other half
    limits = np.stack(
        [
            [_thresholds(own[half != h], stratum[half != h], count, alpha) for h in (False, True)]
            for half in halves
        ]
    )
    (covered, size, single), moved = np.zeros((3, n)), np.zeros((3, classes))
    for rows in row_blocks(scores):
        each, truth = nonconformity(scores[rows], kind), target[rows]
        for half, limit in zip(halves[:, rows].astype(np.intp), limits, strict=True):
            most = limit[half] if by_class else limit[half, :, stratum[rows]][..., None]
            inside = each <= most[:, 1]
            held = np.count_nonzero(inside, axis=1)
            covered[rows] += _of_class(inside, truth)
            size[rows] += held
            single[rows] += held == 1
            if by_class or whole:
                near = (each > most[:, 0]) & (each <= most[:, 2])
                others = held[:, None] - inside
                moved[0] += near.sum(axis=0)
                moved[1] += (near & (others == 0)).sum(axis=0) - (near & (others == 1)).sum(axis=0)
                moved[2] += np.bincount(truth, _of_class(near, truth), classes)
    covered, size, single = (one / len(halves) for one in (covered, size, single))
    if not by_class:
        moved = moved.sum(axis=1, keepdims=True) if whole else moved[:, :0]
    sizes, hits = (
        np.bincount(stratum, one, count)[: moved.shape[1]] for one in (np.ones(n), covered)
    )
    middle = limits[:, :, 1]
    return PredictionSets(
        covered,
        size,
        single,
        divide(hits, sizes),
        divide(moved[:2] * sizes / n, moved[2], undefined=0.0),
        middle.size,
        int(np.count_nonzero(np.isinf(middle))),
    )


def _of_class(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(N,) entries of the (N, K) `values` in these columns."""
    return np.take_along_axis(values, classes[:, None], axis=1)[:, 0]


def nonconformity(scores: np.ndarray, kind: str) -> np.ndarray:
    """(N, K) float64 scores of nonconformity of probabilities; equal probabilities have equal scores."""
    scores = scores.astype(np.float64)
    if kind == "lac":
        return 1.0 - scores
    # probabilities in single precision add up to 1 but for rounding, which must not decide sets
    scores /= scores.sum(axis=1, keepdims=True)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    # of tied classes all have the sum that includes the last of them
    last = np.append(ranked[:, 1:] < ranked[:, :-1], np.ones((len(scores), 1), bool), axis=1)
    places = np.where(last, np.arange(scores.shape[1]), scores.shape[1])
    places = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]
    sums = np.take_along_axis(np.cumsum(ranked, axis=1), places, axis=1)
    # nothing is left after the last block, nor after one that only zeros follow
    after = np.append(ranked[:, 1:], np.zeros((len(scores), 1)), axis=1)
    sums[np.take_along_axis(after, places, axis=1) == 0] = 1.0
    sums = np.minimum(sums, 1.0)
    out = np.empty_like(sums)
    np.put_along_axis(out, order, sums, axis=1)
    return out


def halves_of(strata, repeats: int, seed: int) -> np.ndarray:
    """(R, U) bool: random halves of U units, in each of which a stratum has half of its units, up to one."""
    generator = np.random.Generator(np.random.PCG64(seed))
    strata = np.asarray(strata)
    halves = np.empty((repeats, len(strata)), bool)
    for half in halves:
        order = generator.permutation(len(strata))
        order = order[np.argsort(strata[order], kind="stable")]
        half[order] = (np.arange(len(strata)) + generator.integers(2)) % 2
    return halves


def _thresholds(own: np.ndarray, strata: np.ndarray, count: int, alpha: float) -> np.ndarray:
    """(3, S) threshold of each stratum from the scores `own` of its items, in the middle row; infinite if they are
    too few. The others are two standard errors of the coverage lower and higher, as far as there are items."""
    own = own[np.lexsort((own, strata))]
    sizes = np.bincount(strata, minlength=count)
    rank = np.ceil((sizes + 1) * (1 - alpha) - _ROUNDING).astype(np.intp)
    apart = np.ceil(2 * np.sqrt(sizes * alpha * (1 - alpha))).astype(np.intp)
    limits, enough = np.full((3, count), np.inf), rank <= sizes
    for row, shift in zip(limits, (-apart, 0 * apart, apart), strict=True):
        places = np.cumsum(sizes) - sizes + np.clip(rank + shift, 1, sizes) - 1
        row[enough] = own[places[enough]]
    return limits
