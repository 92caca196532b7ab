"""Calibration in score rows and comparisons: values on resamples, intervals, flags, what stays as it was."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers.predictions.masks import predictions as masks
from permafrost.core.errors import PermafrostError
from permafrost.metrics import calibration
from permafrost.metrics.tasks import CALIBRATION, CALIBRATION_ERRORS, SCALED, TEMPERATURE
from permafrost.statistics.across_datasets.ranks import add_ranks
from permafrost.statistics.predictions.calibration import (
    AT_BOUND,
    FEW_ERRORS,
    FLAT,
    SPARSE_BINS,
    UNDEFINED,
    Calibration,
    CalibrationOptions,
)
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.intervals import (
    basic_square_interval,
    expanded,
    percentile_interval,
    reflected_square,
)
from permafrost.statistics.resampling.p_values import bootstrap_p_value
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare

OPTIONS = {"bins": 15, "folds": 5, "floor": None, "seed": 3}


def softmax(n=240, classes=6, sharpness=1.6, seed=0):
    """Targets, predictions and float32 probabilities that are too sure where sharpness is above 1."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, classes))
    target = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    shares = np.exp(sharpness * logits)
    scores = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    return target, scores.argmax(axis=1), scores


def sigmoid(n=150, labels=5, sharpness=1.6, seed=0):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, labels))
    target = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.uint8)
    scores = (1 / (1 + np.exp(-sharpness * logits))).astype(np.float32)
    return target, (scores > 0.5).astype(np.uint8), scores


def votes(n=200, classes=4, k=5, seed=0):
    """Shares of k neighbours: many are equal, lie on the edges of bins, or are 0 and 1."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, n)
    chosen = np.where(rng.random((n, k)) < 0.6, target[:, None], rng.integers(0, classes, (n, k)))
    scores = np.stack([(chosen == one).mean(axis=1) for one in range(classes)], axis=1)
    scores = scores.astype(np.float32)
    return target, scores.argmax(axis=1), scores


CASES = {
    "softmax": ("classification", softmax()),
    "votes": ("classification", votes()),
    "sigmoid": ("multilabel", sigmoid()),
    "votes of labels": ("multilabel", (np.eye(4, dtype=np.uint8)[votes()[0]], None, votes()[2])),
}
GROUPS = {"images": None, "unequal groups": [3, 1, 7, 2, 40]}


def units_of(n, sizes):
    if sizes is None:
        return np.random.default_rng(1).permutation(n)
    return np.random.default_rng(1).choice(len(sizes), n, p=np.array(sizes) / sum(sizes))


def predictions(arrays, task="classification", **options):
    ids = [f"image {number:04}" for number in range(len(arrays[0]))]
    classes = [f"class {number}" for number in range(arrays[2].shape[1])]
    target, answer, scores = arrays
    answer = scores > 0.5 if answer is None else answer
    return LabelledSamples.from_arrays(
        ids, target, answer, scores, task=task, classes=classes, **options
    )


def scored(arrays, task="classification", groups=None, judged=OPTIONS, **options):
    found = predictions(arrays, task, groups=groups)
    rows = bootstrap_scores(found, **{"seed": 0, "resamples": 100, **options}, calibration=judged)
    return {(row["metric"], row["class"]): row for row in rows}


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("case", CASES)
def test_replicates_equal_the_metric_on_resampled_rows(case, groups):
    task, (target, _, scores) = CASES[case]
    units = units_of(len(target), GROUPS[groups])
    judged = Calibration(
        target, scores, units, task=task, options=CalibrationOptions(**{**OPTIONS, "floor": 0.01})
    )
    drawn = draw_resamples(int(units.max()) + 1, 20, 7)
    found = judged.replicates(drawn)
    assert list(found) == list(CALIBRATION)
    scaled = calibration.cross_fit(
        target, scores, task=task, units=units, folds=5, seed=3, floor=0.01
    )
    for suffix, given in (("", scores), (SCALED, scaled.scores)):
        whole = calibration.evaluate(target, given, task=task)
        for name, value in whole.items():
            assert judged.values[name + suffix] == pytest.approx(value, abs=1e-12)
        for place, counts in enumerate(drawn.counts.T.astype(int)):
            rows = np.repeat(np.arange(len(target)), counts[units])
            for name, value in calibration.evaluate(target[rows], given[rows], task=task).items():
                assert found[name + suffix][place] == pytest.approx(value, abs=1e-9), name
            if not suffix:
                areas = calibration.aurc(target[rows], scores[rows], task=task)
                assert (found["aurc"][place], found["excess_aurc"][place]) == pytest.approx(areas)


@pytest.mark.parametrize("case", ["softmax", "sigmoid"])
def test_temperatures_on_resamples_are_those_fitted_there(case):
    task, (target, _, scores) = CASES[case]
    units = units_of(len(target), None)
    judged = Calibration(target, scores, units, task=task, options=CalibrationOptions(**OPTIONS))
    drawn = draw_resamples(len(target), 60, 5)
    found = judged.replicates(drawn, [TEMPERATURE])[TEMPERATURE]
    exact = []
    for counts in drawn.counts.T.astype(int):
        rows = np.repeat(np.arange(len(target)), counts[units])
        exact.append(calibration.fit_temperature(target[rows], scores[rows], task=task).value)
    assert np.std(exact) > 0.02
    np.testing.assert_allclose(found, exact, atol=0.05 * np.std(exact))
    whole = calibration.fit_temperature(target, scores, task=task)
    assert judged.values[TEMPERATURE] == whole.value > 1.2


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("case", CASES)
def test_rows_of_other_metrics_stay_as_they_are_to_the_last_bit(case, method):
    task, arrays = CASES[case]
    groups = [f"scene {number % 31}" for number in range(len(arrays[0]))]
    without = scored(arrays, task, groups, None, method=method)
    given = scored(arrays, task, groups, method=method)
    assert list(given) == [*without, *((name, None) for name in CALIBRATION)]
    assert repr({key: given[key] for key in without}) == repr(without)


def test_rows_say_how_their_intervals_were_formed():
    rows = scored(softmax())
    kinds = {name: rows[name, None]["method"] for name in CALIBRATION}
    gaps = {name for name in CALIBRATION if name.startswith(CALIBRATION_ERRORS)}
    assert len(gaps) == 6
    assert kinds == {
        name: "basic_square"
        if name in gaps
        else "wilson"
        if name.endswith("aurc")
        else "jackknife_log"
        for name in CALIBRATION
    }
    bca = scored(softmax(), method="bca")
    assert {name: bca[name, None]["method"] for name in ("brier_score", TEMPERATURE)} == {
        "brier_score": "bca",
        TEMPERATURE: "bca",
    }
    name = "expected_calibration_error"
    assert bca[name, None] == scored(softmax(), method="percentile")[name, None]
    assert {rows[name, None]["higher_is_better"] for name in gaps | {"brier_score"}} == {False}
    assert rows[TEMPERATURE, None]["higher_is_better"] is None
    assert not any(rows[name, None]["primary"] for name in CALIBRATION)
    assert rows[TEMPERATURE, None]["lower"] < rows[TEMPERATURE, None]["value"]
    assert rows[TEMPERATURE, None]["upper"] > rows[TEMPERATURE, None]["value"]


def test_scaling_repairs_what_is_too_sure():
    rows = scored(softmax(2000, sharpness=3.0))
    before, after = (
        rows[f"expected_calibration_error{end}", None]["value"] for end in ("", SCALED)
    )
    assert after < before / 3
    assert rows[f"brier_score{SCALED}", None]["value"] < rows["brier_score", None]["value"]
    assert rows[TEMPERATURE, None]["value"] == pytest.approx(3.0, rel=0.15)


def test_mirrored_squares_hold_the_truth_where_percentiles_do_not():
    """Probabilities that are right: their calibration error is 0 but for the width of a bin."""
    held = {"percentile": 0, "basic_square": 0}
    for seed in range(100):
        target, _, scores = softmax(300, sharpness=1.0, seed=seed)
        judged = Calibration(
            target,
            scores,
            np.arange(300),
            task="classification",
            options=CalibrationOptions(bins=15),
        )
        name = "expected_calibration_error"
        value = judged.evaluate([name])[name]
        drawn = judged.replicates(draw_resamples(300, 100, seed), [name])[name]
        for kind, (low, _) in {
            "percentile": percentile_interval(drawn, 0.95),
            "basic_square": basic_square_interval(value, drawn, 0.95),
        }.items():
            held[kind] += low <= 0.002
    assert held["percentile"] == 0
    assert held["basic_square"] >= 90


def nearly_perfect(n, wrong, groups=None):
    """Sure answers of which the first few are wrong; groups of ten follow one another."""
    target = np.arange(n) % 3
    answer = np.where(np.arange(n) < wrong, (target + 1) % 3, target)
    scores = np.full((n, 3), 0.01, np.float32) + 0.97 * np.eye(3, dtype=np.float32)[answer]
    names = None if groups is None else [f"{number * groups // n}" for number in range(n)]
    return scored((target, answer, scores), groups=names)


def test_few_errors_are_said_where_fewer_than_five_units_hold_one():
    for wrong, groups, few in [(4, None, True), (5, None, False), (40, 10, True), (50, 10, False)]:
        rows = nearly_perfect(100, wrong, groups)
        for name in CALIBRATION:
            said = f"{FEW_ERRORS}:{wrong} of 100" in rows[name, None]["flags"]
            assert said == (few and (name != "brier_score" or groups is not None)), (name, wrong)
        assert not any(one for one in rows["accuracy", None].get("flags", ()))


def test_errors_that_nobody_saw_are_in_the_interval():
    """The share of items that may yet be wrong is that of the exact interval of an accuracy of 1."""
    rows = nearly_perfect(100, 0)
    unseen = 1 - 0.025 ** (1 / 100)
    brier, error = rows["brier_score", None], rows["expected_calibration_error", None]
    assert brier["value"] == pytest.approx(0.0006, rel=1e-4)
    assert error["value"] == pytest.approx(0.02, rel=1e-4)
    assert brier["upper"] == pytest.approx(brier["value"] + unseen * (2 - brier["value"]))
    assert error["upper"] == pytest.approx(error["value"] + unseen * (1 - error["value"]))
    assert error["lower"] == 0 < error["value"] < unseen
    # the unseen errors may be the most certain answers
    for name in ("aurc", "excess_aurc"):
        row = rows[name, None]
        assert (row["value"], row["lower"]) == (0, 0)
        assert row["upper"] == pytest.approx(unseen * (1 - np.log(unseen)))
    scaled = rows["brier_score_scaled", None]
    assert scaled["upper"] > 0.07
    temperature = rows[TEMPERATURE, None]
    assert (temperature["lower"], temperature["upper"]) == (0.01, 100)
    assert AT_BOUND in temperature["flags"]


def test_comparisons_of_calibration_say_it_of_either_backbone():
    target = np.arange(100) % 3
    given = {}
    for name, wrong in (("a", 0), ("b", 2), ("c", 50), ("d", 60)):
        answer = np.where(np.arange(100) < wrong, (target + 1) % 3, target)
        scores = np.full((100, 3), 0.01, np.float32) + 0.97 * np.eye(3, dtype=np.float32)[answer]
        given[name] = predictions((target, answer, scores))
    rows = compare(given, resamples=50, seed=0, calibration={"bins": 15})
    said = {
        (row["metric"], row["backbone_a"] + row["backbone_b"]): {
            gate for gate in row["gates"].split(";") if gate.startswith(FEW_ERRORS)
        }
        for row in rows
    }
    none, two = f"{FEW_ERRORS}:0 of 100", f"{FEW_ERRORS}:2 of 100"
    for metric in ("brier_score", "expected_calibration_error"):
        assert said[metric, "ab"] == {none, two} and said[metric, "bd"] == {two}
        assert said[metric, "cd"] == set()
    assert not any(gates for (metric, _), gates in said.items() if metric == "accuracy")


def test_largest_error_says_that_bins_are_sparse():
    rows = nearly_perfect(100, 0)
    assert f"{SPARSE_BINS}:1 of 1" not in rows["maximum_calibration_error", None]["flags"]
    rows = scored(softmax(300))
    flags = rows["maximum_calibration_error", None]["flags"]
    assert len(flags) == 1 and flags[0].startswith(f"{SPARSE_BINS}:")
    assert rows["expected_calibration_error", None]["flags"] == []


def test_the_interval_of_squares():
    drawn = np.array([0.2, 0.3, 0.5, np.nan])
    np.testing.assert_allclose(
        reflected_square(0.4, drawn)[:3] ** 2, [0.32 - 0.04, 0.32 - 0.09, 0.32 - 0.25]
    )
    assert reflected_square(0.1, np.array([0.2]))[0] == 0
    low, high = basic_square_interval(0.9, np.full(5, 0.1), 0.95)
    assert low > 1 and high == 1
    assert all(np.isnan(basic_square_interval(np.nan, drawn * np.nan, 0.95)))


def test_votes_of_nought_have_no_temperature_and_say_so():
    rows = scored(votes())
    for name in CALIBRATION:
        row = rows[name, None]
        undefined = name == TEMPERATURE or name.endswith(SCALED)
        flags = [one for one in row["flags"] if not one.startswith(SPARSE_BINS)]
        assert flags == ([UNDEFINED] if undefined else []), name
        assert np.isnan([row["value"], row["lower"], row["upper"]]).all() == undefined
        assert row["n_undefined"] == (row["resamples"] if undefined else 0)
    floored = scored(votes(), judged={**OPTIONS, "floor": 0.1})
    judged = [floored[name, None] for name in CALIBRATION]
    assert {one.split(":")[0] for row in judged for one in row.get("flags", ())} == {SPARSE_BINS}
    assert np.isfinite([row["value"] for row in judged]).all()
    same = [name for name in CALIBRATION if not (name == TEMPERATURE or name.endswith(SCALED))]
    assert [floored[name, None] for name in same] == [rows[name, None] for name in same]


def test_one_right_answer_without_a_vote_leaves_no_scaled_scores_at_all():
    """The fold that holds it has a temperature, all others have none: a part would be misleading."""
    target, answer, scores = softmax(50)
    scores[7] = np.eye(6, dtype=np.float32)[(target[7] + 1) % 6]
    judged = Calibration(
        target, scores, np.arange(50), task="classification", options=CalibrationOptions(**OPTIONS)
    )
    assert np.isnan(judged.values["brier_score_scaled"])
    assert judged.flags("brier_score_scaled") == judged.flags(TEMPERATURE) == [UNDEFINED]
    assert judged.flags("brier_score") == []


def test_temperatures_that_mean_little_are_flagged():
    target = np.arange(40) % 3
    sure = np.full((40, 3), 0.1, np.float32) + 0.7 * np.eye(3, dtype=np.float32)[target]
    assert Calibration(
        target, sure, np.arange(40), task="classification", options=CalibrationOptions(**OPTIONS)
    ).flags(TEMPERATURE) == [f"{FEW_ERRORS}:0 of 40", AT_BOUND]
    same = np.full((40, 4), 0.25, np.float32)
    flat = Calibration(
        target, same, np.arange(40), task="classification", options=CalibrationOptions(**OPTIONS)
    )
    assert flat.flags("brier_score_scaled") == flat.flags(TEMPERATURE) == [FLAT]
    assert set(flat.replicates(draw_resamples(40, 5, 0))[TEMPERATURE]) == {1.0}


def test_few_units_have_few_folds_and_one_has_none():
    target, answer, scores = softmax(60)
    one = scored((target, answer, scores), groups=["a"] * 60)
    assert (
        one["brier_score_scaled", None]["flags"] == one[TEMPERATURE, None]["flags"] == [UNDEFINED]
    )
    assert np.isfinite(one["brier_score", None]["value"])
    three = scored((target, answer, scores), groups=[f"{number % 3}" for number in range(60)])
    assert np.isfinite(three["brier_score_scaled", None]["value"])


def test_perfect_and_single_predictions():
    target = np.arange(20) % 2
    rows = scored((target, target, np.eye(2, dtype=np.float32)[target]))
    unseen = 1 - 0.025 ** (1 / 20)
    for name, most in (*((error, 1) for error in CALIBRATION_ERRORS), ("brier_score", 2)):
        row = rows[name, None]
        assert (row["value"], row["lower"]) == (0, 0)
        assert row["upper"] == pytest.approx(most * unseen), name
    alone = scored((np.array([1]), np.array([0]), np.array([[0.7, 0.3]], np.float32)))
    assert alone["expected_calibration_error", None]["value"] == pytest.approx(0.7)


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_rows_changes_nothing(case):
    task, arrays = CASES[case]
    arrays = [arrays[0], arrays[2] > 0.5 if arrays[1] is None else arrays[1], arrays[2]]
    order = np.random.default_rng(0).permutation(len(arrays[0]))
    found = predictions(arrays, task)
    shuffled = LabelledSamples.from_arrays(
        [f"image {number:04}" for number in order],
        *(array[order] for array in arrays),
        task=task,
        classes=found.classes,
    )
    rows = [
        bootstrap_scores(one, resamples=50, seed=0, calibration=OPTIONS)
        for one in (found, shuffled)
    ]
    assert repr(rows[0]) == repr(rows[1])


def test_what_has_no_probabilities_is_refused():
    target, answer, scores = softmax()
    with pytest.raises(PermafrostError, match="not probabilities.*leave the measure out"):
        scored((target, answer, 3 * scores))
    with pytest.raises(PermafrostError, match="add up to 1"):
        scored((target, answer, scores / 2))
    with pytest.raises(PermafrostError, match="no probabilities.*leave calibration out"):
        bootstrap_scores(masks(), resamples=20, seed=0, calibration=OPTIONS)


# --- comparisons --------------------------------------------------------------------------------


def backbones(task="classification"):
    make = softmax if task == "classification" else sigmoid
    target, answer, scores = make(300, sharpness=1.0)
    sharper = make(300, sharpness=2.5)[2]
    return {
        "a": predictions((target, answer, scores), task),
        "b": predictions((target, answer, sharper), task),
    }


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_comparisons_are_of_the_primary_metric_then_of_calibration(task):
    found = backbones(task)
    plain = compare(found, resamples=300, seed=2)
    rows = compare(found, resamples=300, seed=2, calibration={"bins": 15})
    assert repr(rows[:1]) == repr(plain)
    compared = ["brier_score", "expected_calibration_error", "aurc"]
    assert [row["metric"] for row in rows[1:]] == compared
    assert [row["higher_is_better"] for row in rows] == [True, False, False, False]
    for row in rows[1:3]:
        # a is calibrated, b too sure: less is better, so the difference is below 0
        assert row["difference"] < 0
        assert row["upper"] < 0
        assert row["p_value"] == row["p_adjusted"] < 0.05
        assert row["p_mcnemar"] is None


def test_differences_of_errors_are_those_of_replicates_on_the_same_resamples():
    found = backbones()
    drawn = draw_resamples(300, 200, 2)
    rows = {
        row["metric"]: row
        for row in compare(found, resamples=200, seed=2, calibration={"bins": 10})
    }
    units = find_units(300, sample_ids=found["a"].sample_ids).index
    judged = {
        name: Calibration(
            one.target, one.scores, units, task=one.task, options=CalibrationOptions(bins=10)
        )
        for name, one in found.items()
    }
    error = "expected_calibration_error"
    on = {name: one.replicates(drawn, [error])[error] for name, one in judged.items()}
    squares = [reflected_square(judged[name].values[error], on[name]) for name in "ab"]
    # few units tell little of the spread, 300 of them nearly all
    expected = expanded(squares[0] - squares[1], 300, 0.95)
    np.testing.assert_allclose(expected, squares[0] - squares[1], atol=1e-3)
    row = rows[error]
    assert [row["lower"], row["upper"]] == pytest.approx(
        np.percentile(expected, [2.5, 97.5]), abs=1e-12
    )
    assert row["p_value"] == bootstrap_p_value(expected)
    for metric in ("brier_score", error, "aurc"):
        values = [judged[name].values[metric] for name in "ab"]
        assert rows[metric]["difference"] == pytest.approx(values[0] - values[1], abs=1e-12)


def test_a_metric_of_calibration_can_be_asked_for_alone():
    found = backbones()
    rows = compare(found, metric="brier_score", resamples=50, seed=0, calibration={"bins": 15})
    assert [row["metric"] for row in rows] == ["brier_score"]
    with pytest.raises(PermafrostError, match="brier_score"):
        compare(found, metric="brier_score", resamples=50, seed=0)
    with pytest.raises(PermafrostError, match="temperature"):
        compare(found, metric=TEMPERATURE, resamples=50, seed=0, calibration={"bins": 15})


def test_temperatures_are_ranked_by_nobody_and_errors_from_below():
    rows = [
        {
            "dataset": "d",
            "probe": "p",
            "setting": None,
            "seed": 0,
            "class": None,
            "metric": metric,
            "backbone": name,
            "value": value,
            "primary": False,
            "higher_is_better": higher,
        }
        for metric, higher in ((TEMPERATURE, None), ("brier_score", False))
        for name, value in (("a", 0.3), ("b", 0.2))
    ]
    kinds = {"setting": pa.string(), "class": pa.string(), "higher_is_better": pa.bool_()}
    table = pa.table({key: pa.array([row[key] for row in rows], kinds.get(key)) for key in rows[0]})
    assert add_ranks(table)["rank"].to_pylist() == [None, None, 2, 1]
