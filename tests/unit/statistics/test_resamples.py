"""Resamples depend on the seed and the number of units only; units on names, not on row order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.core.errors import PermafrostError
from permafrost.statistics.replicates.totals import Segments
from permafrost.statistics.resampling.resamples import (
    Resamples,
    _wide_enough,
    draw_resamples,
    iter_jackknife,
    iter_resamples,
)
from permafrost.statistics.resampling.units import find_units


def draw_counts(*arguments):
    return draw_resamples(*arguments).counts


def test_every_resample_draws_as_many_units_as_there_are():
    counts = draw_counts(137, 90, 0)
    assert counts.shape == (137, 90)
    assert counts.dtype == np.uint8
    assert (counts.sum(axis=0, dtype=int) == 137).all()


def test_counts_have_the_moments_of_multinomial_draws():
    counts = draw_counts(50, 4000, 1).astype(float)
    assert counts.mean(axis=1) == pytest.approx(np.ones(50), abs=0.1)
    assert counts.var(axis=1).mean() == pytest.approx(1 - 1 / 50, abs=0.02)
    off_diagonal = np.cov(counts)[~np.eye(50, dtype=bool)]
    assert off_diagonal.mean() == pytest.approx(-1 / 50, abs=0.005)


@pytest.mark.parametrize("block", [None, 1, 64, 65, 1000])
@pytest.mark.parametrize("n_units", [1, 40, 700, 20_000])
def test_counts_do_not_depend_on_the_block(n_units, block):
    blocks = list(iter_resamples(n_units, 130, 3, block=block))
    whole = draw_resamples(n_units, 130, 3)
    assert np.array_equal(np.hstack([part.counts for part in blocks]), whole.counts)
    assert max(part.peak for part in blocks) == whole.peak == whole.counts.max()
    assert {part.size for part in blocks} == {n_units}
    if block in (1, 64):
        assert [len(part) for part in blocks] == [64, 64, 2]


def test_the_first_resamples_are_the_same_when_more_are_drawn():
    for n_units in (40, 3000):
        many = draw_counts(n_units, 500, 3)
        assert np.array_equal(many[:, :101], draw_counts(n_units, 101, 3))


def test_a_generator_and_its_seed_draw_the_same():
    generator = np.random.default_rng(8)
    assert np.array_equal(draw_counts(30, 10, generator), draw_counts(30, 10, 8))
    assert not np.array_equal(draw_counts(30, 10, generator), draw_counts(30, 10, 8))


def test_global_random_state_is_left_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    draw_counts(30, 10, 8)
    assert np.array_equal(np.random.get_state()[1], before)


def test_many_units_are_all_reached():
    counts = draw_counts(70_000, 3, 2)
    assert (counts[65_536:].sum(axis=0) > 0).all()
    assert (counts.sum(axis=0, dtype=int) == 70_000).all()


def test_a_count_beyond_a_byte_widens_the_array():
    counts = np.full((2, 2), 255, np.uint8)
    assert _wide_enough(counts, 255).dtype == np.uint8
    assert _wide_enough(counts, 256).dtype == np.uint16


@pytest.mark.parametrize(("units", "resamples"), [(0, 10), (10, 0)])
def test_nothing_to_draw_is_refused(units, resamples):
    with pytest.raises(PermafrostError, match="cannot draw"):
        draw_counts(units, resamples, 0)


def test_jackknife_leaves_out_each_unit_once():
    blocks = list(iter_jackknife(100, block=64))
    assert [len(block) for block in blocks] == [64, 36]
    assert np.array_equal(np.hstack([block.counts for block in blocks]), 1 - np.eye(100))
    assert {block.size for block in blocks} == {99}


def test_resamples_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="differ in size"):
        Resamples.of(np.array([[1, 2]], np.uint8))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=6), st.integers(1, 255), st.booleans())
def test_segment_totals_never_overflow(lengths, peak, wide):
    counts = np.full((3, 4), peak, np.uint16 if wide else np.uint8)
    counts[1] = 1
    rows = np.random.default_rng(0).integers(0, 3, sum(lengths))
    segments = Segments(rows, np.concatenate(([0], np.cumsum(lengths))))
    expected = [
        counts[part].sum(axis=0, dtype=int) for part in np.split(rows, np.cumsum(lengths)[:-1])
    ]
    assert np.array_equal(segments.totals(Resamples(counts, 0, peak)), expected)


def test_units_are_numbered_by_name_whatever_the_order_of_rows():
    ids = np.array([f"image {row}" for row in range(50)])
    units = find_units(50, sample_ids=ids)
    assert (units.kind, units.count, sorted(units.index)) == ("image", 50, list(range(50)))
    order = np.random.default_rng(0).permutation(50)
    shuffled = find_units(50, sample_ids=ids[order])
    assert shuffled.index.tolist() == units.index[order].tolist()
    groups = find_units(50, sample_ids=ids, groups=["x", "y"] * 25)
    assert (groups.kind, groups.count) == ("group", 2)
    assert groups.index.tolist() in ([0, 1] * 25, [1, 0] * 25)


def test_parts_do_not_follow_the_order_of_names():
    """As names that are sorted by region, or where every tenth name is of one region."""
    regions = {}
    for layout, region in (
        ("sorted", lambda row: row // 200),
        ("in turn", lambda row: row % 10),
    ):
        units = find_units(2000, sample_ids=[f"{row:05}" for row in range(2000)])
        parts = np.zeros((200, 10))
        np.add.at(parts, (units.index % 200, [region(row) for row in range(2000)]), 1)
        regions[layout] = parts
    # ten units a part from ten regions: as a random draw, neither one of each nor all of one
    for parts in regions.values():
        assert 1.3 < np.mean(parts.max(axis=1)) < 4.5
        # the variance of a hypergeometric draw is 0.9 * (1990 / 1999)
        assert parts.var() == pytest.approx(0.896, abs=0.12)
    # unnamed samples are numbered by their places, and dealt likewise
    assert find_units(2000).index.tolist() != list(range(2000))


def test_images_without_a_group_are_units_of_their_own():
    # a group and an image of the same name stay two units
    units = find_units(5, sample_ids=list("edcba"), groups=["b", None, "b", None, "x"])
    assert (units.kind, units.count) == ("group", 4)
    assert units.index[0] == units.index[2] and len(set(units.index.tolist())) == 4


def test_groups_that_are_all_unknown_mean_images():
    assert find_units(2, groups=[None, None]).kind == "image"
    assert find_units(2, groups=[float("nan"), None]).kind == "image"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_ids": ["a", "b", "a"]}, "'a' occurs more than once"),
        ({"sample_ids": ["a", "b"]}, "2 sample_ids for 3 samples"),
        ({"groups": ["a", None, "b"]}, "1 of 3 samples have no group"),
    ],
)
def test_units_that_cannot_be_told_are_refused(options, message):
    with pytest.raises(PermafrostError, match=message):
        find_units(3, **options)
