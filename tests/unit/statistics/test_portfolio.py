"""Portfolios of backbones, against all sets by brute force and against new datasets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.portfolio import (
    MOST_MEMBERS,
    portfolios,
    portfolios_of,
    smallest,
)


def names(scores):
    return [f"b{k}" for k in range(scores.shape[1])], [f"d{d}" for d in range(len(scores))]


def specialists(rng, count, kinds=3, each=3, noise=0.02):
    """(D, K): on each dataset the backbones of its kind are good; a set of one of each kind loses little."""
    kind = rng.integers(0, kinds, count)
    of_backbone = np.repeat(np.arange(kinds), each)
    return (
        0.6 + 0.2 * (kind[:, None] == of_backbone) + noise * rng.normal(size=(count, kinds * each))
    )


def mean_loss(scores, members):
    return (scores.max(axis=1) - scores[:, members].max(axis=1)).mean()


@pytest.mark.parametrize("seed", range(10))
def test_greedy_sets_are_near_the_best_ones_and_one_is_the_best(seed):
    scores = np.random.default_rng(seed).random((12, 6))
    backbones, datasets = names(scores)
    found = portfolios(scores, backbones, datasets)
    assert len(found) == MOST_MEMBERS
    for size, one in enumerate(found, 1):
        members = [backbones.index(name) for name in one.members]
        assert (
            len({*members}) == size
            and one.members[: size - 1] == found[size - 2].members[: size - 1]
        )
        best = min(mean_loss(scores, list(each)) for each in itertools.combinations(range(6), size))
        reached = scores.max(axis=1).mean() - mean_loss(scores, members)
        # of what the best set of this size reaches, greedy selection reaches 1 - 1 / e
        assert reached >= (1 - np.exp(-1)) * (scores.max(axis=1).mean() - best)
        if size == 1:
            assert mean_loss(scores, members) == pytest.approx(best)


def test_each_dataset_is_judged_with_the_set_of_the_others():
    rng = np.random.default_rng(3)
    scores = rng.random((7, 5))
    backbones, datasets = names(scores)
    for size, one in enumerate(portfolios(scores, backbones, datasets), 1):
        losses = []
        for left in range(7):
            rest = np.delete(scores, left, axis=0)
            chosen = portfolios(rest, backbones, datasets[:6])[size - 1].members
            own = max(scores[left, backbones.index(name)] for name in chosen)
            losses.append(scores[left].max() - own)
        assert one.loss == pytest.approx(np.mean(losses))
        assert (one.worst, one.worst_loss) == (datasets[int(np.argmax(losses))], max(losses))
        assert one.lower <= one.loss <= one.upper


def test_the_loss_is_that_of_new_datasets_and_the_naive_one_is_too_good():
    """Backbones are alike, so a chosen set is better on its own datasets by chance alone."""
    judged, naive, new = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores, later = rng.normal(size=(8, 12)), rng.normal(size=(400, 12))
        backbones, datasets = names(scores)
        one = portfolios(scores, backbones, datasets)[1]
        members = [backbones.index(name) for name in one.members]
        judged.append(one.loss)
        naive.append(mean_loss(scores, members))
        new.append(mean_loss(later, members))
    error = 3 * np.std(np.subtract(judged, new)) / np.sqrt(60)
    assert np.mean(judged) == pytest.approx(np.mean(new), abs=error)
    assert np.mean(naive) < np.mean(new) - 0.2


def test_one_backbone_of_each_kind_is_enough():
    scores = specialists(np.random.default_rng(1), 30)
    found = portfolios(scores, *names(scores))
    one = smallest(found, 0.03)
    assert len(one.members) == 3 and {int(name[1:]) // 3 for name in one.members} == {0, 1, 2}
    assert found[0].loss > 0.05 and smallest(found, -1.0) is None


def test_a_set_that_loses_nothing_on_three_datasets_may_lose_on_others():
    scores = np.array([[0.9, 0.5], [0.8, 0.6], [0.7, 0.1]])
    one, both = portfolios(scores, *names(scores))
    # no loss in three datasets: the bound of Clopper and Pearson
    assert (one.loss, one.lower) == (0, 0) and one.upper == pytest.approx(1 - 0.025 ** (1 / 3))
    assert (both.loss, both.lower, both.upper) == (0, 0, 0)
    wide = portfolios(np.array([[0, 1], [1, 0], [1, 0.9]]), *names(scores))[0]
    assert wide.upper == 1


def rows(values, metric="accuracy"):
    return [
        {"dataset": dataset, "backbone": backbone, "metric": metric, "value": value}
        for dataset, each in values.items()
        for backbone, value in each.items()
    ]


def test_only_datasets_with_all_scores_in_one_range_count():
    full = {f"d{i}": {"a": 0.5 + i / 10, "b": 0.6} for i in range(3)}
    more = [*rows({"lacking": {"a": 0.1}, "nan": {"a": 0.1, "b": np.nan}})]
    more += rows({"numbers": {"a": -3.0, "b": 0.9}}, metric="r2")
    assert portfolios_of(rows(full) + more) == portfolios_of(rows(full))
    with pytest.raises(
        PermafrostError, match="needs 3 datasets and two backbones, and there are 2 and 2"
    ):
        portfolios_of(rows({name: full[name] for name in ("d0", "d1")}) + more)
    with pytest.raises(PermafrostError, match="there are 0 and 0"):
        portfolios_of([])
