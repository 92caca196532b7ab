"""The Pareto front against its definition, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.statistics.across_datasets.ranks import pareto_front


def by_definition(costs, scores, higher_is_better=True) -> list[bool]:
    sign = 1 if higher_is_better else -1
    front = []
    for cost, score in zip(costs, scores, strict=True):
        beaten = any(
            c <= cost and sign * s >= sign * score and (c < cost or sign * s > sign * score)
            for c, s in zip(costs, scores, strict=True)
        )
        front.append(not beaten and cost == cost and score == score)
    return front


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("values", [3, 1000])
def test_it_is_who_no_other_one_beats_also_with_ties_and_gaps(values, higher_is_better):
    generator = np.random.default_rng(values)
    several = 0
    for _ in range(400):
        count = generator.integers(0, 9)
        costs, scores = generator.integers(0, values, (2, count)).astype(float)
        costs[generator.random(count) < 0.15] = np.nan
        scores[generator.random(count) < 0.15] = np.nan
        costs[generator.random(count) < 0.1] = np.inf
        found = pareto_front(costs, scores, higher_is_better=higher_is_better)
        assert found.tolist() == by_definition(costs, scores, higher_is_better)
        several += found.sum() > 1
    assert several > 50


def test_of_equal_costs_the_better_score_stays_and_of_equals_all():
    assert pareto_front([1, 1, 2, 2], [0.5, 0.6, 0.7, 0.7]).tolist() == [False, True, True, True]
    assert pareto_front([1, 2, 3], [0.6, 0.6, 0.7]).tolist() == [True, False, True]


def test_who_has_no_cost_is_off_it_and_beats_none():
    assert pareto_front([None, 5], [0.9, 0.1]).tolist() == [False, True]
    assert pareto_front([float("nan")], [0.9]).tolist() == [False]
    assert pareto_front([], []).tolist() == []
    with pytest.raises(ValueError):
        pareto_front([1], [1, 2])
