"""Replicates from sufficient statistics equal the metric evaluated on the resampled rows."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, naive_replicates, single_label
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.metrics.classification import evaluate
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.replicates import rankings, totals
from permafrost.statistics.replicates.families import make_family
from permafrost.statistics.resampling.resamples import Resamples, draw_resamples, iter_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores, gather

UNEQUAL_GROUPS = {"groups": 9}
CASES = [
    ("classification", single_label, {}, {}),
    ("classification", single_label, {"ties": True, "classes": 12}, {}),
    ("classification", single_label, {"present": 2, "skill": 0.0}, {}),
    ("classification", single_label, {"present": 1, "skill": 9.0}, {}),
    ("classification", single_label, {"n": 1}, {}),
    ("classification", single_label, {"n": 40, "classes": 20}, UNEQUAL_GROUPS),
    ("classification", single_label, {"n": 3000, "skill": 0.1}, UNEQUAL_GROUPS),
    ("multilabel", multi_label, {}, {}),
    ("multilabel", multi_label, {"ties": True}, {}),
    ("multilabel", multi_label, {"ties": True, "n": 1500}, {}),
    ("multilabel", multi_label, {"n": 15, "share": 0.05}, {}),
    ("multilabel", multi_label, {"without_positives": (0, 3)}, UNEQUAL_GROUPS),
    ("multilabel", multi_label, {"without_positives": range(5)}, {}),
    ("multilabel", multi_label, {"n": 1}, {}),
]


def _units(n: int, groups: int | None) -> np.ndarray:
    if groups is None:
        return np.random.default_rng(5).permutation(n)
    # sizes in the proportion 1 : 2 : ... : groups, every group at least once
    draws = np.random.default_rng(5).choice(
        groups, n - groups, p=np.arange(1, groups + 1) / sum(range(groups + 1))
    )
    return np.concatenate((np.arange(groups), draws))


def _same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("task", "make", "case", "options"), CASES)
def test_replicates_equal_the_metric_on_resampled_rows(task, make, case, options):
    arrays = make(**case)
    classes, n = arrays[2].shape[1], len(arrays[0])
    units = _units(n, options.get("groups"))
    resamples = draw_resamples(int(units.max()) + 1, 30, 7)
    family = make_family(*arrays, task=task, classes=classes, units=units)
    expected = naive_replicates(arrays, resamples.counts, units, task=task, classes=classes)
    _same(family.replicates(resamples), expected)


@pytest.mark.parametrize(("task", "make", "case", "options"), CASES)
def test_counts_of_one_give_the_value_of_the_whole_test_set(task, make, case, options):
    arrays = make(**case)
    classes, n = arrays[2].shape[1], len(arrays[0])
    family = make_family(*arrays, task=task, classes=classes, units=np.arange(n))
    found = family.replicates(Resamples.of(np.ones((n, 1), np.uint8)))
    whole = evaluate(*arrays, task=task, classes=classes)
    _same({name: values[..., 0] for name, values in found.items()}, whole)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_replicates_of_any_small_test_set(data):
    n = data.draw(st.integers(1, 12))
    classes = data.draw(st.integers(1, 7))
    task = data.draw(st.sampled_from(["classification", "multilabel"]))
    seed = data.draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (n, classes)) / np.float32(3)
    if task == "multilabel":
        target = rng.integers(0, 2, (n, classes))
        arrays = (target, target, scores)
    else:
        arrays = (rng.integers(0, classes, n), scores.argmax(axis=1), scores)
    units = np.unique(rng.integers(0, data.draw(st.integers(1, n)), n), return_inverse=True)[1]
    resamples = draw_resamples(int(units.max()) + 1, 9, seed)
    family = make_family(*arrays, task=task, classes=classes, units=units)
    _same(
        family.replicates(resamples),
        naive_replicates(arrays, resamples.counts, units, task=task, classes=classes),
    )


@pytest.mark.parametrize("make_case", [single_label, multi_label])
def test_blocks_and_cuts_change_nothing(make_case, monkeypatch):
    task = "classification" if make_case is single_label else "multilabel"
    arrays = make_case(n=300, ties=True)
    classes, n = arrays[2].shape[1], len(arrays[0])
    whole = make_family(*arrays, task=task, classes=classes, units=np.arange(n)).replicates(
        draw_resamples(n, 150, 3)
    )
    monkeypatch.setattr(totals, "_GATHER_BYTES", 100)
    monkeypatch.setattr(rankings, "_TOTALS_BYTES", 1)
    family = make_family(*arrays, task=task, classes=classes, units=np.arange(n))
    _same(gather(family, iter_resamples(n, 150, 3, block=64)), whole)


@pytest.mark.parametrize(
    ("metric", "oracle", "of_scores"),
    [("micro_f1", "f1_score", False), ("micro_ap", "average_precision_score", True)],
)
def test_pooled_metrics_of_labels_equal_sklearn_on_resampled_rows(metric, oracle, of_scores):
    oracle = getattr(pytest.importorskip("sklearn.metrics"), oracle)
    target, prediction, scores = multi_label(n=200, ties=True)
    resamples = draw_resamples(200, 20, 11)
    family = make_family(
        target, prediction, scores, task="multilabel", classes=5, units=np.arange(200)
    )
    judged = scores if of_scores else prediction
    expected = [
        oracle(np.repeat(target, draw, axis=0), np.repeat(judged, draw, axis=0), average="micro")
        for draw in resamples.counts.T.astype(int)
    ]
    found = family.replicates(resamples, [metric])
    assert list(found) == [metric]
    np.testing.assert_allclose(found[metric], expected, rtol=0, atol=1e-12)


def test_the_interval_is_the_percentile_of_naive_replicates():
    arrays = single_label(n=60, classes=12)
    predictions = LabelledSamples.from_arrays(
        [f"{i:02}" for i in range(60)], *arrays, task="classification", classes="abcdefghijkl"
    )
    rows = bootstrap_scores(predictions, resamples=80, seed=5, method="percentile")
    resamples = draw_resamples(60, 80, 5)
    units = find_units(60, sample_ids=predictions.sample_ids).index
    naive = naive_replicates(arrays, resamples.counts, units, task="classification", classes=12)
    assert any(row["n_undefined"] for row in rows)
    for row in rows:
        values = naive[row["metric"]]
        values = values if row["class"] is None else values["abcdefghijkl".index(row["class"])]
        assert row["n_undefined"] == np.isnan(values).sum()
        expected = np.percentile(values[~np.isnan(values)], [2.5, 97.5])
        assert [row["lower"], row["upper"]] == pytest.approx(expected, abs=1e-12)
