"""Possible copies by features: planted ones, brute force, and what is suspected where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.statistics.measures.near_features import near_features

RNG = np.random.default_rng(0)


def images(count: int) -> np.ndarray:
    """Features of images of ten scenes."""
    return RNG.normal(size=(10, 16))[RNG.integers(0, 10, count)] + RNG.normal(size=(count, 16))


def test_planted_copies_come_first_and_their_ratios_are_those_of_a_search_by_hand():
    test, own, other = images(200), images(1500), images(800)
    other[[3, 500, 77]] = test[[11, 0, 150]] + RNG.normal(scale=0.05, size=(3, 16))
    found = near_features(test, other, own, clean=np.ones(200, bool), rate=0.01)
    assert set(zip(found.rows[:3].tolist(), found.others[:3].tolist(), strict=True)) == {
        *((11, 3), (0, 500), (150, 77)),
    }

    def ratio(one, gallery):
        first, second = np.sort([np.linalg.norm(one - each) for each in gallery])[:2]
        return first / second

    assert found.ratios == pytest.approx([ratio(test[row], other) for row in found.rows])
    known = np.sort([ratio(one, own) for one in test])
    # two of 201 may be below by chance
    assert found.ratios.max() < known[1] and found.by_chance == pytest.approx(200 * 2 / 201)
    every = [row for row in range(200) if ratio(test[row], other) < known[1]]
    assert sorted(found.rows.tolist()) == every


def test_without_copies_as_many_are_suspected_as_expected_and_known_copies_do_not_count():
    shares = []
    for _ in range(30):
        test, own, other = images(300), images(900), images(900)
        found = near_features(test, other, own, clean=np.ones(300, bool), rate=0.05)
        shares.append(len(found.rows) / found.by_chance)
    assert 0.8 < np.mean(shares) < 1.2
    other[5] = test[7] + 0.01
    own[:150] = test[:150] + RNG.normal(scale=1e-3, size=(150, 16))
    clean = np.arange(300) >= 150
    assert 7 in near_features(test, other, own, clean=clean, rate=0.01).rows
    # as if the copies were chance
    assert 7 not in near_features(test, other, own, clean=np.ones(300, bool), rate=0.01).rows


def test_equal_features_have_no_nearest():
    equal = np.ones((9, 4))
    assert not len(near_features(equal, equal, equal, clean=np.ones(9, bool)).rows)
