"""Prediction sets: thresholds, halves, sets by brute force, and the coverage that they promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from permafrost.core.row_file import RowFile
from permafrost.metrics.calibration import halves_of, prediction_sets
from permafrost.metrics.calibration.conformal import nonconformity


def softmax(rng, n, classes=4, sharpness=1.5):
    logits = 1.5 * rng.normal(size=(n, classes))
    target = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    shares = np.exp(sharpness * logits)
    return target, (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


def votes(rng, n, classes=4):
    """Shares of five votes, in which many classes are equal or have none."""
    target = rng.integers(0, classes - 1, n)
    chances = 0.2 / classes + 0.8 * np.eye(classes)[target]
    found = np.array([rng.multinomial(5, one) for one in chances]) / 5
    return target, found.astype(np.float32)


def wrongness(row, kind):
    """Nonconformity of each class of one item, class by class."""
    row = [float(one) for one in row]
    if kind == "lac":
        return [1 - one for one in row]
    # what is left, exactly: all classes at the end of the order have 1
    exact = [Fraction(one) for one in row]
    sums = [sum(other for other in exact if other >= one) / sum(exact) for one in exact]
    return [round(float(one), 12) for one in sums]


def by_hand(target, scores, halves, strata, alpha, kind):
    """(N,) covered, size and single of `prediction_sets`, item by item; and how many thresholds lack items."""
    n, classes = scores.shape
    each = np.array([wrongness(row, kind) for row in scores])
    found, lacking = np.zeros((3, n)), 0
    number = classes if isinstance(strata, str) else 1 if strata is None else max(strata) + 1
    of = target if isinstance(strata, str) else np.zeros(n, int) if strata is None else strata
    for half in halves:
        limits = {}
        for side in (False, True):
            for stratum in range(number):
                own = sorted(
                    each[i, target[i]] for i in range(n) if half[i] != side and of[i] == stratum
                )
                rank = int(np.ceil(round((len(own) + 1) * (1 - alpha), 6)))
                limits[side, stratum] = own[rank - 1] if rank <= len(own) else np.inf
                lacking += rank > len(own)
        for i in range(n):
            chosen = [
                y
                for y in range(classes)
                if each[i, y] <= limits[half[i], y if isinstance(strata, str) else of[i]]
            ]
            found[:, i] += target[i] in chosen, len(chosen), len(chosen) == 1
    return found / len(halves), lacking


@pytest.mark.parametrize("strata", [None, "class", "groups"])
@pytest.mark.parametrize("kind", ["lac", "aps"])
@pytest.mark.parametrize("make", [softmax, votes])
@pytest.mark.parametrize("alpha", [0.1, 0.35])
def test_sets_by_brute_force(make, kind, strata, alpha):
    rng = np.random.default_rng(5)
    target, scores = make(rng, 61)
    # the last group has one item, and its thresholds none
    groups = np.append(rng.choice(3, 60, p=[0.5, 0.3, 0.2]), 3)
    strata = groups if strata == "groups" else strata
    halves = halves_of(np.zeros(61), 3, 1)
    expected, lacking = by_hand(target, scores, halves, strata, alpha, kind)
    sets = prediction_sets(target, scores, halves, strata=strata, alpha=alpha, kind=kind)
    np.testing.assert_allclose([sets.covered, sets.size, sets.single], expected, atol=1e-12)
    strata_count = 1 if strata is None else 4
    assert (sets.infinite, sets.thresholds) == (lacking, 6 * strata_count)
    if strata is groups:
        assert 0 < lacking < sets.thresholds


def test_scores_from_a_file_give_the_same_sets(tmp_path, monkeypatch):
    monkeypatch.setattr("permafrost.core.row_file.BLOCK_BYTES", 1 << 10)
    target, scores = softmax(np.random.default_rng(0), 500)
    rows = RowFile(4, tmp_path)
    rows.append(scores)
    halves = halves_of(np.arange(500) % 7, 2, 0)
    for strata in (None, "class", np.arange(500) % 7):
        one, other = (
            prediction_sets(target, given, halves, strata=strata, alpha=0.2)
            for given in (scores, rows)
        )
        for name, value in vars(one).items():
            np.testing.assert_allclose(getattr(other, name), value, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "alpha", "rank"),
    [(8, 0.1, None), (9, 0.1, 9), (19, 0.05, 19), (18, 0.05, None), (99, 0.3, 70), (49, 0.42, 29)],
)
def test_the_threshold_is_the_quantile_of_n_plus_one(n, alpha, rank):
    """The classes of one item are evaluated, with n others of increasing nonconformity."""
    trust = np.linspace(0.99, 0.5, n)
    scores = np.stack([np.append(trust, 0.5), np.append(1 - trust, 0.5)], axis=1)
    halves = np.zeros((1, n + 1), bool)
    halves[0, n] = True
    for place in range(n):
        # the threshold lies between its score and the next
        scores[n] = trust[place], 1 - trust[place]
        sets = prediction_sets(np.zeros(n + 1, int), scores, halves, alpha=alpha)
        assert sets.covered[n] == (rank is None or place < rank)
        # the other half is one item
        assert sets.infinite == 1 + (rank is None)
    if rank is not None:
        level = np.ceil(round((n + 1) * (1 - alpha), 9)) / n
        assert np.quantile(1 - trust, level, method="inverted_cdf") == 1 - trust[rank - 1]


def test_tied_probabilities_enter_together():
    scores = np.array([[0.4, 0.2, 0.2, 0.2], [0.25] * 4, [1, 0, 0, 0]], np.float32)
    sums = nonconformity(scores, "aps")
    np.testing.assert_allclose(sums, [[0.4, 1, 1, 1], [1] * 4, [1] * 4], atol=1e-6)
    assert (sums[:, 1:] == sums[:, 1:2]).all()
    assert (sums[:, 1] == 1).all() and (sums[1:] == 1).all()
    assert (nonconformity(scores, "lac")[:, 1:] == nonconformity(scores, "lac")[:, 1:2]).all()


def test_the_last_classes_of_an_order_have_a_sum_of_exactly_one():
    rng = np.random.default_rng(2)
    for make in (softmax, votes):
        _, scores = make(rng, 2000, 7)
        sums = nonconformity(scores, "aps")
        last = scores == scores.min(axis=1, keepdims=True)
        assert (sums[last] == 1).all() and sums.max() == 1
        # also the least probable classes of those that have any probability
        held = np.where(scores > 0, scores, np.inf)
        assert (sums[held == held.min(axis=1, keepdims=True)] == 1).all()


def test_halves_are_random_and_even_within_strata():
    strata = np.array([0] * 10 + [1] * 7 + [2])
    halves = halves_of(strata, 400, 3)
    counts = np.array([np.bincount(strata[half], minlength=3) for half in halves])
    assert (counts[:, 0] == 5).all() and set(counts[:, 1]) == {3, 4}
    assert (halves.sum(axis=1) == 9).all()
    assert np.abs(halves.mean(axis=0) - 0.5).max() < 0.1
    np.testing.assert_array_equal(halves, halves_of(strata, 400, 3))
    assert (halves != halves_of(strata, 400, 4)).any()


@pytest.mark.parametrize("kind", ["lac", "aps"])
@pytest.mark.parametrize("make", [softmax, votes])
def test_exchangeable_items_are_covered_as_promised(make, kind):
    """On average over test sets; and by class, where one threshold fails the rarer class."""
    rng = np.random.default_rng(9)
    coverage = {None: [], "class": []}
    for _ in range(60):
        target, scores = make(rng, 200)
        halves = halves_of(np.zeros(200), 2, int(rng.integers(1 << 30)))
        for strata, found in coverage.items():
            sets = prediction_sets(target, scores, halves, strata=strata, alpha=0.2, kind=kind)
            found.append(
                [sets.covered.mean(), *(sets.covered[target == y].mean() for y in range(3))]
            )
    for strata, found in coverage.items():
        mean = np.mean(found, axis=0)
        error = np.std(found, axis=0) / np.sqrt(60)
        assert mean[0] > 0.8 - 3 * error[0], strata
        if strata:
            assert (mean > 0.8 - 3 * error).all()
        if make is softmax:
            assert mean[0] < 0.83


def test_a_hard_class_needs_its_own_threshold():
    rng = np.random.default_rng(1)
    target, scores = softmax(rng, 6000, classes=3, sharpness=1)
    hard = (target == 2) & (rng.random(6000) < 0.5)
    scores[hard] = scores[hard][:, [2, 1, 0]]
    halves = halves_of(np.zeros(6000), 2, 0)
    worst = {
        strata: prediction_sets(target, scores, halves, strata=strata, alpha=0.1)
        .covered[target == 2]
        .mean()
        for strata in (None, "class")
    }
    assert worst[None] < 0.85
    assert worst["class"] == pytest.approx(0.9, abs=0.01)
