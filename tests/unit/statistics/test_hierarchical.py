"""The hierarchical model of scores: a closed form, importance sampling from its prior, and symmetries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from permafrost.statistics.across_datasets import chances as of_tables
from permafrost.statistics.across_datasets import hierarchical
from permafrost.statistics.across_datasets.chances import (
    Measured,
    probability_of_rank,
    variances,
)
from permafrost.statistics.across_datasets.hierarchical import posterior


def best(effects) -> np.ndarray:
    return (effects == effects.max(axis=1, keepdims=True)).mean(axis=0)


def test_two_backbones_with_known_variances_have_the_closed_form(monkeypatch):
    monkeypatch.setattr(hierarchical, "_GRID", np.array([math.log(0.7)]))
    values = np.array([[0.4, -0.4], [0.9, -0.9], [-0.3, 0.3]])
    errors = np.array([0.5, 1.0, 0.25])
    chains = 200_000
    sampler = hierarchical._Chains(
        np.broadcast_to(values, (chains, 3, 2)),
        np.broadcast_to(errors[:, None], (chains, 3, 2)),
        np.ones((chains, 3, 2), bool),
        np.zeros((chains, 3)),
        hierarchical._Streams([0]),
    )
    sampler.rest[:] = -20  # there is no other variance
    sampler._levels_and_effects()
    sampler._levels_and_effects()
    found = sampler.effect[:, 0] - sampler.effect[:, 1]
    precision = 1 / (2 * 0.7**2) + np.sum(1 / (2 * errors))
    mean = np.sum((values[:, 0] - values[:, 1]) / (2 * errors)) / precision
    assert found.mean() == pytest.approx(mean, abs=0.01)
    assert found.std() == pytest.approx(precision**-0.5, abs=0.01)
    expected = math.erfc(-mean * math.sqrt(precision / 2)) / 2
    assert np.mean(found > 0) == pytest.approx(expected, abs=0.005)


def weighted_prior(values, errors, draws: int, rng) -> np.ndarray:
    """(K,) chances of being best by importance sampling: all parameters from the prior, weighted by the likelihood.

    Levels and effects are integrated out in contrasts of the backbones, as one multivariate normal.
    """
    datasets, backbones = values.shape
    unit = math.sqrt(np.median(values.var(axis=1, ddof=1)))
    values, errors = values / unit, errors / unit**2
    cauchy = lambda median, *shape: median * np.abs(rng.standard_cauchy((draws, *shape)))  # noqa: E731
    share = rng.uniform(size=(draws, 1, 1))
    spread, rest = np.sqrt(share / (1 - share)), cauchy(1.0, 1, 1)
    spread, rest = np.clip(spread, 0.01, 30), np.clip(rest, 0.01, 30)
    scale = np.clip(cauchy(0.3, 1), 0.01, 30) * rng.standard_normal((draws, datasets))
    own = np.clip(cauchy(0.3, 1), 0.01, 30) * rng.standard_normal((draws, datasets))
    scale, own = np.exp(np.clip(scale, -20, 20)), np.exp(np.clip(own, -20, 20))
    tail = rng.choice(hierarchical._TAILS, (draws, 1, 1))
    weight = rng.gamma(np.broadcast_to(tail / 2, (draws, datasets, backbones))) * 2 / tail
    factor = np.exp(0.4 * rng.standard_normal((draws, datasets, 1)))
    variance = (rest * (scale * own)[..., None]) ** 2 / weight + factor * errors
    contrast = np.eye(backbones - 1, backbones) - np.eye(backbones - 1, backbones, 1)
    size = backbones - 1
    seen = (values @ contrast.T).ravel()
    covariance = np.zeros((draws, datasets, size, datasets, size))
    for d in range(datasets):
        covariance[:, d, :, d] = np.einsum("ik,nk,jk->nij", contrast, variance[:, d], contrast)
    effects = spread**2 * (contrast @ contrast.T)
    group = np.zeros((draws, datasets), int)
    for d in range(1, datasets):
        joined = rng.integers(0, d + hierarchical._NEW, draws)
        before = group[np.arange(draws), np.minimum(joined, d - 1)]
        group[:, d] = np.where(joined < d, before, d)
    kinds = cauchy(hierarchical._KINDS, 1, 1).clip(0.01, 30) ** 2 * (datasets > 2)
    both = spread**2 + kinds * (group[:, :, None] == group[:, None])
    pairs = np.einsum("nd,ne,nde->nde", scale, scale, both)
    shared = np.einsum("nde,ij->ndiej", pairs, contrast @ contrast.T)
    covariance = (covariance + shared).reshape(draws, datasets * size, -1)
    cross = np.einsum("nd,nij->ndij", scale, effects).reshape(draws, -1, size)
    solved = np.linalg.solve(covariance, np.broadcast_to(seen[:, None], (draws, len(seen), 1)))
    logs = -(np.linalg.slogdet(covariance)[1] + solved[..., 0] @ seen) / 2
    weights = np.exp(logs - logs.max())
    mean = np.einsum("nij,ni->nj", cross, solved[..., 0])
    left = effects - np.matmul(cross.transpose(0, 2, 1), np.linalg.solve(covariance, cross))
    kept = rng.choice(draws, 20_000, p=weights / weights.sum())
    root = np.linalg.cholesky(left[kept] + 1e-12 * np.eye(size))
    gaps = mean[kept] + np.einsum("nij,nj->ni", root, rng.standard_normal((len(kept), size)))
    levels = np.concatenate(
        [np.zeros((len(kept), 1)), -np.cumsum(gaps, axis=1)], axis=1
    )  # each gap is a backbone less the next
    return best(levels)


@pytest.mark.parametrize(
    ("values", "new", "kinds"),
    [
        ([[0.80, 0.74, 0.73], [0.61, 0.60, 0.57], [0.72, 0.70, 0.71]], 6, 0.15),
        # two datasets have no groups
        ([[0.80, 0.79, 0.60], [0.90, 0.40, 0.88]], 6, 0.15),
        ([[0.8, 0.7], [0.8, 0.7], [0.8, 0.71], [0.6, 0.69]], 1, 1.0),
    ],
)
def test_the_whole_model_is_sampled_as_its_prior_and_likelihood_say(
    values, new, kinds, monkeypatch
):
    monkeypatch.setattr(hierarchical, "_NEW", new)
    monkeypatch.setattr(hierarchical, "_KINDS", kinds)
    values, errors = np.array(values), np.full(np.shape(values), 0.0001)
    expected = weighted_prior(values, errors, 150_000, np.random.default_rng(0))
    found = posterior(values, errors, draws=20_000, seed=0).effects
    np.testing.assert_allclose(best(found), expected, atol=0.03)


def test_backbones_that_never_differ_are_equally_likely_to_be_best():
    for values in (np.full((4, 5), 0.5), np.linspace(0, 1, 4)[:, None] + np.zeros((4, 5))):
        found = posterior(values, np.full((4, 5), 0.01), draws=4000, seed=0).effects
        np.testing.assert_allclose(best(found), 0.2, atol=0.05)


@pytest.mark.parametrize(
    "values",
    [
        np.full((4, 3), 0.5),
        np.tile([0.80, 0.79], (4, 1)),
        np.tile([0.80, 0.79, 0.70], (8, 1)),
        [[0.5, 0.5, 0.5], [0.6, 0.5, 0.4], [0.6, 0.5, 0.4]],
        [[1e6, 0, 5e5], [0.8, 0.7, 0.75], [0.9, 0.5, 0.7]],
        [[0.8, 0.7, 0.75]],
    ],
)
def test_scores_without_any_error_or_of_any_size_end_no_draw(values):
    """Ties on a dataset, a difference that never changes, one dataset in other units, one dataset alone."""
    values = np.array(values, np.float64)
    found = posterior(values, np.zeros(values.shape), draws=500, seed=0, with_values=True)
    assert np.isfinite(found.effects).all() and np.isfinite(found.values).all()
    chance = best(found.effects)
    if np.ptp(values):
        assert chance.argmax() == 0
    if len(values) > 1 and np.ptp(values, axis=0).max() == 0 < np.ptp(values):
        assert chance[0] > 0.85


def test_units_and_levels_of_datasets_change_nothing_and_draws_repeat():
    rng = np.random.default_rng(3)
    values, errors = rng.normal(size=(4, 3)), rng.uniform(0.1, 0.2, (4, 3))
    first = posterior(values, errors, draws=500, seed=7)
    np.testing.assert_array_equal(
        first.effects, posterior(values, errors, draws=500, seed=7).effects
    )
    moved = posterior(8 * values + 16 * np.arange(4)[:, None], 64 * errors, draws=500, seed=7)
    np.testing.assert_allclose(moved.effects, 8 * first.effects, rtol=1e-6)
    both = posterior(np.stack([values, values]), np.stack([errors, errors]), draws=500, seed=7)
    assert both.effects.shape == (2, *first.effects.shape)


@pytest.mark.parametrize("shape", [(3, 2), (8, 5), (20, 17), (2, 3), (1, 4)])
def test_tables_that_are_sampled_together_have_the_draws_that_each_has_alone(shape):
    rng = np.random.default_rng(5)
    values, errors = rng.normal(size=(3, *shape)), rng.uniform(0.01, 0.2, (3, *shape))
    values[1][rng.random(shape) < 0.15] = np.nan
    seeds = [3, 3, 9]
    both = posterior(values, errors, draws=100, seed=seeds, with_values=True)
    for place, seed in enumerate(seeds):
        alone = posterior(values[place], errors[place], draws=100, seed=seed, with_values=True)
        np.testing.assert_array_equal(both.effects[place], alone.effects)
        np.testing.assert_array_equal(both.values[place], alone.values)


def test_chances_of_several_tables_are_those_of_each(monkeypatch):
    """Tables of two shapes, in batches of one and two; one with a dataset that compares nothing."""
    rng = np.random.default_rng(6)
    given = [measured(rng.normal(size=shape)) for shape in ((4, 3), (5, 3), (4, 3), (4, 3))]
    lonely = rng.normal(size=(5, 3))
    lonely[2, 1:] = np.nan
    asked = [(one, "datasets") for one in [*given, measured(lonely)]] + [(given[0], "items")]
    monkeypatch.setattr(of_tables, "_TOGETHER", 24)
    found = dict(of_tables.all_chances(asked, draws=100, seed=1))
    assert sorted(found) == list(range(len(asked)))
    for place, one in enumerate(asked):
        alone = chances(*one, draws=100, seed=1)
        np.testing.assert_array_equal(found[place].level, alone.level)
        np.testing.assert_array_equal(found[place].loss, alone.loss)


def test_one_more_noisy_dataset_weighs_less():
    values = np.array([[1.0, 0.0], [1.2, 0.1], [0.9, 0.0], [-9.0, 9.0]])
    known, unknown = np.full((4, 2), 0.01), np.full((4, 2), 0.01)
    unknown[3] = 200.0
    certain = best(posterior(values, unknown, draws=4000, seed=0).effects)[0]
    assert certain > 0.9
    assert best(posterior(values, known, draws=4000, seed=0).effects)[0] < certain - 0.02


def test_a_missing_score_is_not_read_and_the_others_still_count():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 4)) + np.array([2.0, 0, 0, 0])
    values[0, 0] = values[3, 2] = np.nan
    errors = np.full((6, 4), 0.1)
    found = posterior(values, errors, draws=2000, seed=0, with_values=True)
    errors[0, 0] = np.nan
    again = posterior(values, errors, draws=2000, seed=0, with_values=True)
    np.testing.assert_array_equal(found.effects, again.effects)
    assert best(found.effects)[0] > 0.8
    spread = found.values.std(axis=0)
    assert spread[0, 0] > 2 * spread[1, 0]
    assert np.isfinite(found.values).all()


def test_scores_of_endless_items_lie_between_the_score_and_what_the_others_say():
    values = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 3.0]])
    exact = posterior(values, np.full((4, 2), 1e-6), draws=2000, seed=0, with_values=True).values
    np.testing.assert_allclose(exact.mean(axis=0), values, atol=0.01)
    rough = posterior(values, np.full((4, 2), 1.0), draws=2000, seed=0, with_values=True).values
    assert 1 < (rough[..., 1] - rough[..., 0]).mean(axis=0)[3] < 2.8


def chances(given: Measured, uncertainty: str, **how):
    ((_, found),) = of_tables.all_chances([(given, uncertainty)], **how)
    return found


def measured(values, higher=True, items=None) -> Measured:
    values = np.asarray(values, np.float64)
    values = values[..., None] if values.ndim == 2 else values
    datasets = len(values)
    return Measured(values, np.full(datasets, higher), items, np.ones(datasets, bool))


def test_errors_are_those_of_differences():
    rng = np.random.default_rng(0)
    items = rng.normal(size=(2, 2000)) + rng.normal(size=2000)
    items -= items.mean(axis=1, keepdims=True)
    found = variances(measured([[0.5, 0.6]], items=[items]))
    gap = 2000 / 1999 * np.sum((items[0] - items[1]) ** 2)
    assert found.sum() == pytest.approx(gap)
    # seeds: the variance of all backbones together, over the number of each one's seeds
    seeds = np.array([[[1.0, 3.0, np.nan], [4.0, 4.0, 4.0], [np.nan] * 3]])
    np.testing.assert_allclose(variances(measured(seeds))[0, :2], 2 / 3 / np.array([2, 3]))


@pytest.mark.parametrize("uncertainty", ["both", "items"])
def test_chances_losses_and_ranks_agree(uncertainty):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(8, 4)) * 0.01 + np.array([0.80, 0.78, 0.70, 0.60])
    items = [rng.normal(size=(4, 30)) * 0.0005 for _ in range(8)]
    found = chances(measured(values, items=items), uncertainty, draws=2000, seed=0)
    expected = found.of_rank(1)
    assert expected.sum() == pytest.approx(1)
    assert found.of_rank(3).sum() == pytest.approx(3)
    assert list(np.argsort(-expected)[:2]) == [0, 1]
    np.testing.assert_allclose(found.loss.min(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(found.loss.mean(axis=0), [0, 0.02, 0.1, 0.2], atol=0.012)
    assert found.apart(0.95)[0, 2:].all() and not found.apart(0.95)[1, 0]
    # errors, of which fewer are better, with the same distances
    turned = chances(measured(1 - values, False, items), uncertainty, draws=2000, seed=0)
    np.testing.assert_allclose(turned.of_rank(1), expected, atol=0.03)


def test_items_are_of_the_ranked_datasets_alone():
    rng = np.random.default_rng(1)
    values = np.array([[0.9, 0.8, 0.7], [0.9, 0.88, 0.6], [0.85, 0.8, 0.75], [0.8, 0.9, np.nan]])
    values = values[..., None]
    items = [rng.normal(size=(3, 30)) * 1e-4 for _ in range(4)]
    ranked = np.array([True, True, True, False])
    given = Measured(values, np.ones(4, bool), items, ranked)
    found = chances(given, "items", draws=1000, seed=0)
    assert found.of_rank(1)[0] > 0.99
    assert chances(given, "both", draws=1000, seed=0).of_rank(1)[0] < 0.97


def test_probability_of_rank():
    ranks = np.array([[1, 2, 3], [1.5, 1.5, 3]])
    np.testing.assert_allclose(probability_of_rank(ranks, 1), [0.75, 0.25, 0])
    np.testing.assert_allclose(probability_of_rank([[1, 2.5, 2.5]], 2), [1, 0.5, 0.5])
    np.testing.assert_allclose(probability_of_rank(ranks, 3), 1)
