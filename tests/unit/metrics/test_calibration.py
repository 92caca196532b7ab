"""Calibration: bins, sums that serve every resample, and temperatures."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.metrics import calibration as ours


def softmax(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def overconfident(rows=3000, classes=5, factor=3.0, seed=0):
    """Targets drawn from softmax of the logits; the scores are those of logits times `factor`."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes)) * 1.5
    target = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return target, logits * factor


def binary(rows=1000, labels=3, factor=2.0):
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(rows, labels)) * 2
    target = (generator.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.uint8)
    return target, logits * factor


def test_by_hand():
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.0, 1.0]])
    found = ours.evaluate([0, 1, 0, 1], scores, task="classification", n_bins=4)
    # bins [0.5, 0.75): 0.6, right; [0.75, 1]: 0.9 and 1 right, 0.8 wrong
    assert found["expected_calibration_error"] == pytest.approx((0.4 + 0.7) / 4)
    assert found["rms_calibration_error"] == pytest.approx(np.sqrt((0.16 + 0.7**2 / 3) / 4))
    assert found["maximum_calibration_error"] == pytest.approx(0.4)
    assert found["brier_score"] == pytest.approx((0.02 + 1.28 + 0.32 + 0) / 4)


@pytest.mark.parametrize("like", [None, "torchmetrics"])
def test_bins_are_closed_on_the_left_and_one_has_its_own_in_torchmetrics(like):
    table = ours.reliability(
        [0] * 5,
        np.array([[0.5, 0.5], [0.6, 0.4], [0.8, 0.2], [0.7999, 0.2001], [1.0, 0.0]]),
        task="classification",
        n_bins=5,
        like=like,
    )
    last = [1, 1] if like else [2]
    np.testing.assert_array_equal(table["count"], [0, 0, 1, 2, *last])
    np.testing.assert_array_equal(table["lower"], [0, 0.2, 0.4, 0.6, 0.8, 1][: 4 + len(last)])
    np.testing.assert_array_equal(table["upper"], [0.2, 0.4, 0.6, 0.8, 1, 1][: 4 + len(last)])
    assert np.isnan(table["accuracy"][:2]).all()
    assert table["confidence"][-1] == pytest.approx(1.0 if like else 0.9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("k", [3, 5, 7, 15, 20])
def test_a_vote_on_an_edge_is_in_the_bin_that_it_begins(k, kind):
    for bins in (5, 10, 15):
        for won in range(1, k + 1):
            score = kind(won / k)
            items = ours.confidence(
                [[1]], [[score]] * np.ones(1, kind), task="multilabel", n_bins=bins
            )
            assert items.bin[0, 0] == min(won * bins // k, bins - 1)


def test_sums_of_units_serve_every_resample():
    target, logits = overconfident(120)
    cases = [("classification", target, softmax(logits).astype(np.float32))]
    labels, logits = binary(120)
    cases.append(("multilabel", labels, (1 / (1 + np.exp(-logits))).astype(np.float32)))
    units = np.random.default_rng(0).permutation(120) % 40
    counts = np.random.default_rng(1).multinomial(40, np.ones(40) / 40, size=6).T
    for task, target, scores in cases:
        sums = ours.unit_sums(ours.confidence(target, scores, task=task), units, 40)
        found = ours.evaluate_sums(sums @ counts)
        assert tuple(found) == ours.NAMES
        for column in range(6):
            rows = np.repeat(np.arange(120), counts[units, column])
            expected = ours.evaluate(target[rows], scores[rows], task=task)
            for name, values in found.items():
                assert values[column] == pytest.approx(expected[name], abs=1e-12), name
    nothing = ours.evaluate_sums(np.zeros((len(sums), 1)))
    assert all(np.isnan(values).all() for values in nothing.values())


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
def test_temperature_undoes_what_made_scores_too_sure(task, factor):
    if task == "classification":
        target, logits = overconfident(factor=factor)
        scores = softmax(logits)
    else:
        target, logits = binary(10_000, factor=factor)
        scores = 1 / (1 + np.exp(-logits))
    found = ours.fit_temperature(target, scores, task=task)
    assert found.value == pytest.approx(factor, rel=0.08)
    assert found.nll_after <= found.nll_before and not found.notes
    same = ours.fit_temperature(target, logits, task=task, kind="logits")
    assert same.value == pytest.approx(found.value, rel=1e-9)
    scaled = ours.scale(scores, found.value, task=task)
    before, after = (ours.evaluate(target, each, task=task) for each in (scores, scaled))
    if factor != 1.0:
        assert after["expected_calibration_error"] < before["expected_calibration_error"] / 2
    np.testing.assert_allclose(
        scaled, ours.scale(logits, found.value, task=task, kind="logits"), atol=1e-12
    )


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_the_temperature_is_the_best_one(task):
    optimize = pytest.importorskip("scipy.optimize")
    target, logits = overconfident(300) if task == "classification" else binary(300)
    if task == "classification":
        right = (np.arange(300), target)

        def loss(log_t):
            z = logits / np.exp(log_t)
            return np.mean(np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1) - z[right])
    else:

        def loss(log_t):
            return np.logaddexp(0, -(2.0 * target - 1) * logits / np.exp(log_t)).mean()

    best = optimize.minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-9})
    found = ours.fit_temperature(target, logits, task=task, kind="logits")
    assert found.value == pytest.approx(np.exp(best.x), rel=1e-6)
    assert found.nll_after == pytest.approx(best.fun, rel=1e-12)
    assert found.nll_before == pytest.approx(loss(0.0), rel=1e-12)


def test_temperatures_at_their_bounds():
    target, logits = overconfident(200)
    right = np.eye(5)[target] * 3.0
    found = ours.fit_temperature(target, right, task="classification", kind="logits")
    assert (found.value, found.notes) == (pytest.approx(0.01), {"flag": "at_bound"})
    wrong = ours.fit_temperature(target, -right, task="classification", kind="logits")
    assert (wrong.value, wrong.notes) == (pytest.approx(100), {"flag": "at_bound"})
    flat = ours.fit_temperature(target, np.full((200, 5), 0.2), task="classification")
    assert (flat.value, flat.notes) == (1.0, {"flag": "flat"})
    assert flat.nll_before == flat.nll_after == pytest.approx(np.log(5))


def test_probabilities_of_zero():
    scores = np.array([[0.6, 0.4, 0.0], [0.2, 0.8, 0.0], [1.0, 0.0, 0.0], [0.4, 0.2, 0.4]])
    found = ours.fit_temperature([0, 1, 0, 2], scores, task="classification")
    assert np.isfinite(found.value) and not found.notes.get("undefined")
    scaled = ours.scale(scores, 2.0, task="classification")
    np.testing.assert_array_equal(scaled == 0, scores == 0)
    np.testing.assert_allclose(scaled.sum(axis=1), 1)
    impossible = ours.fit_temperature([2, 1, 0, 2], scores, task="classification")
    assert np.isnan(impossible.value) and impossible.notes["impossible"] == 1
    assert impossible.nll_before == np.inf
    floored = ours.fit_temperature([2, 1, 0, 2], scores, task="classification", floor=0.1)
    assert np.isfinite(floored.value) and floored.notes["raised"] == 4
    sure = np.array([[1.0, 0.0], [0.7, 0.4]])
    found = ours.fit_temperature([[1, 0], [1, 1]], sure, task="multilabel")
    assert np.isfinite(found.nll_after)
    found = ours.fit_temperature([[0, 0], [1, 1]], sure, task="multilabel")
    assert found.notes["impossible"] == 1


def test_cross_fit_scales_each_unit_by_what_others_say():
    target, logits = overconfident(600)
    scores, units = softmax(logits), np.arange(600) // 3
    found = ours.cross_fit(target, scores, task="classification", units=units, folds=4, seed=5)
    assert (np.bincount(found.fold) == 150).all()
    assert all(len(set(found.fold[units == unit])) == 1 for unit in range(200))
    for fold, temperature in enumerate(found.temperatures):
        inside = found.fold == fold
        alone = ours.fit_temperature(target[~inside], scores[~inside], task="classification")
        assert temperature == alone
        expected = ours.scale(scores[inside], alone.value, task="classification")
        np.testing.assert_array_equal(found.scores[inside], expected)
    again = ours.cross_fit(target, scores, task="classification", units=units, folds=4, seed=5)
    np.testing.assert_array_equal(found.scores, again.scores)
    before = ours.evaluate(target, scores, task="classification")
    after = ours.evaluate(target, found.scores, task="classification")
    assert after["brier_score"] < before["brier_score"]


def test_what_cannot_be_calibrated():
    scores = np.array([[0.5, 0.5], [0.9, 0.1]])
    ids = np.array([0, 1])
    for wrong, message in [
        (lambda: ours.evaluate(ids, scores * 3, task="classification"), "not probabilities"),
        (lambda: ours.evaluate(ids, scores / 2, task="classification"), "add up to 1.*row 0"),
        (lambda: ours.evaluate(ids, scores * [[1], [np.nan]], task="classification"), "row 1"),
        (lambda: ours.evaluate(ids[:0], scores[:0], task="classification"), "no items"),
        (lambda: ours.evaluate(ids + 1, scores, task="classification"), "0 to 1"),
        (lambda: ours.evaluate(ids - 1, scores, task="classification"), "0 to 1"),
        (lambda: ours.evaluate(ids[:1], scores, task="classification"), "shape"),
        (lambda: ours.evaluate(ids * 1.0, scores, task="classification"), "float64"),
        (lambda: ours.evaluate(ids, scores, task="segmentation"), "segmentation"),
        (lambda: ours.evaluate(ids, scores, task="classification", n_bins=0), "0 bins"),
        (lambda: ours.evaluate(ids, scores, task="classification", like="torch"), "like 'torch'"),
        (lambda: ours.fit_temperature(ids, scores, task="classification", kind="odds"), "odds"),
        (lambda: ours.fit_temperature(ids, scores, task="classification", bounds=(0, 1)), "from 0"),
        (lambda: ours.fit_temperature(ids, scores, task="classification", floor=0.7), "floor"),
        (
            lambda: ours.fit_temperature(
                ids, scores, task="classification", kind="logits", floor=0.1
            ),
            "no floor",
        ),
        (lambda: ours.scale(scores, np.nan, task="classification"), "temperature"),
        (lambda: ours.cross_fit(ids, scores, task="classification", folds=3, seed=0), "folds"),
        (
            lambda: ours.cross_fit(ids, scores, task="classification", units=[0], folds=2, seed=0),
            "units",
        ),
    ]:
        with pytest.raises(PermafrostError, match=message):
            wrong()


def test_one_class_and_one_item():
    found = ours.evaluate([0, 0], np.ones((2, 1)), task="classification")
    assert set(found.values()) == {0.0}
    one = ours.fit_temperature([0, 0], np.ones((2, 1)), task="classification")
    assert one.notes == {"flag": "flat"}
    single = ours.evaluate([1], [[0.7, 0.3]], task="classification")
    assert single["expected_calibration_error"] == pytest.approx(0.7)
