"""Missing scores: left out by name, or filled by a named rule and marked."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.draws import draw
from permafrost.statistics.across_datasets.missing import complete, fill_draws

NAMES = {"datasets": ["one", "two", "three"], "backbones": ["a", "b", "c"]}
HIGHER = np.array([True, False, True])


@pytest.fixture
def table():
    """(3, 3, 2): b lacks two, an error; c lacks three; a has one seed on one."""
    nan = np.nan
    values = np.array(
        [
            [[0.5, nan], [0.6, 0.8], [0.4, 0.2]],
            [[3.0, 5.0], [nan, nan], [1.0, 2.0]],
            [[0.1, 0.3], [0.7, 0.9], [nan, nan]],
        ]
    )
    items = [np.random.default_rng(k).normal(size=(3, 4)) for k in range(3)]
    items = [each - each.mean(axis=1, keepdims=True) for each in items]
    items[1][1] = items[2][2] = nan
    return values, items


def test_common_leaves_datasets_out_and_says_for_whom(table):
    values, items = table
    found = complete(values, HIGHER, items, **NAMES)
    assert found.datasets == ["one"] and not found.imputed.any()
    assert found.left_out == {"two": ["b"], "three": ["c"]}
    np.testing.assert_array_equal(found.scores.values, values[:1])
    np.testing.assert_array_equal(found.scores.items[0], items[0])


def test_worst_is_that_of_the_dataset_in_its_direction(table):
    values, items = table
    found = complete(values, HIGHER, items, **NAMES, missing="worst")
    assert found.datasets == NAMES["datasets"] and not found.left_out
    assert [tuple(cell) for cell in np.argwhere(found.imputed)] == [(1, 1), (2, 2)]
    np.testing.assert_array_equal(found.scores.values[1, 1], [3, 5])  # the largest error
    np.testing.assert_array_equal(found.scores.values[2, 2], [0.1, 0.3])
    np.testing.assert_array_equal(found.scores.items[1][1], items[1][0])
    np.testing.assert_array_equal(found.scores.items[2][2], items[2][0])
    seen = ~found.imputed
    np.testing.assert_array_equal(found.scores.values[seen], values[seen])


def test_a_baseline_fills_where_it_has_a_score(table):
    values, items = table
    found = complete(values, HIGHER, items, **NAMES, missing="baseline", baseline="c")
    assert found.datasets == ["one", "two"] and found.left_out == {"three": ["c"]}
    np.testing.assert_array_equal(found.scores.values[1, 1], [1, 2])
    np.testing.assert_array_equal(found.imputed, [[False] * 3, [False, True, False]])
    # a dataset without gaps does not need the baseline, and items need not be known
    assert complete(values, HIGHER, None, **NAMES, missing="worst").scores.items is None


@pytest.mark.parametrize("uncertainty", ["items", "both"])
@pytest.mark.parametrize("rule", [{"missing": "worst"}, {"missing": "baseline", "baseline": "a"}])
def test_what_is_filled_stays_level_with_its_source_in_every_draw(table, rule, uncertainty):
    values, items = table
    found = complete(values, HIGHER, items, **NAMES, **rule)
    drawn = draw(found.scores, uncertainty, draws=50, seed=0)
    # which dataset it is shows in the scale, and here all draws are taken to be in place
    which = np.arange(3)
    filled = fill_draws(drawn, which, found)
    assert np.any(filled != drawn)  # seeds stray each for itself
    rest = np.minimum(drawn[:, 1, 0], drawn[:, 1, 2])
    expected = rest if rule["missing"] == "worst" else drawn[:, 1, 0]
    np.testing.assert_array_equal(filled[:, 1, 1], expected)
    np.testing.assert_array_equal(filled[:, 0], drawn[:, 0])
    # drawn datasets carry their marks along
    turned = fill_draws(drawn, np.tile([1, 1, 0], (50, 1)), found)
    np.testing.assert_array_equal(turned[:, 2], drawn[:, 2])
    assert np.all(turned[:, :2, 1] <= drawn[:, :2, 0])
    # and so do seeds
    runs = np.stack([drawn, drawn + 1], axis=-1)
    np.testing.assert_array_equal(fill_draws(runs, which, found)[..., 1], filled + 1)


def test_without_gaps_all_rules_are_the_same(table):
    values = table[0][:1]
    names = {"datasets": ["one"], "backbones": ["a", "b", "c"]}
    for rule in ({}, {"missing": "worst"}, {"missing": "baseline", "baseline": "b"}):
        found = complete(values, HIGHER[:1], None, **names, **rule)
        np.testing.assert_array_equal(found.scores.values, values)
        assert not found.imputed.any() and not found.left_out


def test_two_backbones_may_have_no_dataset_in_common():
    values = np.array([[[1.0], [np.nan]], [[np.nan], [2.0]]])
    found = complete(values, [True, True], None, datasets=["x", "y"], backbones=["a", "b"])
    assert found.scores.values.shape == (0, 2, 1) and found.left_out == {"x": ["b"], "y": ["a"]}


def test_rules_and_names_that_are_unknown_are_refused(table):
    values, _ = table
    for options, words in (
        ({"missing": "wurst"}, "did you mean"),
        ({"missing": "baseline", "baseline": "z"}, "'z' has none"),
        ({"missing": "baseline"}, "none is named"),
    ):
        with pytest.raises(PermafrostError, match=words):
            complete(values, HIGHER, None, **NAMES, **options)
    values[:, 1] = np.nan
    with pytest.raises(PermafrostError, match="'b' has no score on any of 3"):
        complete(values, HIGHER, None, **NAMES, missing="worst")
