"""Paired comparisons: the same resamples for all, honest p-values, refusal of unlike test sets."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from helpers.predictions.labels import multi_label, naive_replicates, naive_t_test, single_label
from permafrost.core.errors import PermafrostError
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.resampling.p_values import bootstrap_p_value, mcnemar_p_value
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare

NAMES = list("abcdef")
IDS = np.array([f"image {i:04}" for i in range(200)])


def predictions(arrays, task="classification", ids=IDS, **options):
    classes = NAMES[: arrays[2].shape[1]]
    return LabelledSamples.from_arrays(ids, *arrays, task=task, classes=classes, **options)


def backbones(skills=(0.2, 0.5, 0.9)):
    """Backbones of different skill on one test set."""
    target = single_label()[0]
    found = {}
    for number, skill in enumerate(skills):
        scores = np.random.default_rng(number).random((200, 6)).astype(np.float32)
        scores[np.arange(200), target] += skill
        found[f"backbone {number}"] = predictions((target, scores.argmax(axis=1), scores))
    return found


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "balanced_accuracy", "top5_accuracy"])
def test_differences_equal_naive_ones_without_each_image(metric):
    found = backbones()
    rows = compare(found, metric=metric, resamples=40, seed=4)
    left = {
        name: naive_replicates(
            (p.target, p.prediction, p.scores),
            1 - np.eye(200, dtype=int),
            np.arange(200),
            task=p.task,
            classes=6,
        )[metric]
        for name, p in found.items()
    }
    pairs = [(row["backbone_a"], row["backbone_b"]) for row in rows]
    assert pairs == list(itertools.combinations(sorted(found), 2))
    for row in rows:
        without = left[row["backbone_a"]] - left[row["backbone_b"]]
        expected = naive_t_test(row["difference"], without)
        assert [row["lower"], row["upper"], row["p_value"]] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("groups", [None, [f"scene {i % 9}" for i in range(200)]])
def test_a_p_value_is_below_5_percent_where_the_interval_leaves_0_out(groups):
    rng = np.random.default_rng(0)
    target = single_label()[0]
    found = {}
    for number in range(12):
        guess = np.where(rng.random(200) < 0.5 + 0.03 * number, target, (target + 1) % 6)
        arrays = (target, guess, np.eye(6, dtype=np.float32)[guess])
        found[f"{number:02}"] = predictions(arrays, groups=groups)
    rows = compare(found, resamples=50, seed=0)
    leaves_out = [row["lower"] > 0 or row["upper"] < 0 for row in rows]
    assert [row["p_value"] <= 0.05 for row in rows] == leaves_out
    assert 0 < sum(leaves_out) < len(rows)


def test_pairing_is_tighter_than_two_separate_intervals():
    target, prediction, scores = single_label()
    better = prediction.copy()
    better[:10] = target[:10]
    found = {
        "a": predictions((target, prediction, scores)),
        "b": predictions((target, better, scores)),
    }
    row = compare(found, seed=0)[0]
    single = bootstrap_scores(found["a"], seed=0)[0]
    assert row["upper"] - row["lower"] < (single["upper"] - single["lower"]) / 2


def test_multi_label_backbones_are_compared_on_micro_ap_by_default():
    target, prediction, scores = multi_label(n=200)
    noisy = scores + np.random.default_rng(0).normal(0, 0.5, scores.shape)
    found = {
        "good": predictions((target, prediction, scores), task="multilabel"),
        "noisy": predictions((target, prediction, noisy), task="multilabel"),
    }
    row = compare(found, seed=0)[0]
    assert row["metric"] == "micro_ap"
    assert row["lower"] > 0
    assert row["p_value"] < 0.001
    assert row["p_mcnemar"] is None


def test_equal_backbones_do_not_differ_and_the_interval_has_the_exact_width():
    arrays = single_label()
    row = compare({"a": predictions(arrays), "b": predictions(arrays)}, seed=0)[0]
    most = scipy.stats.binomtest(0, 200).proportion_ci(0.95, "exact").high
    assert [row["lower"], row["difference"], row["upper"]] == pytest.approx([-most, 0, most])
    assert (row["p_value"], row["p_adjusted"], row["p_mcnemar"]) == (1, 1, 1)


def test_p_values_of_equally_good_backbones_are_not_too_small():
    rng = np.random.default_rng(0)
    small = 0
    for seed in range(100):
        # right and wrong as 0 and 1: the two differ by chance only
        rows = {
            name: predictions(
                (np.zeros(200, int), drawn, np.eye(2)[drawn]),
            )
            for name, drawn in zip("ab", (rng.random((2, 200)) < 0.3).astype(int), strict=True)
        }
        # the single p-value rests on no resample
        small += compare(rows, resamples=20, seed=seed)[0]["p_value"] <= 0.05
    assert small / 100 <= 0.10


def test_groups_are_the_unit_and_silence_mcnemar():
    groups = [f"scene {i % 11}" for i in range(200)]
    target, prediction, scores = single_label()
    found = {
        name: predictions((target, guess, scores), groups=groups)
        for name, guess in (("a", prediction), ("b", scores[:, ::-1].argmax(axis=1)))
    }
    row = compare(found, seed=0)[0]
    assert (row["unit"], row["n_units"], row["p_mcnemar"]) == ("group", 11, None)


def test_row_order_does_not_matter():
    target, prediction, scores = single_label()
    other = scores[:, ::-1].argmax(axis=1)
    order = np.random.default_rng(0).permutation(200)
    shuffled = predictions((target[order], other[order], scores[order]), ids=IDS[order])
    plain = predictions((target, prediction, scores))
    assert compare({"a": plain, "b": shuffled}, seed=0) == compare(
        {"a": plain, "b": predictions((target, other, scores))}, seed=0
    )


def _changed(what):
    target, prediction, scores = single_label()
    ids, groups, options = IDS.copy(), None, {}
    if what == "targets":
        target = target.copy()
        target[3] = (target[3] + 1) % 6
    elif what == "samples":
        ids[0] = "image 9999"
    elif what == "count":
        ids, target, prediction, scores = ids[1:], target[1:], prediction[1:], scores[1:]
    elif what == "groups":
        groups = ["one scene"] * 200
    elif what == "classes":
        scores = scores[:, :5]
        target, prediction = np.minimum(target, 4), np.minimum(prediction, 4)
    return predictions((target, prediction, scores), ids=ids, groups=groups, **options)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("targets", "targets .first for the sample image 0003"),
        ("samples", "test samples .2 are in one only, the first is image 0000"),
        ("count", "test samples .1 are"),
        ("groups", "groups"),
        ("classes", "tasks or classes"),
    ],
)
def test_backbones_of_different_test_sets_are_refused_by_name(what, message):
    found = {"resnet": predictions(single_label()), "vit": _changed(what)}
    with pytest.raises(PermafrostError, match=f"'resnet' and 'vit'.*different {message}"):
        compare(found, seed=0)


def test_an_unknown_metric_is_refused():
    with pytest.raises(PermafrostError, match="did you mean 'accuracy'"):
        compare(backbones(), metric="acuracy", seed=0)


def test_fewer_than_two_backbones_give_no_rows():
    assert compare({}, seed=0) == []
    assert compare({"a": predictions(single_label())}, seed=0) == []


def test_bootstrap_p_value_by_hand():
    assert bootstrap_p_value(np.array([0.1, 0.2, -0.1, 0.3])) == pytest.approx(2 * 2 / 5)
    assert bootstrap_p_value(np.array([0.1, np.nan, 0.2])) == pytest.approx(2 / 3)
    assert bootstrap_p_value(np.zeros(50)) == 1
    assert np.isnan(bootstrap_p_value(np.array([np.nan])))


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (5, 0), (3, 9), (40, 41), (900, 1100)])
def test_mcnemar_equals_the_exact_binomial_test(only_a, only_b):
    stats = pytest.importorskip("scipy.stats")
    expected = 1 if only_a + only_b == 0 else stats.binomtest(only_a, only_a + only_b).pvalue
    assert mcnemar_p_value(only_a, only_b) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_predictions_read_from_a_table_are_those_that_were_written(task):
    arrays = single_label() if task == "classification" else multi_label(n=200)
    order = np.random.default_rng(0).permutation(200)
    groups = [None if i % 2 else f"scene {i}" for i in range(200)]
    columns = {
        "sample_id": pa.array(IDS[order]),
        "group_id": pa.array([groups[i] for i in order], pa.string()),
    }
    for name, array in zip(("target", "prediction", "scores"), arrays, strict=True):
        array = array[order]
        if array.ndim == 2:
            columns[name] = pa.FixedSizeListArray.from_arrays(
                pa.array(array.ravel()), array.shape[1]
            )
        else:
            columns[name] = pa.array(array)
    # more than one chunk, and one that does not start at its buffer's beginning
    table = pa.concat_tables([pa.table(columns).slice(0, 90), pa.table(columns).slice(90)])
    classes = NAMES[: arrays[2].shape[1]]
    found = predictions_from_table(table, {"task": task, "classes": classes})
    expected = predictions(arrays, task=task, groups=groups)
    for name in ("sample_ids", "groups", "target", "prediction", "scores"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.classes == classes


def test_tables_with_missing_columns_or_entries_are_refused():
    table = pa.table(
        {"sample_id": ["a"], "target": [0], "prediction": pa.array([None], pa.int32())}
    )
    metadata = {"task": "classification", "classes": ["x"]}
    with pytest.raises(PermafrostError, match="lacks the columns scores"):
        predictions_from_table(table, metadata)
    scores = pa.FixedSizeListArray.from_arrays(pa.array([1.0]), 1)
    with pytest.raises(PermafrostError, match="'prediction' .* empty entries"):
        predictions_from_table(table.append_column("scores", scores), metadata)


def test_backbones_cannot_be_told_apart_on_a_single_unit():
    """However often it is drawn: the difference is the same each time, which must not look certain."""
    target = single_label()[0]
    right = np.eye(6, dtype=np.float32)[target]
    found = {
        name: predictions((target, scores.argmax(axis=1), scores), groups=["scene"] * 200)
        for name, scores in (("good", right), ("poor", np.roll(right, 1, axis=1)))
    }
    (row,) = compare(found, resamples=50, seed=0)
    assert row["difference"] == 1 and row["n_units"] == 1
    assert np.isnan([row["p_value"], row["p_adjusted"]]).all()
