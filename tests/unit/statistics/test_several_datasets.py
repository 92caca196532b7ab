"""Areas under curves of label shares and losses of transfers, against closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.several_datasets import (
    Curve,
    Matrix,
    areas,
    curves_of,
    losses,
    matrices_of,
)

SHARES = {0.01: "few-1", 0.1: "few-10", 1.0: "all"}
CURVE = Curve("few", "all", SHARES)
CLASSES = ["a", "b", "c"]


def predicted(right, seed=0, ids=None):
    """Predictions that are right where `right` is."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, len(right))
    answers = np.where(right, truth, (truth + 1) % 3)
    ids = [f"image{i:03d}" for i in range(len(right))] if ids is None else ids
    scores = np.eye(3, dtype=np.float32)[answers]
    return LabelledSamples.from_arrays(
        ids, truth, answers, scores, task="classification", classes=CLASSES
    )


def study(rights: dict, seeds=(0,)):
    """`read` of backbone -> share -> (N,) right, or a list of these by seed."""

    def read(dataset, probe):
        assert probe == "linear"
        (share,) = (share for share, name in SHARES.items() if name == dataset)
        return {
            name: {seed: predicted(by_share[share][place]) for place, seed in enumerate(seeds)}
            for name, by_share in rights.items()
            if share in by_share
        }

    return read


def drawn(rng, count, chances, seeds=1):
    """Right answers that go together: an image that is hard with one share is hard with the others."""
    hard = rng.random(count)
    return {
        share: [(0.5 * rng.random(count) + 0.5 * hard < chance) for _ in range(seeds)]
        for share, chance in zip(SHARES, chances, strict=True)
    }


def test_curves_and_matrices_of_a_plan():
    datasets = {
        "all": {},
        "few-10": {"derived": {"of": "all", "share": 0.1, "part_of": "few"}},
        "few-1": {"derived": {"of": "all", "share": 0.01, "part_of": "few"}},
        "alone": {"derived": {"of": "all", "share": 0.5}},
        "pair": {"derived": {"train": "all", "test": "x"}},
    }
    pairs = [(a, b) for a in ("x", "all") for b in ("x", "all")]
    for a, b in pairs:
        datasets[f"m-{a}-to-{b}"] = {"derived": {"train": a, "test": b, "part_of": "m"}}
    assert curves_of(datasets) == [CURVE]
    assert list(curves_of(datasets)[0].datasets) == sorted(SHARES)
    assert matrices_of(datasets) == [
        Matrix("m", ["x", "all"], {(a, b): f"m-{a}-to-{b}" for a, b in pairs})
    ]


def test_weights_are_those_of_trapezoids_over_the_logarithm():
    rng = np.random.default_rng(0)
    for _ in range(20):
        shares = np.append(np.sort(rng.uniform(0.001, 0.9, rng.integers(1, 6))), 1)
        scores = rng.random(len(shares))
        curve = Curve("c", "d", {float(share): str(share) for share in shares})
        expected = np.trapezoid(scores, np.log(shares)) / -np.log(shares[0])
        assert np.dot(curve.weights, scores) == pytest.approx(expected)


def test_an_area_and_its_difference_are_means_over_images():
    """The area under curves of accuracy is a mean over images, so its interval has a closed form."""
    rng, count = np.random.default_rng(1), 150
    rights = {name: drawn(rng, count, (0.3, 0.5, 0.8 + 0.1 * (name == "b"))) for name in "ab"}
    found, compared = areas(CURVE, "linear", study(rights))
    each = {
        name: np.dot(CURVE.weights, np.array([by_share[share][0] for share in SHARES], float))
        for name, by_share in rights.items()
    }
    assert [one.backbone for one in found] == sorted(each, key=lambda name: -each[name].mean())
    for one in found:
        own = each[one.backbone]
        assert one.area == pytest.approx(own.mean()) and one.metric == "accuracy"
        assert one.scores == {share: rights[one.backbone][share][0].mean() for share in SHARES}
        # Wilson's interval with this standard error
        error, quantile = own.std(ddof=1) / np.sqrt(count), t_quantile(0.95, count - 1)
        assert one.upper - one.lower == pytest.approx(2 * quantile * error, rel=0.05)
        assert 0 < one.lower < one.area < one.upper < 1
    (row,) = compared
    apart = each["a"] - each["b"]
    half = t_quantile(0.95, count - 1) * apart.std(ddof=1) / np.sqrt(count)
    assert row["difference"] == pytest.approx(apart.mean())
    # an image is not right or wrong with all shares together
    assert row["p_mcnemar"] is None
    assert [row["lower"], row["upper"]] == pytest.approx(
        [apart.mean() - half, apart.mean() + half], rel=1e-3
    )


def test_intervals_of_areas_cover():
    rng, covered, trials = np.random.default_rng(2), 0, 200
    chances = (0.3, 0.55, 0.9)
    population = drawn(np.random.default_rng(3), 400_000, chances)
    true = np.dot(CURVE.weights, [population[share][0].mean() for share in SHARES])
    for _ in range(trials):
        (one,), _ = areas(CURVE, "linear", study({"a": drawn(rng, 60, chances)}))
        covered += one.lower <= true <= one.upper
    assert 0.91 <= covered / trials <= 0.99


def test_seeds_are_averaged_and_a_backbone_without_a_share_has_no_area():
    rng = np.random.default_rng(4)
    rights = {name: drawn(rng, 90, (0.3, 0.5, 0.9), seeds=2) for name in "ab"}
    del rights["b"][0.1]
    (one,), compared = areas(CURVE, "linear", study(rights, seeds=(0, 7)))
    values = [np.mean([right.mean() for right in rights["a"][share]]) for share in SHARES]
    assert one.backbone == "a" and not compared
    assert one.area == pytest.approx(np.dot(CURVE.weights, values))
    assert areas(CURVE, "linear", lambda *_: {}) == ([], [])


def test_other_test_images_are_refused():
    def read(dataset, probe):
        ids = [f"{dataset}{i:03d}" for i in range(50)]
        return {"a": {0: predicted(np.ones(50, bool), ids=ids)}}

    with pytest.raises(PermafrostError, match="few-1 and all were evaluated with different test"):
        areas(CURVE, "linear", read)


def test_losses_are_paired_differences_to_the_diagonal():
    rng, count = np.random.default_rng(5), 120
    matrix = Matrix("m", ["x", "y"], {(a, b): f"{a}-{b}" for a in "xy" for b in "xy"})
    right = {
        name: rng.random(count) < 0.6 + 0.3 * (name[0] == name[2])
        for name in matrix.datasets.values()
    }
    found = losses(matrix, "linear", lambda name, probe: {"net": {0: predicted(right[name])}})
    assert [(one.train, one.test) for one in found] == [*matrix.datasets]
    for one in found:
        own, value = (right[f"{train}-{one.test}"].astype(float) for train in (one.test, one.train))
        assert (one.value, one.own) == (value.mean(), own.mean())
        assert one.loss == pytest.approx((own - value).mean())
        if one.train == one.test:
            assert np.isnan([one.lower, one.upper]).all()
            continue
        half = t_quantile(0.95, count - 1) * (own - value).std(ddof=1) / np.sqrt(count)
        assert one.upper - one.lower == pytest.approx(2 * half, rel=1e-3)
        assert one.lower < one.loss < one.upper
    # without the diagonal there is nothing to compare with
    del matrix.datasets["y", "y"]
    rest = losses(matrix, "linear", lambda name, probe: {"net": {0: predicted(right[name])}})
    assert {one.test for one in rest} == {"x"}


def test_losses_are_of_the_seeds_that_both_have():
    matrix = Matrix("m", ["x", "y"], {("x", "y"): "x-y", ("y", "y"): "y-y"})
    good, poor = np.ones(40, bool), np.arange(40) % 2 == 0
    runs = {
        "x-y": {0: predicted(poor)},
        "y-y": {0: predicted(poor), 1: predicted(good)},
    }
    away, _ = losses(matrix, "linear", lambda name, probe: {"net": runs[name]})
    assert (away.value, away.own, away.loss) == (0.5, 0.5, 0)
    assert away.lower < 0 < away.upper
