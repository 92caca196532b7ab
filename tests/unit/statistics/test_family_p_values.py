"""Adjusted p-values: significance in families of any size, without more than 5 % false findings."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from permafrost.report.notation import p_value_text
from permafrost.report.sections.scores import comparison_remarks
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.p_values import step_down_max_t
from permafrost.statistics.scores.compare import ADJUSTMENT, compare
from permafrost.statistics.scores.gates import comparison_gates

GATE = "significance_out_of_reach"


def backbones(right: np.ndarray, groups=None) -> dict[str, LabelledSamples]:
    """Backbones of two classes from (K, N) whether each answers right."""
    truth = np.zeros(right.shape[1], int)
    ids = [f"{i:05}" for i in range(right.shape[1])]
    return {
        f"backbone {number:03}": LabelledSamples.from_arrays(
            ids,
            truth,
            (~own).astype(int),
            np.eye(2)[(~own).astype(int)],
            task="classification",
            classes=["yes", "no"],
            groups=groups,
        )
        for number, own in enumerate(right)
    }


def adjusted(right: np.ndarray, *, resamples=999, seed=0, groups=None) -> dict[tuple, float]:
    rows = compare(backbones(right, groups), resamples=resamples, seed=seed)
    return {
        tuple(int(row[name][-3:]) for name in ("backbone_a", "backbone_b")): row["p_adjusted"]
        for row in rows
    }


def step_down_written_out(statistics, replicates):
    """Romano and Wolf's algorithm 4.1, member by member."""
    order = sorted(range(len(statistics)), key=lambda i: -statistics[i])
    found, highest = {}, 0.0
    for place, member in enumerate(order):
        rest = order[place:]
        count = sum(
            max(resample[i] for i in rest) >= statistics[member] for resample in replicates.T
        )
        highest = max(highest, (1 + count) / (replicates.shape[1] + 1))
        found[member] = highest
    return [found[i] for i in range(len(statistics))]


@pytest.mark.parametrize("seed", range(20))
def test_step_down_equals_the_algorithm_written_out(seed):
    rng = np.random.default_rng(seed)
    members = rng.integers(1, 9)
    replicates = np.abs(rng.normal(size=(members, 60)))
    statistics = np.abs(rng.normal(0, 2, members))
    if seed % 2:
        # many ties, among statistics and with replicates
        replicates, statistics = np.round(replicates), np.round(statistics)
    found = step_down_max_t(statistics, lambda members: replicates[members])
    assert found.tolist() == pytest.approx(step_down_written_out(statistics, replicates))


def test_step_down_by_hand():
    replicates = np.array([[1.0, 2.0, 0.0, 3.0], [2.5, 0.0, 1.0, 0.0], [0.0, 0.0, 9.0, 0.0]])
    # of all three members the largest are 2.5, 2, 9, 3; of the last two 2.5, 0, 9, 0; of the last 0, 0, 9, 0
    found = step_down_max_t([4.0, 2.0, 1.0], lambda members: replicates[members])
    assert found.tolist() == pytest.approx([2 / 5, 3 / 5, 3 / 5])


def test_members_without_a_statistic_and_undefined_replicates():
    replicates = np.array([[0.1, np.nan, 0.2], [np.nan, np.nan, 0.4], [0.0, 0.0, 0.0]])
    found = step_down_max_t([0.3, np.nan, math.inf], lambda members: replicates[members])
    assert found == pytest.approx([1 / 4, np.nan, 1 / 4], nan_ok=True)
    assert step_down_max_t([], lambda members: replicates[members]).size == 0


def test_rounding_does_not_part_equal_statistics():
    statistics = [0.1 + 0.2, 0.3]
    found = step_down_max_t(statistics, lambda members: np.array([[0.3, 0.0, 0.0]] * len(members)))
    assert found.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("count", [2, 3, 20])
def test_one_far_better_backbone_is_significantly_better_in_every_family(count):
    rng = np.random.default_rng(count)
    skills = np.array([0.95] + [0.5] * (count - 1))
    found = adjusted(rng.random((count, 2000)) < skills[:, None], resamples=2000)
    against_best = [p for (a, _), p in found.items() if a == 0]
    # the floor does not grow with the family
    assert max(against_best) == pytest.approx(1 / 2001, rel=1.01)
    others = [p for (a, _), p in found.items() if a]
    assert not others or min(others) > 0.05


def test_a_family_of_a_hundred_backbones_is_told_apart():
    rng = np.random.default_rng(0)
    skills = np.array([0.95] + [0.5] * 99)
    found = adjusted(rng.random((100, 300)) < skills[:, None], resamples=200)
    assert len(found) == 4950
    assert all(p < 0.05 for (a, _), p in found.items() if a == 0)
    assert np.mean([p < 0.05 for (a, _), p in found.items() if a]) < 0.01


def simulated(count, skills, *, trials, images=200, groups=None, resamples=299, seed=0):
    """Shares of test sets with any false finding among equals, and of true differences that are found."""
    rng = np.random.default_rng([seed, count])
    false, power = 0, []
    for trial in range(trials):
        # difficulty is shared, so that tests depend on each other as in practice
        hard = rng.normal(0, 0.15, images)
        right = rng.random((count, images)) < skills[:, None] + hard
        found = adjusted(right, resamples=resamples, seed=trial, groups=groups)
        equal = [p for (a, b), p in found.items() if skills[a] == skills[b]]
        false += min(equal, default=1.0) <= 0.05
        power += [p <= 0.05 for (a, b), p in found.items() if skills[a] != skills[b]]
    return false / trials, np.mean(power) if power else math.nan


@pytest.mark.parametrize(("count", "trials"), [(2, 200), (12, 100)])
def test_familywise_error_where_all_are_equal(count, trials):
    false, _ = simulated(count, np.full(count, 0.7), trials=trials)
    # 5 %, and the standard error of so many trials twice
    assert false <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize("scenes", [8, 15])
def test_familywise_error_with_few_groups(scenes):
    """Resamples of so few units vary too little: they find a pair among 12 equals in 34 to 64 of 100."""
    groups = [f"scene {i % scenes}" for i in range(200)]
    false, _ = simulated(12, np.full(12, 0.7), trials=150, groups=groups)
    assert false <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 150)


def test_familywise_error_and_power_where_some_differ():
    skills = np.array([0.5, 0.5, 0.5, 0.75, 0.75, 0.75])
    false, power = simulated(6, skills, trials=80)
    assert false <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 80)
    assert power > 0.9


def test_power_is_not_below_that_of_holm():
    """The family's dependence is used: with the same resamples, Holm finds less."""
    rng = np.random.default_rng(5)
    skills = np.concatenate((np.full(6, 0.7), [0.8]))
    ours = theirs = 0
    for trial in range(20):
        right = rng.random((7, 300)) < skills[:, None]
        rows = compare(backbones(right), resamples=299, seed=trial)
        true = [row for row in rows if row["backbone_b"].endswith("006")]
        ours += sum(row["p_adjusted"] <= 0.05 for row in true)
        ordered = sorted(rows, key=lambda row: row["p_value"])
        steps = itertools.accumulate(
            (min(1.0, row["p_value"] * (len(rows) - i)) for i, row in enumerate(ordered)), max
        )
        holm = {id(row): p for row, p in zip(ordered, steps, strict=True)}
        theirs += sum(holm[id(row)] <= 0.05 for row in true)
    assert ours >= theirs


def test_with_few_units_all_signs_are_turned_and_p_values_are_exact():
    """One backbone is ahead in all of 6 groups: of 2^5 ways to turn their signs, one is as far."""
    right = np.zeros((3, 60), bool)
    right[0], right[1:, ::7] = True, True
    groups = [f"{i % 6}" for i in range(60)]
    rows = compare(backbones(right, groups), resamples=2000, seed=0)
    assert [row["p_adjusted"] for row in rows] == [1 / 32, 1 / 32, 1]
    again = compare(backbones(right, groups), resamples=2000, seed=1)
    assert [row["p_adjusted"] for row in again] == [row["p_adjusted"] for row in rows]


def test_adjusted_values_are_never_below_single_ones_and_equal_them_for_one_pair():
    rng = np.random.default_rng(1)
    rows = compare(backbones(rng.random((5, 150)) < 0.6), resamples=200, seed=0)
    assert all(row["p_adjusted"] >= row["p_value"] for row in rows)
    assert {row["adjustment"] for row in rows} == {ADJUSTMENT}
    (row,) = compare(backbones(rng.random((2, 150)) < 0.6), resamples=200, seed=0)
    assert row["p_adjusted"] == row["p_value"]


def test_backbones_that_answer_alike_do_not_differ_within_a_family():
    right = np.random.default_rng(2).random((2, 100)) < 0.6
    found = adjusted(np.stack([right[0], right[0], right[1]]))
    assert found[0, 1] == 1
    assert found[0, 2] == found[1, 2]


@pytest.mark.parametrize(
    ("units", "resamples", "gates"),
    [
        (2000, 2000, []),
        (2000, 19, []),
        (2000, 18, [GATE]),
        (6, 2000, []),
        (5, 2000, ["few_units", GATE]),
        (1, 2000, ["one_unit", GATE]),
    ],
)
def test_a_gate_where_nothing_could_be_significant(units, resamples, gates):
    assert comparison_gates(units, resamples, 0.95) == gates


def test_the_gate_stands_in_the_rows_and_is_explained():
    right = np.random.default_rng(3).random((2, 60)) < 0.6
    (row,) = compare(backbones(right, groups=["a", "b", "c"] * 20), resamples=200, seed=0)
    assert GATE in row["gates"].split(";")
    (remark, *_) = comparison_remarks([{**row, "gates": GATE, "probe": "knn"}])
    assert remark.startswith("knn: significance out of reach. No difference")
    assert comparison_remarks([{"gates": "", "probe": "knn"}]) == []


@pytest.mark.parametrize(
    ("value", "smallest", "text"),
    [
        (1 / 2001, 1 / 2001, "< 0.001"),
        (1 / 201, 1 / 201, "< 0.005"),
        (2 / 201, 1 / 201, "0.010"),
        (1e-9, 0.0, "< 0.001"),
        (0.0312, 1 / 2001, "0.031"),
        (1.0, 1 / 2001, "1.000"),
        (None, 0.0, "–"),
        (math.nan, 0.0, "–"),
    ],
)
def test_a_p_value_at_its_floor_is_shown_as_less(value, smallest, text):
    assert p_value_text(value, smallest=smallest) == text
