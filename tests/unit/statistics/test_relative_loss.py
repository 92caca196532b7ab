"""The relative loss on harder images: closed forms, a paired test on a grid of ratios, and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.relative_loss import (
    RELATIVE_LOSS,
    RelativeLoss,
    _named_alike,
    as_losses,
)
from permafrost.statistics.predictions.settings import ScoredSetting
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from scipy.stats import sem, t

N = 90
NAMES = [f"{i:03d}" for i in range(N)]
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 3, N)
CLEAN = np.where(RNG.random(N) < 0.8, TRUTH, (TRUTH + 1) % 3)
HARDER = np.where(RNG.random(N) < 0.7, CLEAN, (TRUTH + 2) % 3)
ABOUT = ScoredSetting(RELATIVE_LOSS, {}, 10, 5, [])


def classes(answers) -> LabelledSamples:
    scores = np.eye(3)[answers]
    return LabelledSamples.from_arrays(
        NAMES, TRUTH, answers, scores, task="classification", classes=["a", "b", "c"]
    )


def scored(harder, clean) -> dict:
    (row,) = bootstrap_scores(RelativeLoss(harder, clean, ABOUT), seed=0)
    return row


def test_it_is_the_share_of_the_score_that_is_lost():
    row, harder, clean = scored(classes(HARDER), classes(CLEAN)), HARDER == TRUTH, CLEAN == TRUTH
    assert row["metric"] == "accuracy"
    assert row["value"] == pytest.approx(1 - harder.mean() / clean.mean(), abs=1e-12)
    # many images: close to the interval of the ratio by its own jackknife
    without = [1 - np.delete(harder, i).mean() / np.delete(clean, i).mean() for i in range(N)]
    error = np.sqrt((N - 1) / N * np.sum((np.array(without) - np.mean(without)) ** 2))
    half = (row["upper"] - row["lower"]) / 2
    assert half == pytest.approx(t.ppf(0.975, N - 1) * error, rel=0.03)


@pytest.mark.parametrize("share", [0.8, 0.2])
def test_its_interval_has_the_ratios_that_a_paired_test_does_not_refuse(share):
    rng = np.random.default_rng(1)
    clean = np.where(rng.random(N) < share, TRUTH, (TRUTH + 1) % 3)
    harder = np.where(rng.random(N) < 0.6, clean, (TRUTH + 2) % 3)
    units = find_units(N, sample_ids=np.array(NAMES))
    found = RelativeLoss(classes(harder), classes(clean), ABOUT).ratio_interval(units, 2.0, 0.95)
    losses = np.linspace(-0.5, 1, 15_001)
    differences = (harder == TRUTH) - np.outer(1 - losses, clean == TRUTH)
    kept = np.abs(differences.mean(axis=1)) <= 2.0 * sem(differences, axis=1)
    assert found == pytest.approx((losses[kept].min(), losses[kept].max()), abs=2e-4)


def test_its_interval_covers_the_loss_where_the_clean_score_is_small_and_there_is_none_near_0():
    rng, covered, none = np.random.default_rng(2), 0, 0
    for _ in range(400):
        clean = rng.random(N) < 0.12
        harder = clean & (rng.random(N) < 0.5) | ~clean & (rng.random(N) < 0.02)
        answers = [np.where(one, TRUTH, (TRUTH + 1) % 3) for one in (harder, clean)]
        row = scored(*map(classes, answers))
        none += np.isnan(row["lower"])
        covered += (
            np.isnan(row["lower"]) or row["lower"] <= 1 - (0.06 + 0.0176) / 0.12 <= row["upper"]
        )
    assert covered > 0.93 * 400 and none < 80
    few = np.where(np.arange(N) < 2, TRUTH, (TRUTH + 1) % 3)
    row = scored(classes(few), classes(few))
    assert row["value"] == 0 and np.isnan(row["lower"]) and np.isnan(row["upper"])


@pytest.mark.parametrize(("harder", "loss"), [(CLEAN, 0.0), ((TRUTH + 1) % 3, 1.0)])
def test_where_all_images_say_the_same_a_share_of_them_may_still_differ(harder, loss):
    row = scored(classes(harder), classes(CLEAN))
    # which is a larger share of the score
    share = (1 - 0.025 ** (1 / N)) / np.mean(CLEAN == TRUTH)
    assert (row["value"], row["lower"], row["upper"]) == pytest.approx(
        (loss, loss - share, loss + share)
    )


def test_no_more_than_the_score_is_lost_and_severity_0_has_no_interval():
    row = {"metric": "accuracy", "lower": 0.3, "upper": 1.2}
    assert [one["upper"] for one in as_losses([row, {**row, "metric": "r2"}], 1)] == [1.0, 1.2]
    assert np.isnan([as_losses([row], 0)[0][end] for end in ("lower", "upper")]).all()


def test_numbers_lose_explained_variance_and_a_score_of_0_has_nothing_to_lose():
    truth = RNG.normal(size=N)
    clean, harder = (
        PredictedNumbers.from_arrays(NAMES, truth, truth + by * np.sign(RNG.normal(size=N)))
        for by in (0.2, 0.3)
    )
    row, variance = scored(harder, clean), truth.var()
    assert row["metric"] == "r2"
    assert row["value"] == pytest.approx(1 - (1 - 0.09 / variance) / (1 - 0.04 / variance))
    assert np.isnan(scored(classes(HARDER), classes((TRUTH + 1) % 3))["value"])


@pytest.mark.parametrize(
    ("names", "alike"),
    [("a b", True), ("x/a x/b", True), ("x/a y/b", False), ("x/a", False), ("c d", False)],
)
def test_both_scores_are_on_the_same_images(names, alike):
    assert _named_alike(names.split(), ["a", "b"]) is alike
