"""What a bootstrapped score row says, and how intervals are formed."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, single_label
from permafrost.core.errors import PermafrostError
from permafrost.metrics.tasks import class_metrics, overall_metrics
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.intervals import bca_interval, percentile_interval
from permafrost.statistics.scores import gates
from permafrost.statistics.scores.bootstrap import bootstrap_scores

NAMES = list("abcdef")


def labelled(arrays, task="classification", classes=None, sample_ids=None, groups=None):
    ids = [f"image {i:04}" for i in range(len(arrays[0]))] if sample_ids is None else sample_ids
    classes = classes or [f"class {i}" for i in range(np.shape(arrays[2])[1])]
    return LabelledSamples.from_arrays(ids, *arrays, task=task, classes=classes, groups=groups)


def scored(arrays, task="classification", classes=None, sample_ids=None, groups=None, **options):
    options = {"resamples": 200, "seed": 0, **options}
    found = labelled(arrays, task, classes, sample_ids, groups)
    return bootstrap_scores(found, **options)


def by_metric(rows):
    return {(row["metric"], row["class"]): row for row in rows}


def test_rows_hold_every_metric_overall_and_per_class():
    rows = by_metric(scored(single_label(), classes=NAMES))
    expected = [(name, None) for name in overall_metrics("classification", len(NAMES))]
    expected += [(metric, name) for metric in class_metrics("classification") for name in NAMES]
    assert set(rows) == set(expected) and len(expected) >= 6 + 2 * len(NAMES)
    assert [key for key, row in rows.items() if row["primary"]] == [("accuracy", None)]
    assert {row["n_units"] for row in rows.values()} == {200}
    assert {row["unit"] for row in rows.values()} == {"image"}


def test_rows_of_multi_label_predictions():
    rows = by_metric(scored(multi_label(), task="multilabel", classes=NAMES[:5]))
    assert list(rows)[:2] == [("micro_ap", None), ("macro_ap", None)]
    assert [name for metric, name in rows if metric == "average_precision"] == NAMES[:5]
    assert [key for key, row in rows.items() if row["primary"]] == [("micro_ap", None)]


@pytest.mark.parametrize("method", ["auto", "percentile", "bca"])
def test_the_order_of_rows_changes_nothing(method):
    arrays = single_label(ties=True)
    ids = [f"image {i:03}" for i in range(200)]
    groups = [f"scene {i % 23}" for i in range(200)]
    order = np.random.default_rng(0).permutation(200)
    shuffled = scored(
        [array[order] for array in arrays],
        sample_ids=[ids[i] for i in order],
        groups=[groups[i] for i in order],
        method=method,
    )
    assert shuffled == scored(arrays, sample_ids=ids, groups=groups, method=method)
    assert shuffled[0]["unit"] == "group"
    assert shuffled[0]["n_units"] == 23


def test_two_backbones_are_scored_on_the_same_resamples():
    target, prediction, scores = single_label()
    # right where the other is wrong: on the same resamples the intervals mirror each other
    opposite = np.where(prediction == target, (target + 1) % 6, target)
    first = scored((target, prediction, scores))[0]
    second = scored((target, opposite, scores))[0]
    assert second["lower"] == pytest.approx(1 - first["upper"], abs=1e-12)
    assert second["upper"] == pytest.approx(1 - first["lower"], abs=1e-12)


def test_groups_widen_the_interval_when_errors_come_in_groups():
    rng = np.random.default_rng(0)
    scene = np.repeat(np.arange(20), 20)
    target = np.zeros(400, int)
    prediction = (rng.random(20) < 0.3).astype(int)[scene]
    scores = np.eye(2)[prediction]
    images = scored((target, prediction, scores))[0]
    groups = scored((target, prediction, scores), groups=scene.astype(str))[0]
    assert groups["value"] == images["value"]
    assert groups["upper"] - groups["lower"] > 2 * (images["upper"] - images["lower"])


def test_undefined_metrics_are_nan_and_counted():
    target, prediction, scores = single_label(present=3, skill=5.0)
    row = by_metric(scored((target, prediction, scores), classes=NAMES))["recall", "f"]
    assert math.isnan(row["value"])
    assert math.isnan(row["lower"])
    assert row["n_undefined"] == row["resamples"] == 200


def test_a_class_with_one_sample_is_undefined_on_about_a_third_of_resamples():
    target, prediction, scores = single_label(present=3, n=300)
    target[17] = 5
    arrays = (target, prediction, scores)
    rows = by_metric(scored(arrays, classes=NAMES, resamples=2000, method="percentile"))
    share = rows["recall", "f"]["n_undefined"] / 2000
    assert share == pytest.approx(math.exp(-1), abs=0.04)


def test_a_perfect_backbone_has_an_interval_without_width():
    target, prediction, scores = single_label(skill=5.0)
    row = scored((target, prediction, scores), method="bca")[0]
    assert (row["value"], row["lower"], row["upper"]) == (1, 1, 1)
    # BCa does not exist there, and the row says what was done instead
    assert row["method"] == "percentile"


def test_accuracy_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(3)
    covered = 0
    for seed in range(300):
        hit = rng.random(150) < 0.8
        prediction = np.where(hit, 0, 1)
        row = scored((np.zeros(150, int), prediction, np.eye(2)[prediction]), seed=seed)[0]
        covered += row["lower"] <= 0.8 <= row["upper"]
    assert 0.90 <= covered / 300 <= 0.98


@pytest.mark.parametrize("right_or_wrong", [False, True])
def test_bca_agrees_with_scipy(right_or_wrong):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    # right or wrong gives means that often equal the value exactly, and those count half
    values = (rng.random(40) < 0.2).astype(float) if right_or_wrong else rng.lognormal(size=40)
    result = stats.bootstrap(
        (values,), np.mean, n_resamples=3000, method="BCa", rng=np.random.default_rng(1)
    )
    jackknife = np.array([np.delete(values, i).mean() for i in range(40)])
    found = bca_interval(values.mean(), result.bootstrap_distribution, jackknife, 0.95)
    expected = (result.confidence_interval.low, result.confidence_interval.high)
    assert found == pytest.approx(expected, abs=1e-10)
    plain = percentile_interval(result.bootstrap_distribution, 0.95)
    assert found[1] > plain[1], "a skewed statistic moves the interval to the right"


def test_bca_of_a_score_differs_from_percentile_and_keeps_the_value():
    arrays = multi_label(n=60)
    plain = scored(arrays, task="multilabel", resamples=1000, method="percentile")[0]
    better = scored(arrays, task="multilabel", resamples=1000, method="bca")[0]
    assert better["method"] == "bca"
    assert better["value"] == plain["value"]
    assert better["lower"] != plain["lower"]


def test_one_unit_alone_says_nothing_about_spread():
    row = scored(single_label(), groups=["one scene"] * 200, method="bca")[0]
    assert row["lower"] == row["upper"] == row["value"]
    assert row["method"] == "percentile"
    assert row["n_units"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "percentil"}, "did you mean 'percentile'"),
        ({"confidence": 95}, "not between 0 and 1"),
        ({"resamples": 0}, "cannot draw 0"),
        ({"task": "classificaton"}, "did you mean 'classification'"),
        ({"classes": ["a", "b"]}, "2 classes"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(PermafrostError, match=message):
        scored(single_label(), **options)


def test_gates_speak_of_chance_single_predictions_and_absent_classes():
    target, _, scores = single_label(n=400, present=5)
    prediction = np.full(400, 3)
    arrays = (target, prediction, scores)
    found = gates.score_gates(labelled(arrays), scored(arrays))
    assert found[-2:] == ["one_class_predictions", "class_missing_in_test:5"]


def test_gate_below_chance_needs_the_whole_interval_below_the_majority_share():
    target = np.array([0] * 70 + [1] * 30)
    wrong = np.where(np.arange(100) < 60, 1 - target, target)
    assert gates.chance_level(target, "classification") == 0.7
    for prediction, expected in ((wrong, ["below_chance"]), (np.zeros(100, int), [])):
        rows = scored((target, prediction, np.eye(2)[prediction]))
        assert gates.below_chance(target, rows, "classification") == expected


def test_nothing_is_above_chance_in_a_test_set_of_one_class():
    target = np.zeros(50, int)
    rows = scored((target, target, np.eye(2)[target]))
    assert gates.below_chance(target, rows, "classification") == ["below_chance"]


def test_gates_of_multi_label_predictions():
    target, _, scores = multi_label(without_positives=(2,))
    arrays = (target, np.ones_like(target), -scores)
    rows = scored(arrays, task="multilabel")
    assert gates.score_gates(labelled(arrays, "multilabel"), rows) == [
        "below_chance",
        "one_class_predictions",
        "class_missing_in_test:2",
    ]
    rows = scored((target, target, scores), task="multilabel")
    assert gates.below_chance(target, rows, "multilabel") == []


def test_a_gate_says_that_the_interval_of_a_single_unit_means_nothing():
    arrays = single_label()
    alone = labelled(arrays, groups=["scene"] * 200)
    assert "one_unit" in gates.score_gates(alone, bootstrap_scores(alone, seed=0))
    assert gates.one_unit(scored(arrays, groups=["scene", "other"] * 100)) == []


def test_no_gate_for_constant_predictions_of_a_constant_target():
    assert gates.one_class_predictions(np.ones(9, int), np.ones(9, int), "classification") == []


def test_statistics_import_nothing_heavy():
    code = (
        "import sys, permafrost.statistics.scores.compare, permafrost.statistics.across_datasets.standings_table,"
        " permafrost.statistics.scores.gates, permafrost.statistics.scores.bootstrap;"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
