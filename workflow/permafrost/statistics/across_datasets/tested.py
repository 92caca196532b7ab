"""What tests say of one group of datasets under one probe, beside its standings."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from permafrost.statistics.across_datasets.bayesian import signed_rank
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
    """Friedman, Nemenyi's critical difference and its groups, Wilcoxon-Holm against the baseline, and the first two.

    Parameters
    ----------
    averaged : whether differences of scores may be averaged over datasets. Else nothing is said of how large they are.

    Returns
    -------
    Plain values, to be written as JSON: ``friedman_p`` (of F, None for one dataset), ``critical_difference``,
    ``cliques`` of names, ``wilcoxon`` name to Holm's p-value; and with `averaged` ``first``, ``second``, by mean rank,
    ``practical``: the probabilities that the first is lower, within `rope` or higher (None for one dataset),
    ``more_datasets`` and ``times_items`` of `power.needed`, None where no number would do, with the reason in
    ``why_not_datasets`` and ``why_not_items``.
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
            # one dataset says nothing of a further one
            "practical": list(astuple(signed_rank(gaps, rope=rope, seed=seed)))
            if datasets > 1
            else None,
            "more_datasets": plan.more_datasets,
            "times_items": plan.times_items,
            "why_not_datasets": plan.why_not_datasets,
            "why_not_items": plan.why_not_items,
        }
    return found
