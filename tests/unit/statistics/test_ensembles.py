"""Averages of backbones' probabilities, against plain NumPy, scikit-learn and `compare`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.ensembles import FOLDS, average, greedy, pairs
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.resampling.p_values import holm
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.compare import compare
from sklearn.metrics import accuracy_score, average_precision_score, mean_squared_error

COUNT, CLASSES = 300, 4
SEEDS = (1, 2, 3, 4, 5)
IDS = [f"image{row:03d}" for row in range(COUNT)]


def labelled(truth, logits, *, several=False, groups=None) -> LabelledSamples:
    scores = np.exp(logits)
    scores = (scores / (1 + scores) if several else scores / scores.sum(1, keepdims=True)).astype(
        "f4"
    )
    answers = (scores > 0.5).astype("u1") if several else scores.argmax(1)
    task = "multilabel" if several else "classification"
    classes = [f"class {one}" for one in range(logits.shape[1])]
    return LabelledSamples.from_arrays(
        IDS[: len(truth)], truth, answers, scores, task=task, classes=classes, groups=groups
    )


def study(seed=0, *, names="abcd", seeds=(0,), noise=1.3, groups=None, count=COUNT):
    """Backbones whose errors are independent, so that averages help."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, count)
    signal = 1.5 * np.eye(CLASSES)[truth]
    return truth, {
        name: {
            one: labelled(truth, signal + noise * rng.normal(size=(count, CLASSES)), groups=groups)
            for one in seeds
        }
        for name in names
    }


def test_averages_are_those_of_numpy():
    truth, runs = study()
    members = [runs[name][0] for name in "abc"]
    found = average(members)
    scores = sum(one.scores.astype("f8") for one in members) / 3
    np.testing.assert_allclose(found.scores, scores, rtol=1e-15)
    assert found.answers.tolist() == scores.argmax(1).tolist()
    assert found.evaluate()["accuracy"] == accuracy_score(truth, scores.argmax(1))
    assert average(members[:1]) is members[0]
    np.testing.assert_array_equal(average(members[::-1]).scores, found.scores)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (COUNT, 3))
    several = [labelled(labels, labels + rng.normal(size=(COUNT, 3)), several=True) for _ in "ab"]
    scores = (several[0].scores.astype("f8") + several[1].scores) / 2
    found = average(several)
    assert found.evaluate()["micro_ap"] == pytest.approx(
        average_precision_score(labels, scores, average="micro"), rel=1e-12
    )
    np.testing.assert_array_equal(found.answers, scores > 0.5)


@pytest.mark.parametrize("groups", [None, [f"scene{row // 10}" for row in range(COUNT)]])
def test_a_pair_is_compared_with_both_halves(groups):
    _, runs = study(seeds=SEEDS, names="abc", groups=groups)
    found = {one.members: one for one in pairs(runs)}
    assert list(found) == [
        one.members for one in sorted(found.values(), key=lambda one: -one.value)
    ]
    p_values = {}
    for pair in itertools.combinations("abc", 2):
        both = {one: average([runs[name][one] for name in pair]) for one in SEEDS}
        rows = compare({"z": both, **{name: runs[name] for name in pair}}, seed=0, reference="z")
        means = {
            name: np.mean([r.evaluate()["accuracy"] for r in runs[name].values()]) for name in pair
        }
        half = max(pair, key=means.get)
        row = next(row for row in rows if row["backbone_a"] == half)
        one = found[pair]
        assert (one.single, one.single_value) == (half, pytest.approx(means[half]))
        assert [one.difference, one.lower, one.upper] == pytest.approx(
            [-row["difference"], -row["upper"], -row["lower"]]
        )
        assert one.value - one.single_value == pytest.approx(one.difference)
        p_values[pair] = max(row["p_value"] for row in rows)
        assert one.p_value == pytest.approx(p_values[pair])
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    assert {pair: one.p_adjusted for pair, one in found.items()} == pytest.approx(adjusted)
    assert [one.better for one in found.values()] == [
        one.p_adjusted <= 0.05 for one in found.values()
    ]
    assert any(one.better for one in found.values())


def test_greedy_selection_is_that_of_the_definition():
    truth, runs = study(3, names="abcdef", noise=1.8)
    fold = find_units(COUNT, sample_ids=np.array(IDS)).index % FOLDS
    scores = {name: one[0].scores.astype("f8") for name, one in runs.items()}

    def chosen(rows, most):
        members = []
        while len(members) < most:
            left = [name for name in scores if name not in members]
            value = {
                name: accuracy_score(
                    truth[rows], np.mean([scores[m][rows] for m in [*members, name]], 0).argmax(1)
                )
                for name in left
            }
            members.append(max(left, key=value.get))
        return members

    answers = np.empty((5, COUNT), int)
    for part in range(FOLDS):
        order, own = chosen(fold != part, 5), fold == part
        for size in range(1, 6):
            answers[size - 1, own] = np.mean([scores[m][own] for m in order[:size]], 0).argmax(1)
    expected = [accuracy_score(truth, one) for one in answers]
    found = greedy(runs)
    assert [one.members for one in found] == [
        tuple(chosen(np.ones(COUNT, bool), 5)[:m]) for m in (2, 3, 4, 5)
    ]
    assert [one.value for one in found] == pytest.approx(expected[1:])
    assert [one.single_value for one in found] == pytest.approx([expected[0]] * 4)
    assert [one.difference for one in found] == pytest.approx(
        [one - expected[0] for one in expected[1:]]
    )


def test_selection_gains_nothing_by_itself():
    """Backbones that guess: the best of them on the test set are above chance, the answers to other folds are not."""
    naive, honest = [], []
    for seed in range(12):
        truth, runs = study(seed, names="abcdefgh", noise=60.0)
        naive.append(max(one[0].evaluate()["accuracy"] for one in runs.values()))
        honest.append(greedy(runs)[0].single_value)
    assert np.mean(naive) > 0.28
    assert np.mean(honest) == pytest.approx(0.25, abs=0.02)


def test_equal_backbones_add_nothing_and_lower_may_be_better():
    _, runs = study(names="a")
    for one in (
        *pairs({"a": runs["a"], "b": runs["a"]}),
        *greedy({"a": runs["a"], "b": runs["a"]}),
    ):
        assert one.difference == 0 and not one.better
    rng = np.random.default_rng(0)
    truth = rng.normal(size=COUNT)
    numbers = {
        name: {0: PredictedNumbers.from_arrays(IDS, truth, truth + rng.normal(size=COUNT))}
        for name in "ab"
    }
    (found,) = pairs(numbers, metric="rmse")
    mean = (numbers["a"][0].answers + numbers["b"][0].answers) / 2
    assert found.value == pytest.approx(mean_squared_error(truth, mean) ** 0.5)
    assert found.difference < 0 and found.better


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (lambda runs: {"a": runs["a"]}, "at least two backbones"),
        (lambda runs: {"a": runs["a"], "b": {7: runs["b"][0]}}, "no seed is common"),
        (lambda runs: {"a": runs["a"], "b": {0: object()}}, "can be averaged"),
        (lambda runs: {"a": runs["a"], "b": study(count=99)[1]["b"]}, "different test samples"),
    ],
)
def test_what_cannot_be_averaged_is_refused(changed, problem):
    _, runs = study(names="ab")
    with pytest.raises(PermafrostError, match=problem):
        pairs(changed(runs))


def test_greedy_selection_needs_units():
    _, runs = study(names="ab", groups=["north" if row % 2 else "south" for row in range(COUNT)])
    with pytest.raises(PermafrostError, match="2 independent groups, and greedy selection needs 5"):
        greedy(runs)
