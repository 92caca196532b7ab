"""Suspected labels against cleanlab, a plain maximisation and planted flips."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cleanlab.filter import find_label_issues
from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class
from permafrost.core.errors import PermafrostError
from permafrost.statistics.wrong_labels.confident import confident
from permafrost.statistics.wrong_labels.difficulty import difficulty_of, discrimination_of
from permafrost.statistics.wrong_labels.judged import judge_labels, judge_several
from scipy.optimize import minimize
from scipy.stats import spearmanr


def votes(rng, images: int, classes: int, used: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of some classes, and shares of seven votes, which have many ties."""
    given = rng.integers(0, used, images)
    chances = np.full((images, classes), 0.3) + 2.0 * np.eye(classes)[given]
    chances /= chances.sum(axis=1, keepdims=True)
    return given, np.stack([rng.multinomial(7, one) for one in chances]) / 7


@pytest.mark.parametrize("classes, used", [(2, 2), (5, 5), (6, 4), (3, 1)])
def test_confident_learning_is_that_of_cleanlab(classes, used):
    rng = np.random.default_rng(classes)
    given, shares = votes(rng, 150, classes, used)
    # thresholds differ, so that the most probable class may be none that an image is confidently of
    smooth = rng.dirichlet(np.full(classes, 0.5), 150) * np.arange(1, classes + 1)
    smooth /= smooth.sum(axis=1, keepdims=True)
    # every probability is at its threshold, but for rounding
    constant = np.tile(np.arange(1, classes + 1) / np.arange(1, classes + 1).sum(), (150, 1))
    for probabilities in (shares, smooth, constant):
        found = confident(given, probabilities)
        about = {"filter_by": "confident_learning", "n_jobs": 1}
        np.testing.assert_array_equal(
            found.contradicted, find_label_issues(given, probabilities, **about)
        )
        # the ranking of cleanlab, where nothing is tied
        if probabilities is smooth:
            ranked = find_label_issues(
                given, probabilities, **about, return_indices_ranked_by="normalized_margin"
            )
            own = np.flatnonzero(found.contradicted)
            np.testing.assert_array_equal(own[np.argsort(found.margin[own])], ranked)


def test_several_labels_are_judged_as_by_cleanlab():
    rng = np.random.default_rng(3)
    given = (rng.random((200, 4)) < (0.5, 0.1, 0.7, 0.0)).astype(int)
    scores = np.clip(0.6 * given + rng.normal(0.2, 0.25, given.shape), 0, 1)
    found = judge_several(given, {"net": ((scores > 0.5).astype(int), scores)})
    named = [[int(one) for one in np.flatnonzero(row)] for row in given]
    expected = find_multilabel_issues_per_class(
        named, scores, filter_by="confident_learning", n_jobs=1
    )
    np.testing.assert_array_equal(found.suspects.reshape(4, 200).T, expected)


def test_a_single_class_has_no_suspects_and_scores_that_are_no_probabilities_are_refused():
    assert not confident([0, 0], np.ones((2, 1))).contradicted.any()
    for scores, problem in (
        ([[0.5, np.nan]], "NaN"),
        ([[0.5, 0.7]], "add up to 1"),
        (np.empty((0, 2)), "no items"),
    ):
        with pytest.raises(PermafrostError, match=problem):
            confident(np.zeros(len(scores), np.int64), scores)


def simulated(
    seed: int, *, flipped: float, images: int = 2000, classes: int = 5, backbones: int = 4
):
    """True labels, given labels, and answers of backbones that see the class through noise of their own."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, images)
    given = np.where(
        rng.random(images) < flipped, (true + rng.integers(1, classes, images)) % classes, true
    )
    answers = {}
    for number in range(backbones):
        seen = 6.0 * np.eye(classes)[true] + rng.normal(0, 2, (images, classes))
        # the posterior of the class, of equally frequent classes
        scores = np.exp(1.5 * seen)
        scores /= scores.sum(axis=1, keepdims=True)
        answers[f"b{number}"] = (scores.argmax(axis=1), scores)
    return true, given, answers


def test_planted_flips_are_suspects_and_without_any_there_are_none():
    true, given, answers = simulated(1, flipped=0.05)
    judged = judge_labels(given, answers)
    wrong = given != true
    assert 80 < wrong.sum() < 120
    assert judged.suspects[wrong].mean() > 0.85
    assert wrong[judged.suspects].mean() > 0.98
    assert (judged.proposed == true)[wrong & judged.suspects].all()
    # what can be found is said in advance
    assert judged.suspects[wrong].mean() == pytest.approx(judged.found_if_wrong, abs=0.08)
    assert set(judged.order) == set(np.flatnonzero(judged.suspects))
    assert (np.diff(judged.votes[judged.order]) <= 0).all()

    true, _, answers = simulated(2, flipped=0)
    judged = judge_labels(true, answers)
    alone = confident(true, answers["b0"][1]).contradicted
    assert alone.sum() > 5 and judged.suspects.sum() <= 2
    np.testing.assert_allclose(np.diff(judged.accuracy, axis=0), 0, atol=2e-3)


def test_what_is_wrong_for_all_and_what_decides_between_the_first_two():
    given = np.array([0, 0, 1, 1, 2, 2])
    said = {"b": [0, 0, 1, 0, 0, 1], "a": [0, 0, 1, 1, 0, 0], "c": [0, 2, 2, 0, 0, 0]}
    judged = judge_labels(
        given, {name: (np.array(one), np.eye(3)[one]) for name, one in said.items()}
    )
    assert judged.backbones == ["a", "b", "c"]
    assert (judged.all_wrong, judged.same_wrong) == (2 / 6, 1 / 6)
    assert judged.found_if_wrong == (3 * 1 + 3 * 0.5) / 6
    assert judged.decides.tolist() == [-1, -1, -1, 0, -1, -1]
    assert judged.ranks[0].tolist() == [1, 2, 3]
    alone = judge_labels(given, {"a": (np.array(said["a"]), np.eye(3)[said["a"]])})
    assert alone.decides.tolist() == [-1] * 6 and np.isnan(alone.discrimination).all()


def plain_likelihood(values, right) -> float:
    """Minus the logarithm of the posterior of abilities and spread, image by image, by Gauss-Hermite nodes."""
    ability, spread = np.array(values[:-1]), math.exp(values[-1])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    chances = 1 / (1 + np.exp(spread * nodes - ability[:, None]))
    total = 0.0
    for image in right.T:
        each = np.where(image[:, None], chances, 1 - chances)
        total += math.log(weights @ each.prod(axis=0))
    return -total + ability @ ability / 50


def test_difficulty_is_the_maximum_of_the_likelihood_and_recovers_planted_difficulties():
    rng = np.random.default_rng(0)
    planted, ability = rng.normal(0, 2, 3000), np.linspace(-1, 2, 12)
    right = rng.random((12, 3000)) < 1 / (1 + np.exp(planted - ability[:, None]))
    found = difficulty_of(right)
    assert spearmanr(found.difficulty, planted).statistic > 0.85
    np.testing.assert_allclose(found.ability, ability, atol=0.25)
    assert found.spread == pytest.approx(2, abs=0.15)

    small = right[::4, :40]
    plain = minimize(plain_likelihood, np.zeros(4), args=(small,), method="BFGS", tol=1e-6).x
    own = difficulty_of(small)
    np.testing.assert_allclose([*own.ability, math.log(own.spread)], plain, atol=5e-3)


def test_extremes_are_finite_and_discrimination_is_a_correlation():
    for right in (np.ones((3, 9), bool), np.zeros((1, 4), bool), np.eye(4, 6, dtype=bool)):
        found = difficulty_of(right)
        assert np.isfinite(found.difficulty).all() and np.isfinite(found.ability).all()
    right = np.random.default_rng(3).random((9, 30)) < 0.6
    right[:, 0] = True
    expected = [
        np.corrcoef(right[:, i], np.delete(right, i, axis=1).sum(axis=1))[0, 1]
        for i in range(1, 30)
    ]
    np.testing.assert_allclose(discrimination_of(right)[1:], expected)
    assert np.isnan(discrimination_of(right)[0])
