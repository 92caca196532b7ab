"""What carries a number: the units that hold its class, label or error, and what follows for its interval."""

import math

import numpy as np
import permafrost as pf
import pytest
from permafrost.report.explanations.gates import explain, explain_at_length
from permafrost.statistics.predictions.confusions import Confusions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.intervals import (
    interval_of_mean,
    skewed_interval,
    wilson_interval,
)
from permafrost.statistics.resampling.jackknife import contributions, spread_of, strays
from permafrost.statistics.resampling.paired import paired_by_jackknife
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores

ONE = 'one_unit: class "rare" has truth in 1 group'


def labelled(target, scores, groups=None, names=None):
    names = names or [f"label {place}" for place in range(target.shape[1])]
    ids = [f"{row:05d}" for row in range(len(target))]
    return LabelledSamples.from_arrays(
        ids, target, (scores > 0.5) * 1, scores, task="multilabel", classes=names, groups=groups
    )


def scenes(rng, holding, *, scenes=20, images=20):
    """A label that is true in half of the images of `holding` scenes, and easier to see in some of them."""
    scene = np.repeat(np.arange(scenes), images)
    rare = (scene < holding) & (rng.random(len(scene)) < 0.5)
    rare[:: images * scenes] |= holding > 0
    often = rng.random(len(scene)) < 0.5
    target = np.stack([rare, often], axis=1)
    seen = 1.5 + np.stack([1.5 * rng.normal(size=scenes)[scene], np.zeros(len(scene))], axis=1)
    scores = rng.normal(size=target.shape) + seen * target
    return labelled(target * 1, scores, [f"scene {each}" for each in scene], ["rare", "often"])


def rows_of(predictions, **options):
    rows = bootstrap_scores(predictions, **{"resamples": 20, "seed": 0, **options})
    return {(row["metric"], row["class"]): row for row in rows}


def test_a_label_that_one_scene_holds_may_have_any_precision():
    rows = rows_of(scenes(np.random.default_rng(0), 1))
    rare, often = (rows["average_precision", name] for name in ("rare", "often"))
    assert (rare["lower"], rare["upper"]) == (0, 1)
    assert (rare["n_carriers"], rare["largest_share"], rare["flags"]) == (1, 1, [ONE])
    assert (often["n_carriers"], often["flags"]) == (20, [])
    assert 0 < often["lower"] < often["value"] < often["upper"] < 1
    # a mean over labels is as uncertain as they are
    mean = rows["macro_ap", None]
    assert mean["n_carriers"] == 2 and mean["flags"] == [ONE.replace("one_unit", "few_units")]
    assert mean["upper"] - mean["lower"] > 0.5
    # all labels together are carried by all scenes
    assert rows["micro_ap", None]["flags"] == []


def test_few_scenes_that_hold_a_label_are_named_and_decide_its_degrees_of_freedom():
    rows = rows_of(scenes(np.random.default_rng(1), 3))
    rare = rows["average_precision", "rare"]
    assert rare["flags"] == ['few_units: class "rare" has truth in 3 groups']
    assert rare["n_carriers"] == 3 and 1 / 3 <= rare["largest_share"] < 1
    assert rows_of(scenes(np.random.default_rng(1), 6))["average_precision", "rare"]["flags"] == []


@pytest.mark.parametrize("holding", [1, 2, 3])
def test_intervals_of_a_label_in_few_scenes_hold_its_precision(holding):
    rng, truth, held = np.random.default_rng(2), [], 0
    for _ in range(20):
        many = scenes(rng, 20 * holding, scenes=400)
        truth.append(many.evaluate()["average_precision"][0])
    for _ in range(60):
        row = rows_of(scenes(rng, holding))["average_precision", "rare"]
        held += row["lower"] <= np.mean(truth) <= row["upper"]
    assert held >= 54


def test_a_mean_over_labels_near_1_allows_for_what_was_not_seen_to_go_wrong():
    """One image in a hundred looks as if it had, or lacked, a label: of 100 images few do, and they decide."""
    rng, held, often = np.random.default_rng(3), 0, np.linspace(0.4, 0.1, 5)

    def drawn(n):
        target = rng.random((n, 5)) < often
        like = target ^ (rng.random((n, 5)) < 0.01)
        return labelled(target * 1, rng.normal(size=(n, 5)) + 6 * like)

    truth = drawn(100_000).evaluate()["macro_ap"]
    for _ in range(100):
        row = rows_of(drawn(100))["macro_ap", None]
        held += row["lower"] <= truth <= row["upper"]
    assert held >= 92


def test_a_class_of_masks_in_few_images_marks_its_row_and_the_mean():
    rng = np.random.default_rng(4)
    confusion = rng.integers(1, 9, (40, 3, 3)) + 40 * np.eye(3, dtype=int)
    confusion[2:, 2] = 0
    names = [f"{row:03d}" for row in range(40)]
    rows = rows_of(Confusions.from_arrays(names, confusion, classes=["land", "sea", "ice"]))
    reason = 'few_units: class "ice" has truth in 2 images'
    assert rows["iou", "ice"]["flags"] == rows["mean_iou", None]["flags"] == [reason]
    assert rows["iou", "ice"]["n_carriers"] == 2 and rows["iou", "land"]["n_carriers"] == 40
    assert rows["iou", "land"]["flags"] == [] and rows["pixel_accuracy", None]["flags"] == []


def test_a_single_unit_leaves_all_that_is_possible():
    rows = rows_of(scenes(np.random.default_rng(5), 1, scenes=1))
    assert {(row["lower"], row["upper"]) for row in rows.values()} == {(0, 1)}
    found = pf.evaluate([1.0, 2.0, 4.0], [1.5, 2.0, 3.0], groups=["one"] * 3)
    assert found.loc[found["metric"] == "rmse", ["lower", "upper"]].isna().all(axis=None)


def test_python_says_what_carries_a_number():
    y = np.zeros((30, 2), int)
    y[0, 0], y[::2, 1] = 1, 1
    found = pf.evaluate(y, np.random.default_rng(6).random((30, 2)), classes=["rare; old", "often"])
    row = found[(found["metric"] == "average_precision") & (found["class"] == "rare; old")].iloc[0]
    gate = 'one_unit: class "rare, old" has truth in 1 image'
    assert (row["lower"], row["upper"], row["n_carriers"], row["gates"]) == (0, 1, 1, gate)
    assert explain(gate) == 'class "rare, old" has truth in 1 image'
    assert "This value rests on a single unit" in explain_at_length(gate)


def test_few_errors_among_many_images_are_said_to_decide():
    target = np.zeros((400, 1), int)
    target[:100] = 1
    scores = target + 0.1 * np.random.default_rng(7).random((400, 1))
    scores[[3, 200, 300], 0] = 0.5, 1.05, 1.08
    row = rows_of(labelled(target, scores))["micro_ap", None]
    assert row["flags"] == ["few_units: 1 of 400 images decides"]


@pytest.mark.parametrize("runs", [1, 3])
def test_a_difference_that_one_part_carries_is_not_tested(runs):
    rng = np.random.default_rng(10)
    values = rng.random((runs, 2))
    left_out = values[..., None] + 0.01 * rng.normal(size=(runs, 2, 12))
    drawn = {"units": find_units(12), "resamples": 50, "confidence": 0.95, "seed": 0}
    pairs = np.array([[0, 1]])
    assert np.isfinite(paired_by_jackknife(values, left_out, pairs, **drawn).p_value).all()
    left_out[..., 4] = np.nan
    found = paired_by_jackknife(values, left_out, pairs, **drawn)
    assert np.isnan([found.p_value, found.lower, found.upper]).all()
    assert np.isfinite(found.difference).all()


# --- formulas -------------------------------------------------------------------------------------


def test_errors_that_follow_the_end_are_those_of_wilson_where_all_weigh_alike():
    p, n, z = 0.003, 10_000, 1.96
    error, slope = math.sqrt(p * (1 - p) / n), (1 - 2 * p) / n
    assert skewed_interval(p, error, slope, z) == pytest.approx(wilson_interval(p, n, z), rel=2e-3)
    assert skewed_interval(0.5, 0.1, 0.0, 2.0) == pytest.approx((0.3, 0.7))


def test_a_mean_over_classes_has_halves_that_add_as_errors_do():
    rng = np.random.default_rng(8)
    values, deviations = rng.random(4), rng.normal(size=(4, 30))
    deviations[3] = 0
    ends = np.stack([values - rng.random(4), values + rng.random(4)], axis=1)
    lower, upper = interval_of_mean(values, ends, deviations)
    alike = np.eye(4)
    for one in range(3):
        for two in range(3):
            first, second = deviations[one], deviations[two]
            alike[one, two] = first @ second / math.sqrt(first @ first * (second @ second))
    for end, half in ((lower, values - ends[:, 0]), (upper, ends[:, 1] - values)):
        assert abs(end - values.mean()) == pytest.approx(math.sqrt(half @ alike @ half) / 4)


def test_parts_of_unequal_size_contribute_what_is_theirs():
    """Of a mean, each part contributes its sum over the number of all samples, whatever its size."""
    rng = np.random.default_rng(9)
    sizes = np.array([1, 2, 5, 30, 62])
    numbers = [rng.normal(loc=size, size=size) for size in sizes]
    total = np.concatenate(numbers)
    left = np.array([(total.sum() - each.sum()) / (len(total) - len(each)) for each in numbers])
    expected = np.array([each.sum() / len(total) for each in numbers])
    assert contributions(total.mean(), left, sizes) == pytest.approx(expected)
    own = strays(total.mean(), left, sizes)
    assert own == pytest.approx(expected - total.mean() * sizes / sizes.sum())
    assert own.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("moving", [2, 3, 6])
def test_degrees_of_freedom_are_fewer_than_the_parts_that_move(moving):
    """Parts that move alike say of the variance only what their number does."""
    left = np.full(10, 0.5)
    left[:moving] = 0.4
    kurtosis = 10 * moving * (1 - moving / 10) ** 4 + 10 * (10 - moving) * (moving / 10) ** 4
    kurtosis /= (moving * (1 - moving / 10)) ** 2
    expected = min(20 / (kurtosis - 1), moving - 1)
    assert float(spread_of(0.5, left, np.ones(10)).df) == pytest.approx(max(expected, 1))
    assert float(spread_of(0.5, left, np.ones(10)).df) <= max(moving - 1, 1)
