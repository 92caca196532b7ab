"""Differences over several runs: items and runs are in the error, and more seeds find no less."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.settings import Draws, ScoredSetting
from permafrost.statistics.resampling import paired
from permafrost.statistics.resampling.detectable import (
    critical_value,
    planned,
    smallest_found,
    units_that_must_differ,
)
from permafrost.statistics.resampling.runs import over_runs
from permafrost.statistics.resampling.student_t import two_sided_p
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare

IDS = [f"image {i:04}" for i in range(300)]


def right(hits) -> LabelledSamples:
    """Predictions of two classes that are right where `hits` is."""
    guess = np.asarray(hits, int)
    return LabelledSamples.from_arrays(
        IDS[: len(guess)], np.ones(len(guess), int), guess, np.eye(2, dtype=np.float32)[guess],
        task="classification", classes=["no", "yes"],
    )  # fmt: skip


def left_out(y):
    """Means of y (…, n), and without each item."""
    return y.mean(-1), (y.sum(-1, keepdims=True) - y) / (y.shape[-1] - 1)


def test_the_error_is_that_of_the_two_way_layout():
    rng = np.random.default_rng(0)
    y = rng.normal(0, 1, (4, 30)) + rng.normal(0, 1, (1, 30)) + rng.normal(0, 1, (4, 1))
    runs, items = y.shape
    found = over_runs(*left_out(y), np.ones(items), scale=np.float64(1), centred=True)
    of_items, of_runs = y.mean(0), y.mean(1)
    residual = y - of_items - of_runs[:, None] + y.mean()
    both = np.sum(residual**2) / ((items - 1) * (runs - 1)) / (items * runs)
    variance = of_items.var(ddof=1) / items + of_runs.var(ddof=1) / runs - both
    assert found.spread.error**2 == pytest.approx(variance)
    strays = found.factor * (of_runs - of_runs.mean())
    assert np.sum(strays**2) == pytest.approx(of_runs.var(ddof=1) / runs - both)
    # between those of four runs and of thirty items
    assert 3 < found.spread.df < 29


def _rejections(rng, runs, gap, *, of_item, of_both, of_run=0.0, items=60, sets=400):
    y = gap + rng.normal(0, of_item, (1, sets, items)) + rng.normal(0, of_both, (runs, sets, items))
    y += rng.normal(0, of_run, (runs, sets, 1))
    found = over_runs(*left_out(y), np.ones(items), scale=np.ones(sets), centred=True)
    return np.mean(two_sided_p(found.values / found.spread.error, found.spread.df) <= 0.05)


def test_equal_backbones_are_rarely_told_apart_and_power_grows_with_seeds():
    rng = np.random.default_rng(1)
    world = {"of_item": 0.7, "of_both": 0.7}
    power = []
    for runs in (1, 2, 3, 5, 10):
        assert 0.02 <= _rejections(rng, runs, 0, **world) <= 0.085
        power.append(_rejections(rng, runs, 0.35, **world))
    assert np.all(np.diff(power) > -0.05) and power[-1] > power[0] + 0.1
    # what seeds alone do is found out where there are enough of them
    assert _rejections(rng, 10, 0, of_item=0.5, of_both=0.5, of_run=0.3) <= 0.085


def test_one_row_per_pair_over_the_seeds_that_both_have():
    rng = np.random.default_rng(2)
    hits = rng.random((3, 300)) < 0.8
    found = {
        "a": {seed: right(hits[seed]) for seed in range(3)},
        "b": {seed: right(rng.random(300) < 0.7) for seed in (0, 2)},
        "c": {7: right(rng.random(300) < 0.7)},
        "d": {seed: right(rng.random(300) < 0.7) for seed in range(3)},
    }
    rows = {(row["backbone_a"], row["backbone_b"]): row for row in compare(found, seed=0)}
    assert {pair: row["seeds"] for pair, row in rows.items()} == {
        ("a", "b"): "0;2", ("a", "d"): "0;1;2", ("b", "d"): "0;2",
    }  # fmt: skip
    b = np.mean([found["b"][seed].evaluate()["accuracy"] for seed in (0, 2)])
    assert rows["a", "b"]["difference"] == pytest.approx(hits[[0, 2]].mean() - b)
    assert all(row["lower"] < row["difference"] < row["upper"] for row in rows.values())
    assert all(row["p_adjusted"] >= row["p_value"] for row in rows.values())


def test_seeds_that_change_nothing_change_nothing():
    rng = np.random.default_rng(3)
    found = {name: right(rng.random(300) < 0.7) for name in "abc"}
    once = compare(found, seed=0, resamples=100)
    thrice = compare(
        {name: dict.fromkeys(range(3), one) for name, one in found.items()}, seed=0, resamples=100
    )
    drop = {"seeds", "n_runs"}
    assert [{k: v for k, v in row.items() if k not in drop} for row in thrice] == [
        {k: v for k, v in row.items() if k not in drop} for row in once
    ]


def test_draws_of_the_training_set_are_in_interval_and_p_value():
    rng = np.random.default_rng(4)
    about = ScoredSetting("linear, 1 %", {}, 10, 5, [])

    def draws(levels):
        # images are easy or hard, whatever was learned from
        hits = (rng.random(300) < np.array(levels)[:, None]).astype(int)
        return Draws(
            np.array(IDS), None, np.ones(300, int), hits, "classification", ["no", "yes"], about
        )

    found = {"a": draws([0.545, 0.465, 0.505, 0.347, 0.369]), "b": draws([0.4] * 5)}
    (row,) = compare(found, seed=0)
    gaps = found["a"].values()["accuracy"] - found["b"].values()["accuracy"]
    half = (row["upper"] - row["lower"]) / 2
    assert row["n_runs"] == 5
    # the draws' own t interval of the mean, to which the test items add something
    assert half > 0.9 * scipy.stats.t.ppf(0.975, 4) * gaps.std(ddof=1) / np.sqrt(5)
    assert row["p_value"] > 0.05


def test_two_nearly_perfect_backbones_have_an_interval_with_a_width():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(100):
        found = {"a": right(rng.random(100) < 0.998), "b": right(rng.random(100) < 0.988)}
        # the interval rests on no resample
        (row,) = compare(found, seed=0, resamples=20)
        covered += row["lower"] <= 0.01 <= row["upper"]
        assert row["lower"] < row["upper"]
    assert covered >= 93


@pytest.mark.parametrize("units", [2, 5, 6, 12])
def test_the_same_difference_in_all_units_is_tested_by_its_sign(units):
    values = [np.array([level]) for level in (0.75, 0.5)]
    left = [np.full((1, units), level) for level in (0.75, 0.5)]
    _, lower, _, p_value, _ = paired.tested_pairs(values, left, np.ones(units), units, 0.95)
    assert p_value == scipy.stats.binomtest(units, units).pvalue
    assert (lower > 0) == (p_value <= 0.05)


@pytest.mark.parametrize("df", [7, 20, 199])
@pytest.mark.parametrize("critical", [2.0, 3.5])
def test_the_smallest_difference_is_found_in_four_of_five_cases(df, critical):
    gap = float(smallest_found(0.1, df, critical))
    assert scipy.stats.nct.sf(critical, df, gap / 0.1) == pytest.approx(0.8, abs=0.02)


def test_units_that_must_differ_for_a_sign_test():
    share = units_that_must_differ(100, 0.05)
    assert scipy.stats.binom.sf(5, 100, share) == pytest.approx(0.8)
    assert np.isnan(units_that_must_differ(5, 0.05))


def test_beyond_the_critical_value_adjusted_p_values_are_small():
    largest = np.random.default_rng(6).random(200)
    critical = critical_value(largest, 0.95)
    chances = [(1 + np.sum(largest >= one)) / 201 for one in (critical, np.nextafter(critical, 2))]
    assert chances[1] <= 0.05 < chances[0]
    assert critical_value(largest[:10], 0.95) == np.inf


def test_a_large_family_on_few_groups_finds_nothing_and_says_so():
    rng = np.random.default_rng(7)
    groups = [f"scene {i % 8}" for i in range(240)]
    # scenes are easy for some backbones and hard for others
    found = {}
    for number in range(40):
        level = np.clip(0.5 + rng.normal(0, 0.2, 8), 0, 1)[np.arange(240) % 8]
        hits = rng.random(240) < (level if number else 0.95)
        guess = hits.astype(int)
        target = np.arange(240) % 2
        guess = np.where(hits, target, 1 - target)
        found[f"{number:02}"] = LabelledSamples.from_arrays(
            IDS[:240], target, guess, np.eye(2, dtype=np.float32)[guess],
            task="classification", classes=["no", "yes"], groups=groups,
        )  # fmt: skip
    rows = compare(found, seed=0, resamples=1000)
    assert all("significance_out_of_reach" in row["gates"] for row in rows)
    few = compare({name: found[name] for name in ("00", "01", "02")}, seed=0, resamples=1000)
    assert all(row["gates"] == "" for row in few)
    assert all(few[0]["detectable"] < (row["detectable"] or 9) for row in rows[:1])


def test_what_is_planned_falls_with_units_and_grows_with_backbones():
    about = {"resamples": 2000, "confidence": 0.95, "deviation": 0.2}
    assert planned(8, 40, **about) > 0.45
    assert planned(8, 2, **about) < 0.45
    assert planned(100, 40, **about) < planned(40, 40, **about) < planned(8, 40, **about)
    assert np.isnan(planned(5, 2, **about))
    assert np.isnan(planned(100, 2, **{**about, "resamples": 10}))


def test_the_interval_of_a_mean_over_draws_holds_the_draws():
    rng = np.random.default_rng(8)
    levels = np.array([0.545, 0.465, 0.505, 0.347, 0.369])[:, None]
    hits = (rng.random(300) < levels).astype(int)
    about = ScoredSetting("linear, 1 %", {}, 10, 5, [])
    found = Draws(np.array(IDS), None, np.ones(300, int), hits, "classification", ["no", "yes"], about)  # fmt: skip
    row = next(one for one in bootstrap_scores(found, seed=0) if one["metric"] == "accuracy")
    half = (row["upper"] - row["lower"]) / 2
    values = hits.mean(axis=1)
    of_draws = scipy.stats.t.ppf(0.975, 4) * values.std(ddof=1) / np.sqrt(5)
    assert of_draws * 0.85 < half < of_draws + 0.06
    # the same answers in every draw: items alone
    same = dataclasses.replace(found, drawn=np.repeat(hits[:1], 5, axis=0))
    one = dataclasses.replace(found, drawn=hits[:1])
    ends = [
        (row["lower"], row["upper"]) for each in (same, one) for row in bootstrap_scores(each, seed=0)[:1]
    ]  # fmt: skip
    assert ends[0] == pytest.approx(ends[1])
