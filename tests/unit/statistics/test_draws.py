"""Draws of datasets and items: their variances, and how often intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.draws import (
    Scores,
    draw,
    interval,
    told_apart,
)
from permafrost.statistics.across_datasets.elo import elo
from permafrost.statistics.across_datasets.standings import mean_gain, mean_rank

ITEMS = 60


def made_up(rng, datasets: int, spread: float, gains=(0, 0.0, 0.0), noise=0.5) -> Scores:
    """Means of items; backbones differ by `gains`, `spread` from dataset to dataset, and by chance."""
    own = rng.normal(0, 1, (datasets, 1)) + spread * rng.normal(size=(datasets, len(gains)))
    own = own + np.array(gains)
    items = own[..., None] + noise * rng.normal(size=(datasets, len(gains), ITEMS))
    values = items.mean(-1)
    parts = (items - values[..., None]) / ITEMS
    return Scores(values[..., None], np.ones(datasets, bool), tuple(parts))


def test_items_have_the_variance_of_a_mean():
    scores = made_up(np.random.default_rng(0), 3, 0.1)
    drawn = draw(scores, "items", draws=20_000, seed=0)
    parts = np.stack(scores.items)
    expected = np.sqrt(ITEMS / (ITEMS - 1) * np.sum(parts**2, axis=-1))
    np.testing.assert_allclose(drawn.std(axis=0), expected, rtol=0.03)
    # alike for all backbones: a difference has the variance of paired items
    paired = np.sqrt(ITEMS / (ITEMS - 1) * np.sum((parts[:, 0] - parts[:, 1]) ** 2, axis=-1))
    np.testing.assert_allclose((drawn[..., 0] - drawn[..., 1]).std(axis=0), paired, rtol=0.03)


def test_both_do_not_count_the_noise_of_items_twice():
    scores = made_up(np.random.default_rng(1), 40, 0.08)
    values = scores.oriented()
    own = values - values.mean(1, keepdims=True)
    seen = own.std(axis=0, ddof=1) / np.sqrt(40)
    spread = {}
    for uncertainty in ("items", "datasets", "both"):
        drawn = draw(scores, uncertainty, draws=4000, seed=0)
        spread[uncertainty] = (drawn - drawn.mean(-1, keepdims=True)).mean(axis=1).std(axis=0)
    np.testing.assert_allclose(spread["both"], seen, rtol=0.06)
    parts = np.hypot(spread["items"], spread["datasets"])
    np.testing.assert_allclose(parts, seen, rtol=0.06)


def test_less_is_better_where_it_is_said_and_seeds_stray():
    values = np.array([[[1.0, 3.0], [4.0, 4.0]]])
    scores = Scores(values, np.array([False]), (np.zeros((2, 5)),))
    np.testing.assert_array_equal(scores.oriented(), [[-2, -4]])
    drawn = draw(scores, "items", draws=20_000, seed=0)[:, 0]
    assert drawn[:, 0].std() == pytest.approx(1, rel=0.03) and drawn[:, 1].std() == 0


# without any spread between datasets, intervals of both are too wide: they are not less than those of items
@pytest.mark.parametrize(
    ("spread", "uncertainty", "most"), [(0.1, "both", 0.99), (0.0, "both", 1), (0.1, "items", 0.99)]
)
def test_intervals_of_gains_hold_the_truth(spread, uncertainty, most):
    rng = np.random.default_rng(2)
    held = []
    for number in range(120):
        scores = made_up(rng, 12, spread)
        if uncertainty == "items":  # the datasets stay: the truth is theirs
            truth = scores.oriented()
            noise = rng.normal(size=(12, 3, ITEMS)) * 0.5
            values = truth + noise.mean(-1)
            parts = tuple((noise - noise.mean(-1, keepdims=True)) / ITEMS)
            scores, truth = Scores(values[..., None], scores.higher, parts), mean_gain(truth, 0)
        else:
            truth = np.zeros(3)
        drawn = mean_gain(draw(scores, uncertainty, draws=200, seed=number), 0)
        datasets = 12 if uncertainty == "both" else None
        value = mean_gain(scores.oriented(), 0)
        lower, upper = interval(value, drawn, datasets=datasets, confidence=0.95)
        held.append(((lower <= truth) & (truth <= upper))[1:])
    assert 0.91 <= np.mean(held) <= most


def test_equal_backbones_are_rarely_told_apart_and_unequal_ones_are():
    rng = np.random.default_rng(3)
    false, found = 0, 0
    for number in range(50):
        for gains in ((0.0,) * 5, (0.0, 0.0, 0.0, 0.0, 0.5)):
            scores = made_up(rng, 12, 0.1, gains)
            drawn = draw(scores, "both", draws=200, seed=number).mean(axis=1)
            value = scores.oriented().mean(axis=0)
            better = told_apart(value, drawn, datasets=12, confidence=0.95)
            false += better.any() if not any(gains) else 0
            found += better[4, :4].all() if any(gains) else 0
    assert false <= 6 and found >= 46


def improvability(values):
    return standings.improvability(np.minimum(values, 8), np.full(values.shape[-2], 8.0))


@pytest.mark.parametrize(
    ("statistic", "of_order"),
    [
        (mean_rank, True),
        (standings.win_rate, True),
        (lambda values: elo(standings.pairwise_wins(values))[0], True),
        (improvability, False),
    ],
    ids=["mean_rank", "win_rate", "elo", "improvability"],
)
@pytest.mark.parametrize(
    ("uncertainty", "gains"),
    [("both", (0, 0.1, 0.2, 0.4)), ("items", (0, 0.1, 0.2, 0.4)), ("items", (0, 0, 0, 0))],
)
def test_intervals_that_depend_on_who_takes_part(statistic, of_order, uncertainty, gains):
    """The truth is the mean over tables of this size; `benchmarks/ranking_coverage.py` does it at length."""
    rng, held, spread = np.random.default_rng(4), [], 0.1 if any(gains) else 0
    noise = 0.5 / np.sqrt(ITEMS)
    again = [made_up(rng, 12, spread, gains).oriented() for _ in range(1500)]
    truth = statistic(np.stack(again)).mean(axis=0)
    for number in range(80):
        scores = made_up(rng, 12, spread, gains)
        if uncertainty == "items":  # the datasets stay
            fixed = scores.oriented() if spread else np.full((12, 4), scores.oriented().mean())
            truth = statistic(fixed + noise * rng.normal(size=(200, *fixed.shape))).mean(axis=0)
            moved = fixed + noise * rng.normal(size=fixed.shape)
            scores = Scores(moved[..., None], scores.higher, scores.items)
        drawn = statistic(draw(scores, uncertainty, draws=150, seed=number))
        datasets = 12 if uncertainty == "both" else None
        value = statistic(scores.oriented())
        options = {"datasets": datasets, "confidence": 0.95, "of_order": of_order}
        lower, upper = interval(value, drawn, **options)
        held.append((lower <= truth) & (truth <= upper))
    assert 0.9 <= np.mean(held) <= (0.995 if of_order else 0.99)


@pytest.mark.parametrize("of_order", [False, True])
def test_ranks_of_equal_backbones_on_fixed_datasets_rarely_differ(of_order):
    """Without `of_order`, which nothing but this test leaves out, a third of the tables has a pair."""
    rng, found = np.random.default_rng(5), 0
    for number in range(100):
        scores = made_up(rng, 12, 0.0, (0.0,) * 5)
        drawn = -mean_rank(draw(scores, "items", draws=200, seed=number))
        value = -mean_rank(scores.oriented())
        options = {"datasets": None, "confidence": 0.95, "of_order": of_order}
        found += told_apart(value, drawn, **options).any()
    assert found <= 10 if of_order else found >= 15


def test_few_datasets_have_the_tail_of_students_t():
    """Two backbones: told apart as by a paired t test of 95 %."""
    rng, found = np.random.default_rng(6), 0
    for number in range(400):
        values = rng.normal(size=(4, 2, 1))
        drawn = draw(Scores(values, np.ones(4, bool)), "datasets", draws=200, seed=number)
        better = told_apart(values[..., 0].mean(0), drawn.mean(axis=1), datasets=4, confidence=0.95)
        found += better.any()
    assert 0.02 <= found / 400 <= 0.08


def test_what_cannot_be_drawn_is_refused():
    one = Scores(np.zeros((1, 2, 1)), np.array([True]))
    for uncertainty, words in (
        ("items", "is unknown"),
        ("datasets", "one dataset"),
        ("item", "did you mean"),
    ):
        with pytest.raises(PermafrostError, match=words):
            draw(one, uncertainty, draws=10, seed=0)
    with pytest.raises(PermafrostError, match="1 scores are missing"):
        Scores(np.array([[[0.1], [np.nan]]]), np.array([True]))
