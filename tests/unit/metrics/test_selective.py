"""Risk against coverage: ties, the best order, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.metrics.calibration import aurc, risk_coverage


def area(wrong) -> float:
    """AURC of errors in the order in which their items are kept, by its definition."""
    return float(np.mean([np.mean(wrong[: kept + 1]) for kept in range(len(wrong))]))


def two_classes(trust, wrong):
    """Targets and scores of class 0, predicted with these confidences above 0.5."""
    trust = np.asarray(trust, np.float64)
    return np.asarray(wrong, np.int64), np.stack([trust, 1 - trust], axis=1)


def found(trust, wrong):
    return aurc(*two_classes(trust, wrong), task="classification")


def test_by_hand():
    # kept in this order: right, wrong, right, wrong
    value, excess = found([0.6, 0.9, 0.7, 0.8], [1, 0, 0, 1])
    assert value == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    assert excess == pytest.approx(value - (0 + 0 + 1 / 3 + 2 / 4) / 4)


@pytest.mark.parametrize("trust", [[0.9, 0.9, 0.8, 0.8, 0.8, 0.7], [0.6] * 6, [0.9, 0.6] * 3])
@pytest.mark.parametrize("wrong", [[1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 0, 1], [1, 1, 0, 1, 1, 1]])
def test_ties_count_as_the_mean_over_their_orders(trust, wrong):
    orders = list(itertools.permutations(range(6)))
    kept = [
        order for order in orders if sorted(trust, reverse=True) == [trust[one] for one in order]
    ]
    value, excess = found(trust, wrong)
    wrong = np.array(wrong)
    assert value == pytest.approx(np.mean([area(wrong[list(order)]) for order in kept]), abs=1e-12)
    best = min(area(wrong[list(order)]) for order in orders)
    assert excess == pytest.approx(value - best, abs=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_many_items_with_ties_of_votes_in_any_order(kind):
    rng = np.random.default_rng(0)
    votes = rng.multinomial(5, [0.5, 0.3, 0.2], size=300)
    scores, target = (votes / 5).astype(kind), rng.integers(0, 3, 300)
    value, excess = aurc(target, scores, task="classification")
    trust, wrong = scores.max(axis=1), scores.argmax(axis=1) != target
    areas = []
    for _ in range(3000):
        order = rng.permutation(300)
        areas.append(area_fast(wrong[order[np.argsort(-trust[order], kind="stable")]]))
    error = np.std(areas) / np.sqrt(len(areas))
    assert error < 3e-4
    assert value == pytest.approx(np.mean(areas), abs=5 * error)
    assert value - excess == pytest.approx(area(np.sort(wrong)), abs=1e-12)
    order = rng.permutation(300)
    again = aurc(target[order], scores[order], task="classification")
    assert again == (value, excess)


def area_fast(wrong) -> float:
    return float(np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1)))


def test_ends_of_the_range():
    assert found([0.9, 0.8], [0, 0]) == (0, 0)
    assert found([0.9, 0.8, 0.8], [1, 1, 1]) == (1, 0)
    assert found([0.7], [1]) == (1, 0)
    # without an order, it is the share of errors
    assert found([0.7] * 40, [1] * 10 + [0] * 30)[0] == pytest.approx(0.25)
    # a single class is always right
    assert aurc([0, 0], np.ones((2, 1)), task="classification") == (0, 0)


def test_labels_count_as_predictions_above_one_half():
    rng = np.random.default_rng(2)
    scores = np.round(rng.random((40, 3)), 1)
    target = (rng.random((40, 3)) < scores).astype(np.uint8)
    value, excess = aurc(target, scores, task="multilabel")
    wrong = ((scores > 0.5) != target).ravel()
    trust = np.where(scores > 0.5, scores, 1 - scores).ravel()
    # the other class of two takes the rest
    assert (value, excess) == pytest.approx(found(trust, wrong), abs=1e-12)


@pytest.mark.parametrize("n", [1, 7, 200, 1234])
def test_the_curve_is_what_the_area_lies_below(n):
    rng = np.random.default_rng(n)
    trust = np.round(0.5 + 0.5 * rng.random(n), 2 if n > 7 else 9)
    target, scores = two_classes(trust, rng.random(n) > trust)
    curve = risk_coverage(target, scores, task="classification")
    assert len(curve["coverage"]) == min(n, 200)
    assert (np.diff(curve["coverage"]) > 0).all() and curve["coverage"][-1] == 1
    assert curve["risk"][-1] == pytest.approx(np.mean(target))
    value, _ = aurc(target, scores, task="classification")
    if n <= 200:
        assert np.mean(curve["risk"]) == pytest.approx(value, abs=1e-12)
    else:
        assert np.trapezoid(curve["risk"], curve["coverage"]) == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize(
    ("target", "scores", "problem"),
    [
        ([0, 1], [[0.5, np.nan], [0.5, 0.5]], "NaN"),
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]], "add up"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "not 0 to 1"),
        ([], np.empty((0, 2)), "no items"),
    ],
)
def test_what_is_no_probability_is_refused(target, scores, problem):
    target = np.array(target, np.int64)
    for evaluate in (aurc, risk_coverage):
        with pytest.raises(PermafrostError, match=problem):
            evaluate(target, np.array(scores), task="classification")
