"""The relative loss on harder images: closed forms, and a jackknife that is written out."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.relative_loss import RELATIVE_LOSS, RelativeLoss, as_losses
from permafrost.statistics.predictions.settings import ScoredSetting
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from scipy.stats import t

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


def test_it_is_the_share_of_the_score_that_is_lost_and_its_interval_is_paired():
    row = scored(classes(HARDER), classes(CLEAN))
    harder, clean = HARDER == TRUTH, CLEAN == TRUTH
    assert row["metric"] == "accuracy"
    assert row["value"] == pytest.approx(1 - harder.mean() / clean.mean(), abs=1e-12)
    without = [1 - np.delete(harder, i).mean() / np.delete(clean, i).mean() for i in range(N)]
    error = np.sqrt((N - 1) / N * np.sum((np.array(without) - np.mean(without)) ** 2))
    half = (row["upper"] - row["lower"]) / 2
    assert half == pytest.approx(t.ppf(0.975, N - 1) * error, rel=0.03)
    assert row["value"] - row["lower"] == pytest.approx(half)


def test_the_same_answers_lose_nothing():
    row = scored(classes(CLEAN), classes(CLEAN))
    assert row["value"] == 0 and row["lower"] == -row["upper"]
    # a share of images may still lose its answers, which are a larger share of the score
    share = 1 - 0.025 ** (1 / N)
    assert row["upper"] == pytest.approx(share / np.mean(CLEAN == TRUTH))


def test_no_more_than_the_score_is_lost():
    row = {"metric": "accuracy", "lower": 0.3, "upper": 1.2}
    assert [one["upper"] for one in as_losses([row, {**row, "metric": "r2"}])] == [1.0, 1.2]


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
