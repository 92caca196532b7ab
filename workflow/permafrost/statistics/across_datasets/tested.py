"""Tests of one group of datasets under one probe, in addition to its standings.

The Bayesian signed-rank test gives the probability that two backbones are practically equivalent
over datasets. Differences below `rope`, the region of practical equivalence in score units, do not
matter to the user. The datasets have a Dirichlet process prior whose weight is one half of an
observation of no difference.
Source: Benavoli, Corani, Demsar and Zaffalon, Time for a Change: A Tutorial for Comparing Multiple Classifiers Through
Bayesian Analysis (2017); the same numbers as baycomp's `two_on_multiple`.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.draws import Scores
from permafrost.statistics.across_datasets.power import needed
from permafrost.statistics.across_datasets.significance import (
    cliques,
    friedman,
    nemenyi_difference,
    wilcoxon_against,
)
from permafrost.statistics.across_datasets.standings import mean_rank


def tested(
    scores: Scores,
    backbones: list[str],
    *,
    baseline: str | None,
    averaged: bool,
    rope: float,
    confidence: float,
    seed: int,
) -> dict:
    """Friedman, Nemenyi's critical difference and groups, Wilcoxon-Holm against the baseline, and
    the first two.

    Parameters
    ----------
    averaged : whether score differences may be averaged over datasets. If not, their size is not
        reported.

    Returns
    -------
    Plain values for JSON: ``friedman_p`` (of F, None for one dataset), ``critical_difference``,
    ``cliques`` of names, ``wilcoxon``, name to Holm's p-value. With `averaged` also ``first`` and
    ``second`` by mean rank; ``practical``: the probabilities that the first is lower, within `rope`
    or higher (None for one dataset); ``more_datasets`` and ``times_items`` of `power.needed`, None
    if no number suffices, with the reason in ``why_not_datasets`` and ``why_not_items``.
    """
    values, level = scores.oriented(), 1 - confidence
    datasets, count = values.shape
    ranks = mean_rank(values)
    difference = nemenyi_difference(count, datasets, level)
    found = {
        "friedman_p": friedman(values).p_f,
        "critical_difference": difference,
        "cliques": [[backbones[k] for k in group] for group in cliques(ranks, difference)],
    }
    if baseline in backbones:
        adjusted = wilcoxon_against(values, backbones.index(baseline))[1].tolist()
        pairs = zip(backbones, adjusted, strict=True)
        found["wilcoxon"] = {name: p for name, p in pairs if name != baseline}
    if averaged:
        first, second = np.argsort(ranks, kind="stable")[:2].tolist()
        gaps = values[:, first] - values[:, second]
        plan = needed(scores, first, second, level=level)
        found |= {
            "first": backbones[first],
            "second": backbones[second],
            # one dataset carries no information about another
            "practical": list(astuple(signed_rank(gaps, rope=rope, seed=seed)))
            if datasets > 1
            else None,
            "more_datasets": plan.more_datasets,
            "times_items": plan.times_items,
            "why_not_datasets": plan.why_not_datasets,
            "why_not_items": plan.why_not_items,
        }
    return found


PRIOR = 0.5
# draws whose weights are in memory at once
_TOGETHER = 1000


@dataclass(frozen=True)
class Posterior:
    """Probabilities that a further difference is most likely below, within or above the region."""

    lower: float
    within: float
    higher: float


def signed_rank(differences, *, rope: float, seed: int, draws: int = 20_000) -> Posterior:
    """Posterior of the differences (D,) of one backbone minus another; higher is better.

    In each draw of dataset weights, the shares of Walsh averages below -rope, within, and above
    rope are compared (averages at a bound count half to each side). The probabilities are how often
    each share is largest, ties shared. With rope = 0 nothing is within.

    Raises
    ------
    PermafrostError : a difference is missing, or `rope` is negative.
    """
    differences = np.asarray(differences, np.float64)
    if np.isnan(differences).any():
        raise PermafrostError(
            f"the difference on dataset {np.isnan(differences).argmax()} is missing",
            remedy="take the datasets that both backbones have",
        )
    if not 0 <= rope < math.inf:
        raise PermafrostError(
            f"a region of practical equivalence of {rope}", remedy="give 0 or a positive width"
        )
    values = np.concatenate([[0.0], differences])
    sums = values[:, None] + values
    below, above = _beyond(-sums, 2 * rope), _beyond(sums, 2 * rope)
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = np.zeros(3)
    for start in range(0, draws, _TOGETHER):
        weights = rng.standard_gamma(
            np.concatenate([[PRIOR], np.ones(len(differences))]),
            (min(_TOGETHER, draws - start), len(values)),
        )
        weights /= weights.sum(axis=1, keepdims=True)
        shares = [np.sum(weights @ side * weights, axis=1) for side in (below, above)]
        within = 1 - shares[0] - shares[1] if rope > 0 else np.full(len(weights), -1.0)
        sides = np.stack([shares[0], within, shares[1]], axis=1)
        largest = sides >= sides.max(axis=1, keepdims=True) - 1e-12
        counts += np.sum(largest / largest.sum(axis=1, keepdims=True), axis=0)
    return Posterior(*(counts / draws).tolist())


def _beyond(values: np.ndarray, bound: float) -> np.ndarray:
    return (values > bound) + (values == bound) / 2
