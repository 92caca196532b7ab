"""The default intervals: what they are made of, where they degenerate, and that they cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, naive_replicates, single_label
from permafrost.metrics.tasks import metric_of
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.replicates.families import make_family
from permafrost.statistics.resampling.carriers import ENOUGH_UNITS, harmonic_support
from permafrost.statistics.resampling.intervals import (
    constant_difference_interval,
    expanded,
    log_interval,
    same_in_all_units,
    share_interval,
    wilson_interval,
)
from permafrost.statistics.resampling.jackknife import PARTS, contributions, part_sizes, spread_of
from permafrost.statistics.resampling.resamples import iter_jackknife
from permafrost.statistics.resampling.student_t import (
    normal_quantile,
    normal_score,
    t_quantile,
    two_sided_p,
)
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.gates import few_units

stats = pytest.importorskip("scipy.stats")
optimize = pytest.importorskip("scipy.optimize")


def labelled(arrays, task="classification", groups=None):
    ids = [f"{i:05}" for i in range(len(arrays[0]))]
    classes = [str(k) for k in range(np.shape(arrays[2])[1])]
    return LabelledSamples.from_arrays(ids, *arrays, task=task, classes=classes, groups=groups)


def rows_of(predictions, **options):
    rows = bootstrap_scores(predictions, seed=0, **options)
    return {(row["metric"], row["class"]): row for row in rows}


def right_or_wrong(right, groups=None):
    answer = 1 - np.asarray(right, int)
    return labelled((np.zeros(len(answer), int), answer, np.eye(2)[answer]), groups=groups)


DEGREES = np.geomspace(1, 5000, 60)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
def test_quantiles_of_t_equal_those_of_scipy(confidence):
    expected = stats.t.ppf((1 + confidence) / 2, DEGREES)
    assert t_quantile(confidence, DEGREES) == pytest.approx(expected, rel=1e-8)
    assert normal_quantile(confidence) == pytest.approx(stats.norm.ppf((1 + confidence) / 2))


def test_a_quantile_or_tail_depends_on_no_other():
    """To the last bit, whatever else is asked for in the same call."""
    degrees = np.concatenate([np.linspace(1, 60, 400), [1e3, 1e6, np.nan]])
    alone = [t_quantile(0.95, df) for df in degrees]
    np.testing.assert_array_equal(t_quantile(0.95, degrees), alone)
    alone = [two_sided_p(2.1, df) for df in degrees]
    np.testing.assert_array_equal(two_sided_p(2.1, degrees), alone)


def test_tails_of_t_equal_those_of_scipy():
    statistic = np.linspace(0, 40, 90)[:, None]
    expected = 2 * stats.t.sf(statistic, DEGREES)
    np.testing.assert_allclose(two_sided_p(statistic, DEGREES), expected, rtol=1e-9)
    assert two_sided_p(-2.0, 5.0) == two_sided_p(2.0, 5.0)
    found = two_sided_p([np.nan, np.inf, 1.0], [3.0, 3.0, np.nan])
    assert found == pytest.approx([np.nan, 0, np.nan], nan_ok=True)
    assert normal_score([0.05, 0.0, np.nan, 1.0]) == pytest.approx(
        [stats.norm.isf(0.025), math.inf, np.nan, 0], nan_ok=True
    )


@pytest.mark.parametrize(("right", "of"), [(0, 20), (1, 20), (13, 20), (20, 20), (1, 1)])
def test_wilson_equals_scipy(right, of):
    expected = stats.binomtest(right, of).proportion_ci(method="wilson")
    found = wilson_interval(right / of, of, normal_quantile(0.95))
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def outer_of_wilson_and_mid_p(right: int, of: int) -> tuple[float, float]:
    expected = stats.binomtest(right, of).proportion_ci(method="wilson")

    def root(count, level):
        def short(p):
            return stats.binom.cdf(count, of, p) - stats.binom.pmf(count, of, p) / 2 - level

        return optimize.brentq(short, 0, 1, xtol=1e-14)

    low = root(right, 0.975) if right else 0.0
    high = root(right, 0.025) if right < of else 1.0
    return min(low, expected.low), max(high, expected.high)


@pytest.mark.parametrize("right", [0.0, 0.03, 0.4, 0.97, 0.99, 1.0])
def test_accuracy_of_independent_images_has_wilsons_interval_or_that_of_mid_p(right):
    found = rows_of(right_or_wrong(np.arange(100) < 100 * right))["accuracy", None]
    expected = outer_of_wilson_and_mid_p(round(100 * right), 100)
    # ten of the rarer outcome are enough for Wilson's
    if right == 0.4:
        expected = stats.binomtest(40, 100).proportion_ci(method="wilson")
    assert (found["lower"], found["upper"]) == pytest.approx(tuple(expected), abs=1e-9)
    assert found["method"] == "wilson" and found["lower"] < found["upper"]


@pytest.mark.parametrize("size", [1, 5, 20, 50, 300])
def test_shares_near_the_ends_are_covered(size):
    """The exact coverage, summed over all outcomes; 0.9971 of 50 was held in 0.867."""
    found = np.array([share_interval(count / size, size, 0.95) for count in range(size + 1)])
    for share in (0.0005, 0.0029, 0.01, 0.02, 0.035, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5):
        for chance in (share, 1 - share):
            held = (found[:, 0] <= chance) & (chance <= found[:, 1])
            covered = stats.binom.pmf(np.flatnonzero(held), size, chance).sum()
            assert covered > (0.91 if share * size > 10 else 0.925), (size, chance)
    # from nine items on to ten, the ends do not jump
    assert np.diff(found, axis=0).min() > 0 if size > 1 else True


def test_recall_of_a_rare_class_rests_on_its_images_alone():
    target = np.repeat([0, 1], [197, 3])
    rows = rows_of(labelled((target, target, np.eye(2)[target])))
    assert rows["recall", "1"]["lower"] == pytest.approx(outer_of_wilson_and_mid_p(3, 3)[0])
    assert rows["recall", "0"]["lower"] > 0.95
    # the mean over both classes is known less well than the common one, and better than the rare one
    assert rows["recall", "1"]["lower"] < rows["balanced_accuracy", None]["lower"] < 0.95


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_groups_have_the_error_of_evaluations_without_each_group(task):
    arrays = single_label() if task == "classification" else multi_label(n=200)
    groups = np.array([f"scene {i % 11 if i < 150 else 0}" for i in range(200)])
    units = find_units(200, groups=groups)
    left = naive_replicates(
        arrays, 1 - np.eye(11, dtype=int), units.index, task=task, classes=arrays[2].shape[1]
    )
    rows = rows_of(labelled(arrays, task, groups))
    metric = "macro_f1" if task == "classification" else "micro_ap"
    row, sizes = rows[metric, None], np.bincount(units.index)
    apart = row["value"] - left[metric]
    error = math.sqrt(10 / 11 * np.sum(apart**2))
    df = min(
        2 * 11 / (stats.kurtosis(apart, fisher=False) - 1),
        10 / 11 * sizes.sum() ** 2 / np.sum(sizes**2),
    )
    size = row["value"] * (1 - row["value"]) / error**2
    quantile = stats.t.ppf(0.975, df)
    lower, upper = wilson_interval(row["value"], size, quantile)
    # the ends from which the value lies `quantile` errors away, where the error follows the end as the units say
    slope = np.sum((apart - apart.mean()) ** 3) / np.sum((apart - apart.mean()) ** 2)
    ends = np.roots([1, -(quantile**2) * slope, -((quantile * error) ** 2)]) + row["value"]
    expected = min(lower, ends.min()), max(upper, ends.max())
    assert (row["lower"], row["upper"]) == pytest.approx(expected, rel=1e-6)
    assert row["largest_share"] == pytest.approx(np.max(apart**2) / np.sum(apart**2))
    assert (row["resamples"], row["n_undefined"]) == (11, 0)


def test_many_images_are_left_out_in_parts():
    (parts,) = iter_jackknife(1001, PARTS)
    assert parts.counts.shape == (1001, 200)
    assert (parts.counts == 0).sum(axis=0).tolist() == [6] + [5] * 199
    assert np.array_equal(parts.counts.sum(axis=0), parts.size)
    cut = [part.counts for part in iter_jackknife(1001, PARTS, block=64)]
    assert np.array_equal(np.concatenate(cut, axis=1), parts.counts)
    arrays = single_label(n=1001)
    family = make_family(*arrays, task="classification", classes=6, units=np.arange(1001))
    found = family.replicates(parts, ["accuracy", "macro_f1"])
    expected = naive_replicates(
        arrays, parts.counts, np.arange(1001), task="classification", classes=6
    )
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-12)


def test_contributions_of_a_mean_are_the_sums_of_the_parts():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(6), [1, 2, 3, 10, 20, 30]))
    values, units = rng.normal(size=66), find_units(66, groups=groups)
    left = np.array([values[units.index != k].mean() for k in range(6)])
    found = contributions(values.mean(), left, part_sizes(units))
    expected = np.bincount(units.index, values) / 66
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_spread_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    left = (values.sum() - values) / 39
    spread = spread_of(values.mean(), left, np.ones(40))
    assert float(spread.error) == pytest.approx(values.std(ddof=1) / math.sqrt(40))
    assert float(spread.bias) == pytest.approx(0, abs=1e-12)
    assert float(spread.df) <= 39
    # one unit decides all
    single = np.zeros(40)
    single[3] = 1
    assert float(spread_of(1 / 40, (1 - single) / 39, np.ones(40)).df) == pytest.approx(
        2.1, abs=0.1
    )
    # a part without which nothing is defined carries all: how far that would move is not known
    carried = spread_of(0.5, np.array([0.5, np.nan, 0.5]), np.ones(3))
    assert (carried.error, carried.df, carried.largest_share) == (np.inf, 1, 1)
    assert np.isnan(spread_of(np.nan, np.array([0.4, 0.5, 0.6]), np.ones(3)).error)


def test_a_difference_that_is_the_same_everywhere_is_tested_by_its_sign():
    for units, leaves_out in ((5, False), (6, True)):
        low, high = constant_difference_interval(0.5, units, 0.95)
        assert (low > 0) == leaves_out == (2.0 ** (1 - units) <= 0.05)
        assert high > 0.5
    half = same_in_all_units(10, 0.95)
    assert constant_difference_interval(0.0, 10, 0.95) == (-half, half)
    assert constant_difference_interval(0.0, 10, 0.95, bound=3.0) == (-3 * half, 3 * half)


def test_positive_metrics_stay_positive_and_r2_below_one():
    rng = np.random.default_rng(0)
    target = rng.normal(size=9)
    found = PredictedNumbers.from_arrays(map(str, range(9)), target, target + rng.standard_t(2, 9))
    rows = rows_of(found)
    for (metric, _), row in rows.items():
        assert row["lower"] < row["value"] < row["upper"]
        assert row["lower"] > 0 or metric_of(metric).bounds != "positive"
        assert row["upper"] <= 1 or metric != "r2"
        assert row["method"] == ("percentile" if metric.startswith("median") else "jackknife_log")
    one, error = rows["r2", None], rows["rmse", None]
    # 1 - R² is positive too: what is above the value is below the value of the error, on the logarithm
    assert (1 - one["lower"]) * (1 - one["upper"]) == pytest.approx((1 - one["value"]) ** 2)
    assert error["lower"] * error["upper"] == pytest.approx(error["value"] ** 2)
    assert log_interval(2.0, 0.5, 2.0) == pytest.approx((2 * math.exp(-0.5), 2 * math.exp(0.5)))
    assert log_interval(0.0, 0.0, 2.0) == (0, 0)


def test_expanded_replicates_keep_their_mean_and_many_units_change_little():
    drawn = np.random.default_rng(0).normal(size=500)
    wide = expanded(drawn, 8, 0.95)
    assert wide.mean() == pytest.approx(drawn.mean())
    factor = math.sqrt(8 / 7) * stats.t.ppf(0.975, 7) / stats.norm.ppf(0.975)
    assert wide.std() == pytest.approx(factor * drawn.std())
    assert expanded(drawn, 10**6, 0.95) == pytest.approx(drawn, abs=1e-4)
    assert expanded(drawn, 1, 0.95) is drawn


def test_classes_with_few_units_decide_what_a_mean_over_classes_rests_on():
    assert harmonic_support(np.array([10.0, 10.0, 0.0])) == 20
    assert harmonic_support(np.array([1.0, 1000.0])) == pytest.approx(4, abs=0.01)


def test_a_gate_for_fewer_units_than_a_sign_test_can_reject_with():
    assert [few_units([{"n_units": n}]) for n in (1, 2, 5, 6, 100)] == [
        [],
        ["few_units"],
        ["few_units"],
        [],
        [],
    ]
    assert 2.0 ** (1 - ENOUGH_UNITS) <= 0.05 < 2.0 ** (2 - ENOUGH_UNITS)


@pytest.mark.parametrize(("groups", "unequal"), [(8, False), (8, True), (40, False)])
def test_accuracy_covers_with_groups(groups, unequal):
    rng = np.random.default_rng([groups, unequal])
    held, trials = 0, 120
    for _ in range(trials):
        sizes = np.full(groups, 25)
        if unequal:
            sizes = np.maximum(1, (25 * rng.lognormal(-0.25, 0.7, groups)).astype(int))
        # a beta distribution of each group's accuracy, whose mean is 0.7
        share = rng.beta(7, 3, groups)
        of = np.repeat(np.arange(groups), sizes)
        found = right_or_wrong(rng.random(len(of)) < share[of], of.astype(str))
        row = rows_of(found)["accuracy", None]
        held += row["lower"] <= 0.7 <= row["upper"]
    # 93 to 97 %, and the standard error of so many test sets twice
    assert 0.93 - 2 * math.sqrt(0.93 * 0.07 / trials) <= held / trials
    assert held / trials <= 0.97 + 2 * math.sqrt(0.97 * 0.03 / trials)


def test_nearly_perfect_accuracy_covers():
    rng = np.random.default_rng(1)
    rows = [rows_of(right_or_wrong(rng.random(100) < 0.9974))["accuracy", None] for _ in range(150)]
    held = np.mean([row["lower"] <= 0.9974 <= row["upper"] for row in rows])
    assert 0.93 <= held <= 1
