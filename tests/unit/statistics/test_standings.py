"""Ranks, wins, gains, improvability, Elo and letters against brute force, SciPy and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.report.tables.compared import letters_of
from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.elo import elo
from permafrost.statistics.across_datasets.letters import (
    compact_letters,
    letters_in,
    ranks_possible,
    ranks_text,
)
from scipy.optimize import minimize
from scipy.stats import mannwhitneyu, rankdata


@pytest.fixture
def values():
    """(3 draws, 7 datasets, 5 backbones) with ties."""
    return np.random.default_rng(0).integers(0, 6, (3, 7, 5)) / 10


def test_ranks_are_those_of_scipy(values):
    np.testing.assert_array_equal(standings.ranks_within(values), rankdata(-values, axis=-1))
    np.testing.assert_allclose(
        standings.mean_rank(values), rankdata(-values, axis=-1).mean(axis=-2)
    )


def test_wins_are_counted_pair_by_pair(values):
    wins = standings.pairwise_wins(values)
    for draw, a, b in itertools.product(range(3), range(5), range(5)):
        first, second = values[draw, :, a], values[draw, :, b]
        expected = np.sum(first > second) + np.sum(first == second) / 2
        assert wins[draw, a, b] == (0 if a == b else expected)
    np.testing.assert_allclose(standings.win_rate(values), wins.sum(-1) / (7 * 4))


def test_improvability_is_the_mean_share_of_errors(values):
    errors = 1 - values
    expected = ((errors - errors.min(-1, keepdims=True)) / errors).mean(axis=-2)
    np.testing.assert_allclose(standings.improvability(values, np.ones(7)), expected)
    perfect = np.array([[1.0, 1.0, 0.5]])
    np.testing.assert_allclose(standings.improvability(perfect, [1.0]), [0, 0, 1])
    # errors of minus RMSE: 1 and 2
    np.testing.assert_allclose(standings.improvability([[-1.0, -2.0]], [0.0]), [0, 0.5])
    with pytest.raises(PermafrostError, match="better than the best possible"):
        standings.improvability([[1.1, 0.2]], [1.0])


def test_gain_and_normalised_means(values):
    gains = standings.mean_gain(values, 2)
    np.testing.assert_allclose(gains, values.mean(1) - values.mean(1)[:, [2]])
    low, high = np.full(7, 0.1), np.linspace(0.6, 0.9, 7)
    scaled = (values - 0.1) / (high - 0.1)[:, None]
    np.testing.assert_allclose(standings.normalised_mean(values, low, high), scaled.mean(1))
    middle = np.sort(scaled, axis=1)[:, 1:-1].mean(1)
    np.testing.assert_allclose(standings.normalised_iqm(values, low, high), middle)
    with pytest.raises(PermafrostError, match="upper bound"):
        standings.normalised_mean(values, high, low)


def test_bounds_are_those_of_named_backbones_only():
    table = np.array([[0.2, 0.5, 0.9], [0.1, 0.2, 0.8]])
    low, high = standings.reference_bounds(table, ["a", "b", "c"], "a", "b")
    np.testing.assert_array_equal([low, high], [[0.2, 0.1], [0.5, 0.2]])
    with pytest.raises(PermafrostError, match="'d' has no scores"):
        standings.reference_bounds(table, ["a", "b", "c"], "a", "d")
    with pytest.raises(PermafrostError, match="not better"):
        standings.reference_bounds(table, ["a", "b", "c"], "b", "a")


def test_probability_of_improvement_is_mann_whitneys_u():
    runs = np.random.default_rng(1).integers(0, 8, (4, 3, 5)).astype(float)
    runs[1, :, 3:] = np.nan
    chance = standings.probability_of_improvement(runs)
    for a, b in itertools.permutations(range(3), 2):
        expected = []
        for dataset in range(4):
            first, second = (runs[dataset, k][~np.isnan(runs[dataset, k])] for k in (a, b))
            expected.append(mannwhitneyu(first, second).statistic / first.size / second.size)
        assert chance[a, b] == pytest.approx(np.mean(expected))
    np.testing.assert_array_equal(np.diag(chance), 0.5)


def test_elo_of_two_is_the_logarithm_of_their_odds():
    ratings, endless = elo([[0, 7.5], [2.5, 0]])
    assert ratings[0] - ratings[1] == pytest.approx(400 * np.log10(3))
    assert ratings.mean() == pytest.approx(1000) and not endless


def test_elo_is_the_maximum_of_the_likelihood(values):
    wins = standings.pairwise_wins(values)
    ratings, endless = elo(wins)
    assert not endless.any()

    def loss(strengths, table):
        gaps = strengths[:, None] - strengths[None]
        return np.sum(table * np.logaddexp(0, -gaps))

    for draw in range(3):
        best = minimize(loss, np.zeros(5), args=(wins[draw],), tol=1e-12).x
        expected = 1000 + 400 / np.log(10) * (best - best.mean())
        np.testing.assert_allclose(ratings[draw], expected, atol=0.01)


def test_elo_stays_finite_where_one_wins_all_and_says_so():
    ratings, endless = elo([[0, 4.0], [0, 0]])
    assert endless and ratings[0] - ratings[1] == pytest.approx(400 * np.log10(4.5 / 0.5))
    beaten, endless = elo([[0, 9, 9], [0, 0, 5], [0, 4, 0.0]])
    assert endless and np.all(np.isfinite(beaten)) and beaten[0] > beaten[1] > beaten[2]
    # draws with and without a maximum do not disturb each other
    both, endless = elo([[[0, 4.0], [0, 0]], [[0, 7.5], [2.5, 0]]])
    assert endless.tolist() == [True, False]
    assert both[1, 0] - both[1, 1] == pytest.approx(400 * np.log10(3))


@pytest.mark.parametrize("seed", range(20))
def test_letters_are_shared_exactly_by_those_not_told_apart(seed):
    rng = np.random.default_rng(seed)
    different = np.triu(rng.random((7, 7)) < rng.uniform(0.1, 0.9), 1)
    order = rng.permutation(7)
    letters = [set(each) for each in compact_letters(different, order)]
    assert all(letters) and "a" in letters[order[0]]
    for a, b in itertools.combinations(range(7), 2):
        assert bool(letters[a] & letters[b]) != (different[a, b] or different[b, a])
    groups = [
        {k for k in range(7) if letter in letters[k]} for letter in sorted(set.union(*letters))
    ]
    assert not any(one < other for one in groups for other in groups)


def test_letters_of_neighbours():
    # means 4 to 1 of which neighbours do not differ significantly
    different = np.abs(np.subtract.outer(range(4), range(4))) > 1
    assert compact_letters(different) == ["a", "ab", "bc", "c"]
    assert compact_letters(np.zeros((3, 3))) == ["a", "a", "a"]
    many = compact_letters(~np.eye(28, dtype=bool))
    assert many[25:] == ["z", "a'", "b'"]


@pytest.mark.parametrize("share", [0.15, 0.5, 0.85])
def test_letters_of_a_hundred_backbones_whatever_the_pattern(share, monkeypatch):
    from permafrost.statistics.across_datasets import letters as module

    grown, plain = [], module._grown
    monkeypatch.setattr(module, "_grown", lambda *given: grown.append(0) or plain(*given))
    different = np.random.default_rng(0).random((100, 100)) < share
    different = np.triu(different, 1) | np.triu(different, 1).T
    letters = [letters_in(each) for each in compact_letters(different)]
    assert all(letters)
    for one, other in itertools.combinations(range(100), 2):
        assert bool(letters[one] & letters[other]) != different[one, other]
    # every group is grown in at most 100 steps, and they are no more than the pairs
    assert len(grown) <= 100 * 99 / 2


def test_pairs_that_were_never_tested_share_no_letter():
    def row(a, b, p):
        return {"backbone_a": a, "backbone_b": b, "difference": 0.1, "p_adjusted": p, "confidence": 0.95}  # fmt: skip

    rows = [row("a", "b", 0.5), row("a", "c", None), row("b", "c", 0.5)]
    assert letters_of(rows, ["a", "b", "c"]) == {"a": "a", "b": "ab", "c": "b"}
    assert letters_of([{**one, "p_adjusted": float("nan")} for one in rows], ["a", "b", "c"]) == {}


def test_sets_of_ranks():
    better = np.triu(np.ones((4, 4), bool), 2)
    assert ranks_possible(better).tolist() == [[1, 2], [1, 3], [2, 4], [3, 4]]
    assert ranks_text(1, 3) == "1–3" and ranks_text(2, 2) == "2"
    with pytest.raises(ValueError, match="each better"):
        ranks_possible([[0, 1], [1, 0]])
