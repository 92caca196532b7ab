"""How many datasets or items would tell two apart: against the noncentral t, and simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.draws import Scores
from permafrost.statistics.across_datasets.power import needed, t_test_power
from scipy import stats


def exact(count: int, effect: float) -> float:
    bound = stats.t.ppf(0.975, count - 1)
    return stats.nct.sf(bound, count - 1, effect * math.sqrt(count))


def of_gaps(gaps, items=None) -> Scores:
    values = np.stack([np.asarray(gaps, float), np.zeros(len(gaps))], axis=1)[..., None]
    return Scores(values, np.ones(len(gaps), bool), items)


def test_power_is_nearly_that_of_the_noncentral_t():
    for count in (4, 8, 20, 100):
        for effect in (0.2, 0.5, 1, 2):
            assert t_test_power(count, effect, 0.05) == pytest.approx(
                exact(count, effect), abs=0.02
            )


@pytest.mark.parametrize("effect", [0.3, 0.6, 1.2])
def test_datasets_are_the_fewest_with_the_power(effect):
    gaps = np.array([-1.0, 1, -1, 1, 0])
    gaps = 0.01 * (gaps / gaps.std(ddof=1) + effect)
    found = needed(of_gaps(gaps), 0, 1)
    fewest = next(count for count in range(3, 1000) if exact(count, effect) >= 0.8)
    assert abs(found.datasets - fewest) <= 1
    assert found.more_datasets == found.datasets - 5
    # and the other way round
    assert needed(of_gaps(-gaps), 0, 1).datasets == needed(of_gaps(gaps), 1, 0).datasets
    # by simulation
    drawn = np.random.default_rng(0).normal(effect, 1, (4000, found.datasets))
    share = np.mean(stats.ttest_1samp(drawn, 0, axis=1).pvalue <= 0.05)
    assert share == pytest.approx(0.8, abs=0.05)


def test_items_are_as_many_as_simulation_says():
    rng, datasets, parts, deviation = np.random.default_rng(1), 4, 400, 0.4
    each = rng.normal(size=(datasets, 2, parts))
    each = deviation * (each - each.mean(-1, keepdims=True)) / each.std(-1, ddof=1, keepdims=True)
    items = tuple(each / parts)
    gap = 0.02
    found = needed(of_gaps([gap] * datasets, items), 0, 1)
    paired = each[:, 0] - each[:, 1]
    error = math.sqrt(np.mean(paired.var(axis=-1, ddof=1)) / parts / datasets)
    assert found.times_items == pytest.approx(((1.96 + 0.8416) * error / gap) ** 2, rel=1e-3)
    spread = error / math.sqrt(found.times_items)
    drawn = rng.normal(gap, spread, 4000)
    assert np.mean(np.abs(drawn) > 1.96 * spread) == pytest.approx(0.8, abs=0.03)
    # all datasets have one gap, so that two tell it
    assert found.datasets == 2 and found.more_datasets == 0
    assert needed(of_gaps([1.0] * datasets, items), 0, 1).times_items == 1


def test_seeds_do_not_go_with_more_items():
    items = (np.array([[0.01, -0.01], [0.0, 0.0]]),) * 2
    values = np.array([[[0.5, 0.7], [0.55, 0.55]]] * 2)
    found = needed(Scores(values, np.ones(2, bool), items), 0, 1)
    assert found.times_items is None and "seeds" in found.why_not_items
    # the variance of each dataset's mean over two seeds is 0.0001, that of two parts of 0.01 is 0.0004
    values[:, 0], values[:, 1] = [0.59, 0.61], 0.56
    found = needed(Scores(values, np.ones(2, bool), items), 0, 1)
    expected = (0.0004 / 2) / ((0.04 / 2.8016) ** 2 - 0.0001 / 2)
    assert found.times_items == pytest.approx(expected, rel=1e-3) and expected > 1


def test_where_no_number_would_the_reason_is_said():
    level = needed(of_gaps([0.1, -0.1], (np.zeros((2, 1)),) * 2), 0, 1)
    assert level.datasets is None and level.times_items is None
    assert "no difference" in level.why_not_datasets and "no difference" in level.why_not_items
    one = needed(of_gaps([0.1], (np.zeros((2, 1)),)), 0, 1)
    assert "one dataset" in one.why_not_datasets and "one unit" in one.why_not_items
    hardly = needed(of_gaps([1.0, -0.999]), 0, 1)
    assert hardly.why_not_datasets == "more than 10,000 datasets"
    assert "is unknown" in hardly.why_not_items
    with pytest.raises(PermafrostError, match="power 1"):
        needed(of_gaps([0.1, 0.2]), 0, 1, power=1)
