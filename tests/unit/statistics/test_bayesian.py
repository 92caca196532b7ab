"""The Bayesian signed-rank test: its ends, symmetry, and baycomp's rule draw by draw."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.tested import PRIOR, signed_rank


def test_probabilities_follow_the_differences():
    rng = np.random.default_rng(0)
    better = signed_rank(rng.normal(0.05, 0.01, 15), rope=0.01, seed=0)
    assert better.higher > 0.99
    same = signed_rank(rng.normal(0, 0.003, 15), rope=0.01, seed=0)
    assert same.within > 0.99
    unsure = signed_rank(rng.normal(0, 0.1, 4), rope=0.01, seed=0)
    assert max(unsure.lower, unsure.within, unsure.higher) < 0.9
    for found in (better, same, unsure):
        assert found.lower + found.within + found.higher == pytest.approx(1)


def test_turned_differences_turn_the_answer():
    gaps = np.array([0.03, -0.01, 0.02, 0.0, 0.05, -0.02])
    one = signed_rank(gaps, rope=0.01, seed=3)
    other = signed_rank(-gaps, rope=0.01, seed=3)
    assert (one.lower, one.within, one.higher) == (other.higher, other.within, other.lower)
    assert one == signed_rank(gaps, rope=0.01, seed=3) != signed_rank(gaps, rope=0.01, seed=4)


def test_one_dataset_and_no_region():
    # half an observation of no difference has a weight w of Beta(1/2, 1)
    found = signed_rank([0.2], rope=0.05, seed=0, draws=50_000)
    weight = np.random.default_rng(1).beta(PRIOR, 1, 400_000)
    # 1 - w^2 is the weight of all averages with the dataset, 0.1 at least, which are above 0.05
    assert found.higher == pytest.approx(np.mean(1 - weight**2 > weight**2), abs=0.01)
    wide = signed_rank([0.2], rope=0.12, seed=0, draws=50_000)
    assert wide.higher == pytest.approx(np.mean((1 - weight) ** 2 > 0.5), abs=0.01)
    assert signed_rank([0.2], rope=0, seed=0).higher == 1
    level = signed_rank([0.0, 0.0], rope=0, seed=0)
    assert (level.lower, level.within, level.higher) == (0.5, 0, 0.5)


def test_what_is_missing_or_negative_is_refused():
    with pytest.raises(PermafrostError, match="on dataset 1 is missing"):
        signed_rank([0.1, np.nan], rope=0.01, seed=0)
    for rope in (-0.1, np.nan, np.inf):
        with pytest.raises(PermafrostError, match="practical equivalence"):
            signed_rank([0.1], rope=rope, seed=0)
