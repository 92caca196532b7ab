"""Replicates from sums of confusion matrices equal the metrics of the resampled images' pixels."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.labels import naive_t_test
from helpers.predictions.masks import masks, naive_replicates, predictions
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.statistics.replicates import pixels
from permafrost.statistics.resampling.intervals import bca_interval
from permafrost.statistics.resampling.resamples import Resamples, draw_resamples, iter_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores, gather
from permafrost.statistics.scores.compare import compare

GROUPS = ["a", "a", "b", "c", "c", "c", "c", "d", None, "e", "e", "a"]
CASES = [
    ({}, {}),
    ({"present": 3}, {"dead_classes": (4,)}),
    ({"present": 1, "skill": 1.0}, {}),
    ({"all_ignored": (0, 3, 4)}, {"groups": GROUPS}),
    ({}, {"groups": GROUPS, "boundary": True}),
    ({"n": 1}, {"boundary": True}),
    ({"skill": 0.0}, {"dead_classes": (0, 1, 2, 3)}),
]


def same(found: dict, expected: dict) -> None:
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12, err_msg=name)


def units_of(found):
    return find_units(len(found), sample_ids=found.sample_ids, groups=found.groups)


@pytest.mark.parametrize(("case", "options"), CASES)
def test_replicates_equal_the_metrics_of_resampled_pixels(case, options):
    found = predictions(case, **options)
    units = units_of(found)
    resamples = draw_resamples(units.count, 40, 7)
    expected = naive_replicates(
        *masks(**case),
        resamples.counts,
        units.index,
        classes=5,
        dead_classes=options.get("dead_classes", ()),
        ratio=0.05 if options.get("boundary") else None,
    )
    same(found.family(units.index).replicates(resamples), expected)


@pytest.mark.parametrize(("case", "options"), CASES)
def test_counts_of_one_give_the_value_of_the_whole_test_set(case, options):
    found = predictions(case, **options)
    units = units_of(found)
    once = Resamples.of(np.ones((units.count, 1), np.uint8))
    replicates = found.family(units.index).replicates(once)
    same({name: values[..., 0] for name, values in replicates.items()}, found.evaluate())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_replicates_of_any_small_test_set(data):
    n, classes = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    case = {
        "n": n,
        "size": 4,
        "classes": classes,
        "seed": data.draw(st.integers(0, 999)),
        "truth": data.draw(st.integers(0, 999)),
        "ignored": data.draw(st.sampled_from([0, 0.5])),
    }
    groups = [f"{data.draw(st.integers(0, 2))}" for _ in range(n)]
    found = predictions(case, groups=groups, classes=classes, boundary=True)
    units = units_of(found)
    resamples = draw_resamples(units.count, 9, case["seed"])
    expected = naive_replicates(
        *masks(**case), resamples.counts, units.index, classes=classes, ratio=0.05
    )
    same(found.family(units.index).replicates(resamples), expected)


def test_blocks_and_metrics_that_are_asked_for_change_nothing(monkeypatch):
    found = predictions({"n": 30}, boundary=True)
    units = np.arange(30)
    whole = found.family(units).replicates(draw_resamples(30, 150, 3))
    monkeypatch.setattr(pixels, "_FLOAT_BYTES", 1)
    same(gather(found.family(units), iter_resamples(30, 150, 3, block=64)), whole)
    one = found.family(units).replicates(draw_resamples(30, 150, 3), ["mean_iou"])
    assert list(one) == ["mean_iou"]
    assert np.array_equal(one["mean_iou"], whole["mean_iou"])


def test_sums_are_exact_where_doubles_are_not():
    sums = np.array([[(1 << 53) + 1, 2, 0], [0, 0, 0]])
    resamples = Resamples.of(np.array([[1, 3], [2, 0], [0, 0]], np.uint8))
    found = pixels.weighted_sums(sums, resamples)
    assert found.tolist() == [[(1 << 53) + 5, 3 * ((1 << 53) + 1)], [0, 0]]
    assert float((1 << 53) + 5) != (1 << 53) + 5, "the case is one that doubles cannot hold"


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_intervals_are_those_of_naive_replicates(method, groups):
    found = predictions(groups=groups, boundary=True)
    units = units_of(found)
    rows = bootstrap_scores(found, resamples=80, seed=5, method=method)
    counts = draw_resamples(units.count, 80, 5).counts
    naive, left_out = (
        naive_replicates(*masks(), some, units.index, classes=5, ratio=0.05)
        for some in (counts, 1 - np.eye(units.count, dtype=np.uint8))
    )
    value = found.evaluate()
    assert {row["method"] for row in rows} == {method}
    for row in rows:
        pick = ... if row["class"] is None else found.classes.index(row["class"])
        arrays = [value[row["metric"]], naive[row["metric"]], left_out[row["metric"]]]
        whole, drawn, without = (array[pick] for array in arrays)
        if method == "bca":
            expected = bca_interval(float(whole), drawn, without, 0.95)
        else:
            expected = np.percentile(drawn, [2.5, 97.5])
        assert row["value"] == pytest.approx(whole, abs=1e-12)
        assert [row["lower"], row["upper"]] == pytest.approx(expected, abs=1e-9)


def test_differences_of_backbones_equal_naive_differences_without_each_image():
    skills = {"good": 0.9, "fair": 0.7, "poor": 0.3}
    found = {name: predictions({"skill": skill}) for name, skill in skills.items()}
    rows = compare(found, resamples=60, seed=4)
    counts = 1 - np.eye(12, dtype=int)
    naive = {
        name: naive_replicates(*masks(skill=skill), counts, np.arange(12), classes=5)["mean_iou"]
        for name, skill in skills.items()
    }
    assert len(rows) == 3
    for row in rows:
        assert row["metric"] == "mean_iou"
        assert row["p_mcnemar"] is None
        without = naive[row["backbone_a"]] - naive[row["backbone_b"]]
        expected = naive_t_test(row["difference"], without)
        assert [row["lower"], row["upper"], row["p_value"]] == pytest.approx(expected, rel=1e-6)
