"""Tests by ranks against SciPy, brute force and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets import significance
from permafrost.statistics.across_datasets.standings import mean_rank
from permafrost.statistics.resampling.p_values import holm
from permafrost.statistics.resampling.student_t import incomplete_beta
from scipy import stats


@pytest.mark.parametrize("shape", [(3, 3), (12, 5), (40, 8), (6, 41)])
@pytest.mark.parametrize("ties", [False, True])
def test_friedman_is_that_of_scipy(shape, ties):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, shape) / 5 if ties else rng.normal(size=shape)
    values = values + 0.2 * np.arange(shape[1]) * (not ties)
    found, expected = significance.friedman(values), stats.friedmanchisquare(*values.T)
    assert found.chi_square == pytest.approx(expected.statistic, rel=1e-10)
    assert found.p_chi_square == pytest.approx(expected.pvalue, rel=1e-8)
    datasets, backbones = shape
    f = (datasets - 1) * found.chi_square / (datasets * (backbones - 1) - found.chi_square)
    assert found.f == pytest.approx(f)
    df = (backbones - 1, (backbones - 1) * (datasets - 1))
    assert found.p_f == pytest.approx(stats.f.sf(f, *df), rel=1e-8)


def test_friedman_at_its_ends():
    level = significance.friedman(np.ones((4, 3)))
    assert (level.chi_square, level.p_chi_square, level.p_f) == (0, 1, 1)
    same = significance.friedman(np.tile([1.0, 2, 3], (4, 1)))
    assert same.chi_square == pytest.approx(8) and same.f == math.inf
    assert same.p_f == pytest.approx(1 / 6**3)
    one = significance.friedman([[1.0, 2, 3]])
    assert one.chi_square == pytest.approx(2) and one.f is None and one.p_f is None
    # two backbones: a sign test by its normal form
    two = significance.friedman(np.array([[1, 0]] * 7 + [[0, 1]] * 2))
    assert two.chi_square == pytest.approx((7 - 2) ** 2 / 9)


def test_tails_are_those_of_scipy():
    for df, x in itertools.product((1, 2, 3, 8, 99), (0.01, 1, 7.8, 120, 900)):
        tail = significance.chi_square_tail(x, df)
        assert tail == pytest.approx(stats.chi2.sf(x, df), rel=1e-9, abs=1e-300)
    for x, a, b in itertools.product((1e-6, 0.2, 0.5, 0.99), (0.5, 3, 60), (0.5, 2, 500)):
        assert incomplete_beta(x, 1 - x, a, b)[0] == pytest.approx(stats.beta.cdf(x, a, b))


@pytest.mark.parametrize("backbones", [2, 3, 10, 40])
def test_nemenyi_is_by_the_studentized_range(backbones):
    for level in (0.05, 0.1):
        q = stats.studentized_range.ppf(1 - level, backbones, np.inf) / math.sqrt(2)
        expected = q * math.sqrt(backbones * (backbones + 1) / (6 * 14))
        found = significance.nemenyi_difference(backbones, 14, level)
        assert found == pytest.approx(expected, rel=1e-6)
    for width in (0.5, 2, 4, 7):
        expected = stats.studentized_range.sf(width, backbones, np.inf)
        assert significance.range_tail(width, backbones) == pytest.approx(
            expected, rel=1e-5, abs=1e-9
        )


def test_nemenyi_of_the_published_tables():
    # Demsar (2006), table 5 (a)
    for backbones, q in ((2, 1.960), (5, 2.728), (10, 3.164)):
        difference = significance.nemenyi_difference(backbones, 1)
        assert difference / math.sqrt(backbones * (backbones + 1) / 6) == pytest.approx(q, abs=1e-3)


def test_pairs_differ_exactly_beyond_the_critical_difference():
    values = np.random.default_rng(1).normal(size=(15, 6)) + np.linspace(0, 2, 6)
    ranks, p = mean_rank(values), significance.nemenyi(values)
    beyond = np.abs(ranks[:, None] - ranks) >= significance.nemenyi_difference(6, 15)
    np.testing.assert_array_equal(p <= 0.05, beyond)
    assert beyond.any() and not beyond.all()
    np.testing.assert_array_equal(p, p.T)
    np.testing.assert_array_equal(np.diag(p), 1)


def test_cliques_are_the_largest_groups_within_the_difference():
    ranks = [3.0, 1.0, 1.8, 2.4, 5.0]
    assert significance.cliques(ranks, 1.3) == [[1, 2], [2, 3, 0]]
    assert significance.cliques(ranks, 0.1) == []
    assert significance.cliques(ranks, 9) == [[1, 2, 3, 0, 4]]
    assert significance.cliques([1.5, 1.5], 0.5) == [[0, 1]]
    rng = np.random.default_rng(2)
    for _ in range(50):
        ranks, difference = rng.integers(2, 12, 6) / 2, rng.uniform(0.2, 3)
        near = np.abs(ranks[:, None] - ranks) < difference
        found = significance.cliques(ranks, difference)
        together = np.eye(6, dtype=bool)
        for group in found:
            together[np.ix_(group, group)] = True
        np.testing.assert_array_equal(together, near)
        assert not any(set(a) < set(b) for a, b in itertools.permutations(found, 2))


def test_wilcoxon_is_that_of_scipy():
    rng = np.random.default_rng(3)
    for count in (1, 2, 5, 12, 50):
        gaps = rng.normal(0.4, 1, count)
        expected = stats.wilcoxon(gaps, method="exact").pvalue
        assert significance.wilcoxon(gaps) == pytest.approx(expected)
    for gaps in (rng.normal(0.1, 1, 300), rng.integers(-5, 7, 300)):
        expected = stats.wilcoxon(gaps, method="approx", correction=True).pvalue
        assert significance.wilcoxon(gaps) == pytest.approx(expected)


def test_wilcoxon_with_ties_is_exact():
    gaps = np.array([1, 1, 2, -1, 0, 3, 3, -2])
    nonzero = gaps[gaps != 0]
    ranks = stats.rankdata(np.abs(nonzero))
    signs = np.array(list(itertools.product((-1, 1), repeat=len(nonzero))))
    sums = signs @ ranks
    expected = np.mean(np.abs(sums) >= abs(np.sign(nonzero) @ ranks) - 1e-9)
    assert significance.wilcoxon(gaps) == pytest.approx(expected)
    assert significance.wilcoxon(np.zeros(4)) == 1


def test_a_reference_is_held_against_all_others_with_holm():
    values = np.random.default_rng(4).normal(size=(10, 4)) + [0, 0.3, 1, 3]
    p, adjusted = significance.wilcoxon_against(values, 1)
    for k in (0, 2, 3):
        expected = stats.wilcoxon(values[:, k], values[:, 1], method="exact").pvalue
        assert p[k] == pytest.approx(expected)
    assert np.isnan(p[1]) and np.isnan(adjusted[1])
    np.testing.assert_array_equal(adjusted, holm(p))


def test_holm_by_hand():
    adjusted = holm([0.04, 0.01, np.nan, 0.03, 0.6])
    np.testing.assert_allclose(adjusted, [0.09, 0.04, np.nan, 0.09, 0.6])
    np.testing.assert_array_equal(holm([0.7, 0.8]), [1, 1])
    assert holm([]).shape == (0,)


def test_equal_backbones_rarely_differ():
    rng = np.random.default_rng(5)
    found = np.zeros(4)
    for _ in range(400):
        values = rng.normal(size=(12, 5))
        result = significance.friedman(values)
        adjusted = significance.wilcoxon_against(values, 0)[1]
        p_values = (result.p_chi_square, result.p_f, significance.nemenyi(values).min())
        found += np.array([*p_values, np.nanmin(adjusted)]) <= 0.05
    assert np.all(found / 400 <= 0.08), found / 400


def test_missing_scores_and_lone_backbones_are_refused():
    values = np.ones((3, 2))
    values[2, 1] = np.nan
    for test in (significance.friedman, significance.nemenyi):
        with pytest.raises(PermafrostError, match="backbone 1 on dataset 2"):
            test(values)
        with pytest.raises(ValueError, match="two backbones"):
            test(np.ones((3, 1)))
