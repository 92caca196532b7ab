"""Prediction sets and AURC in score rows: values on resamples, intervals, warnings, what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.metrics import calibration
from permafrost.metrics.tasks import OF_SETS, metric_of
from permafrost.statistics.options import PredictionSetsOptions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.sets import FEW_TO_CALIBRATE, Sets
from permafrost.statistics.replicates.selective import Selection
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores

NAMES = {suffix: [metric.name for metric in metrics] for suffix, metrics in OF_SETS.items()}


def softmax(n=240, classes=6, sharpness=1.6, seed=0):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, classes))
    target = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    shares = np.exp(sharpness * logits)
    return target, (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


def votes(n=200, classes=4, seed=0):
    """Shares of five neighbours; the last class does not occur."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes - 1, n)
    chosen = np.where(rng.random((n, 5)) < 0.6, target[:, None], rng.integers(0, classes, (n, 5)))
    return target, np.stack([(chosen == one).mean(axis=1) for one in range(classes)], axis=1)


CASES = {"softmax": softmax(), "votes": votes()}


def predictions(target, scores, groups=None, task="classification"):
    answer = scores > 0.5 if task == "multilabel" else scores.argmax(axis=1)
    ids = [f"image {number:05}" for number in range(len(target))]
    classes = [f"class {number}" for number in range(scores.shape[1])]
    return LabelledSamples.from_arrays(
        ids, target, answer, scores, task=task, classes=classes, groups=groups
    )


def scored(one, sets=None, **options):
    judged = {"seed": 3} | ({} if sets is None else {"sets": sets})
    rows = bootstrap_scores(one, **{"seed": 0, "resamples": 50, **options}, calibration=judged)
    return {(row["metric"], row["class"]): row for row in rows}


def sets_of_units(one, **options):
    units = find_units(len(one), sample_ids=one.sample_ids, groups=one.groups)
    return Sets(one, units, PredictionSetsOptions(**options), 3), units


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_areas_on_resamples_are_those_of_repeated_rows(case, grouped):
    target, scores = CASES[case]
    units = np.random.default_rng(1).permutation(len(target)) % (30 if grouped else len(target))
    drawn = draw_resamples(int(units.max()) + 1, 20, 7)
    items = calibration.confidence(target, scores, task="classification")
    selection = Selection(*calibration.entries_of(items, "classification"), units)
    found = np.stack(selection.areas(drawn), axis=1)
    for place, counts in enumerate(drawn.counts.T.astype(int)):
        rows = np.repeat(np.arange(len(target)), counts[units])
        expected = calibration.aurc(target[rows], scores[rows], task="classification")
        np.testing.assert_allclose(found[place], expected, atol=1e-12)


def test_areas_in_parts_are_the_same(monkeypatch):
    target, scores = votes()
    labels = (np.eye(4)[target] > 0).astype(np.uint8)
    items = calibration.confidence(labels, scores, task="multilabel")
    selection = Selection(*calibration.entries_of(items, "multilabel"), np.arange(len(target)))
    drawn = draw_resamples(len(target), 70, 0)
    whole = np.stack(selection.areas(drawn))
    monkeypatch.setattr("permafrost.statistics.replicates.selective._SUMS_BYTES", 1)
    np.testing.assert_array_equal(np.stack(selection.areas(drawn)), whole)
    rows = np.repeat(np.arange(len(target)), drawn.counts[:, 0])
    expected = calibration.aurc(labels[rows], scores[rows], task="multilabel")
    np.testing.assert_allclose(whole[:, 0], expected, atol=1e-12)


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("case", CASES)
def test_values_are_means_over_items_of_sets_of_whole_units(case, score):
    target, scores = CASES[case]
    one = predictions(target, scores, [f"scene {number % 9}" for number in range(len(target))])
    found, units = sets_of_units(one, score=score, alpha=0.2, repeats=4)
    values = found.values
    assert list(values) == [name for names in NAMES.values() for name in names]
    # whole units are halved; for groups, the items of each
    whole = calibration.halves_of(np.zeros(9), 4, 3)[:, units.index]
    within = calibration.halves_of(units.index, 4, 3)
    ways = {"": (whole, None), "_by_class": (whole, "class"), "_by_group": (within, units.index)}
    for suffix, (halves, strata) in ways.items():
        sets = calibration.prediction_sets(
            one.target, one.scores, halves, strata=strata, alpha=0.2, kind=score
        )
        classes = range(len(one.classes))
        each = [sets.covered[one.target == y].mean() if y in target else np.nan for y in classes]
        expected = [*(x.mean() for x in (sets.covered, sets.size, sets.single)), np.nanmin(each)]
        names = NAMES[suffix]
        np.testing.assert_allclose([values[name] for name in names[:-1]], expected, atol=1e-12)
        np.testing.assert_allclose(values[names[-1]], each, atol=1e-12)
    # every group has items in both halves
    assert all({*within[0][units.index == one]} == {False, True} for one in range(9))


@pytest.mark.parametrize("case", CASES)
def test_coverage_on_resamples_is_that_of_repeated_items(case, monkeypatch):
    target, scores = CASES[case]
    one = predictions(target, scores, [f"scene {number % 31}" for number in range(len(target))])
    found, units = sets_of_units(one, alpha=0.2, repeats=3)
    drawn = draw_resamples(31, 40, 1)
    replicates = found.replicates(drawn)
    for suffix, names in NAMES.items():
        covered = found.found[suffix].covered
        for place, counts in enumerate(drawn.counts.T.astype(int)):
            rows = np.repeat(np.arange(len(target)), counts[units.index])
            assert replicates[names[0]][place] == pytest.approx(covered[rows].mean(), abs=1e-12)
            for y in range(len(one.classes)):
                of = rows[one.target[rows] == y]
                expected = covered[of].mean() if of.size else np.nan
                value = replicates[names[4]][y, place]
                assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)
            each = replicates[names[4]][:, place]
            assert replicates[names[3]][place] == np.nanmin(each)
    monkeypatch.setattr("permafrost.statistics.predictions.sets._WEIGHTS_BYTES", 1)
    again = found.replicates(drawn, [NAMES["_by_class"][4], NAMES[""][1]])
    assert list(again) == [NAMES[""][1], NAMES["_by_class"][4]]
    for name, value in again.items():
        np.testing.assert_allclose(value, replicates[name], atol=1e-12)


def test_intervals_of_set_sizes_hold_those_of_other_test_sets():
    """They include that other items give other thresholds; those of the same sets are far too narrow."""
    rows, fixed = {name: [] for suffix in ("", "_by_class") for name in NAMES[suffix][1:3]}, []
    for seed in range(60):
        one = predictions(*softmax(300, 4, seed=seed))
        found = scored(one, {"repeats": 4})
        for name, own in rows.items():
            own.append([found[name, None][key] for key in ("value", "lower", "upper")])
        sizes = sets_of_units(one, repeats=4)[0].found[""].size
        fixed.append(1.96 * sizes.std() / np.sqrt(300))
    for name, own in rows.items():
        value, lower, upper = np.array(own).T
        assert np.mean((lower <= value.mean()) & (value.mean() <= upper)) >= 0.87, name
    value = np.array(rows["set_size"])[:, 0]
    assert np.mean(np.abs(value - value.mean()) <= fixed) < 0.75


def test_the_slope_is_the_change_of_sizes_between_two_levels():
    target, scores = softmax(4000)
    halves = calibration.halves_of(np.zeros(4000), 2, 0)
    at = {
        alpha: calibration.prediction_sets(target, scores, halves, alpha=alpha)
        for alpha in (0.19, 0.2, 0.21)
    }
    gained = at[0.19].covered.mean() - at[0.21].covered.mean()
    sizes = at[0.19].size.mean() - at[0.21].size.mean()
    singles = at[0.19].single.mean() - at[0.21].single.mean()
    slopes = at[0.2].slopes[:, 0]
    assert slopes[0] == pytest.approx(sizes / gained, rel=0.1)
    assert slopes[1] == pytest.approx(singles / gained, rel=0.2)
    by_class = calibration.prediction_sets(target, scores, halves, strata="class", alpha=0.2)
    np.testing.assert_allclose(by_class.slopes[0].sum(), slopes[0], rtol=0.15)


def test_the_interval_of_the_worst_class_holds_for_all_classes_together():
    target, scores = softmax(600)
    # 12 images of a scene in each half are enough for a threshold
    one = predictions(target, scores, [f"scene {number % 25}" for number in range(600)])
    rows = scored(one, {})
    strict = scored(one, {}, confidence=1 - 0.05 / 6)
    for suffix, names in NAMES.items():
        each = [strict[names[4], name] for name in one.classes]
        worst = rows[names[3], None]
        assert worst["value"] == min(row["value"] for row in each), suffix
        for end in ("lower", "upper"):
            assert worst[end] == pytest.approx(min(row[end] for row in each), abs=1e-12)


def test_rows_are_added_and_no_other_row_changes():
    target, scores = softmax()
    for groups in (None, [f"scene {number % 31}" for number in range(240)]):
        one = predictions(target, scores, groups)
        without, given = scored(one), scored(one, {"alpha": 0.3})
        assert repr({key: given[key] for key in without}) == repr(without)
        added = {name for name, _ in given.keys() - without.keys()}
        suffixes = [suffix for suffix in NAMES if groups or suffix != "_by_group"]
        assert added == {name for suffix in suffixes for name in NAMES[suffix]}
        for (name, _), row in given.items():
            if name in added:
                assert not row["primary"]
                assert row["higher_is_better"] == (False if "set_size" in name else None)
                assert row["lower"] <= row["value"] <= row["upper"] + 1e-12
                assert row["method"] == ("jackknife_log" if "set_size" in name else "wilson")
    assert metric_of("set_size_by_class").words == "mean size of sets, by class"


def test_the_order_of_rows_changes_nothing():
    target, scores = votes()
    groups = np.array([f"scene {number % 17}" for number in range(len(target))])
    one = predictions(target, scores, groups)
    order = np.random.default_rng(0).permutation(len(target))
    shuffled = LabelledSamples.from_arrays(
        [f"image {number:05}" for number in order],
        target[order],
        scores.argmax(axis=1)[order],
        scores[order],
        task="classification",
        classes=one.classes,
        groups=groups[order],
    )
    assert repr(scored(one, {})) == repr(scored(shuffled, {}))


def test_thresholds_without_enough_items_are_counted():
    target, scores = softmax(120)
    # nine scenes of 8 images, and one of 48
    groups = [f"scene {min(number // 8, 9)}" for number in range(120)]
    rows = scored(predictions(target, scores, groups), {"repeats": 5})

    def few(name):
        flags = rows[name, None]["flags"]
        return [flag for flag in flags if flag.startswith(FEW_TO_CALIBRATE)]

    # of 8 images there are four in each half, and nine are needed
    assert few("set_size_by_group") == [f"{FEW_TO_CALIBRATE}:90 of 100"]
    # all six classes in 72 of 120 sets
    assert rows["set_size_by_group", None]["value"] > 0.6 * 6
    assert few("set_size") == []
    assert few("worst_class_set_coverage_by_class") == few("set_coverage_by_class") != []


def test_groups_of_which_none_has_a_threshold_have_no_rows():
    target, scores = softmax(120)
    # as copies of one image, which are units where no group is known
    groups = [f"scene {number}" if number < 4 else None for number in range(60)]
    rows = scored(predictions(target, scores, 2 * groups), {"repeats": 5})
    assert ("set_size", None) in rows
    assert not any(name.endswith("_by_group") for name, _ in rows)


@pytest.mark.parametrize("alpha", [0.02, 0.5])
def test_sizes_and_shares_are_possible(alpha):
    for target, scores in (*CASES.values(), softmax(60, sharpness=0.1)):
        groups = [f"scene {number % 30}" for number in range(len(target))]
        for given in (None, groups):
            one = predictions(target, scores, given)
            rows = scored(one, {"alpha": alpha, "score": "aps", "repeats": 3})
            for (name, _), row in rows.items():
                if "set_size" in name:
                    assert 0 <= row["lower"] <= row["value"] <= row["upper"] <= len(one.classes)
                if "set_singletons" in name:
                    assert 0 <= row["value"] <= 1
            found, units = sets_of_units(one, alpha=alpha, score="aps", repeats=3)
            for name, values in found.replicates(draw_resamples(units.count, 50, 0)).items():
                if "size" in name or "singletons" in name:
                    assert values.min() >= 0, name


def test_one_unit_has_no_halves():
    target, scores = softmax(100)
    alone = scored(predictions(target, scores, ["scene"] * 100), {})
    for suffix in ("", "_by_class"):
        for name in NAMES[suffix][:4]:
            assert np.isnan([alone[name, None][key] for key in ("value", "lower", "upper")]).all()
    assert np.isfinite(alone["set_size_by_group", None]["value"])
    single = scored(predictions(target[:1], scores[:1]), {})
    assert np.isnan(single["set_coverage", None]["value"])
    two = scored(predictions(target[:2], scores[:2]), {})
    assert two["set_size", None]["value"] == 6


def test_labels_have_no_sets_and_what_are_no_probabilities_is_refused():
    target, scores = softmax()
    labels = predictions(np.eye(6, dtype=np.uint8)[target], scores, task="multilabel")
    assert not any("set_" in name for name, _ in scored(labels, {}))
    with pytest.raises(PermafrostError, match="add up to 1"):
        scored(predictions(target, scores / 2), {})


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_other_intervals(method):
    rows = scored(predictions(*softmax()), {}, method=method)
    for name in [*NAMES[""][:4], "aurc", "excess_aurc"]:
        row = rows[name, None]
        assert row["method"] in (method, "percentile")
        assert row["lower"] < row["upper"]
