"""Predicted numbers: the probe, its table, intervals, gates, comparison and figures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.probe_jobs import job_of, options_of
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.metrics.regression import evaluate
from permafrost.probes.embeddings.features import Features
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.ridge.probe import run_ridge
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.gates import score_gates

RIDGE = {"kind": "ridge", "alpha_min": 1e-3, "alpha_max": 1e4, "alpha_count": 15,
         "choose": "validation", "merge_val": True, "standardize": True}  # fmt: skip
KNN = {"kind": "knn", "k": 3, "metric": "l2"}


def splits(seed=0, noise=0.3, offset=0.0) -> dict[str, Features]:
    rng = np.random.default_rng(seed)
    weights, made = rng.normal(size=5), {}
    for name, count in (("train", 60), ("val", 20), ("test", 40)):
        x = rng.normal(size=(count, 5)).astype(np.float32)
        y = x @ weights + noise * rng.normal(size=count) + offset
        ids = [f"{name} {i:02}" for i in range(count)]
        samples = pa.table(
            {"sample_id": ids, "group_id": [f"scene {i // 4}" for i in range(count)]}
        )
        about = {"task": "regression", "classes": [], "target": "height", "gates": []}
        made[name] = Features(x, y, samples, about)
    return made


def numbers(target, prediction, groups=None) -> PredictedNumbers:
    ids = [f"{i:04}" for i in range(len(target))]
    return PredictedNumbers.from_arrays(ids, target, prediction, groups=groups)


def scored(found: PredictedNumbers, **options) -> dict[str, dict]:
    return {row["metric"]: row for row in bootstrap_scores(found, seed=1, **options)}


@pytest.mark.parametrize(("probe", "options"), [(run_ridge, RIDGE), (run_knn, KNN)])
def test_the_table_of_a_probe_is_read_back_and_scored(tmp_path, probe, options):
    made, path = splits(), tmp_path / "p.parquet"
    result = probe(made, options_of(options["kind"], options), device="cpu", seed=0)
    spec = {
        "stage": options["kind"],
        "dataset": "d",
        "backbone": "b",
        "probe": "p",
        "seed": 0,
        "options": options,
        "inputs": {"features": "f"},
    }
    result.write(job_of(spec, output=path), made)
    table, metadata = read_table(path)
    assert table.column_names == ["sample_id", "group_id", "target", "prediction"]
    assert (metadata["task"], metadata["target"], metadata["n_train"]) == (
        "regression",
        "height",
        60,
    )
    found = predictions_from_table(table, metadata)
    assert found.evaluate() == evaluate(made["test"].labels, result.prediction)
    assert found.evaluate()["r2"] > 0.6 and score_gates(found, list(scored(found).values())) == []


def test_resampled_metrics_are_those_of_the_drawn_rows():
    rng = np.random.default_rng(0)
    target = rng.normal(size=30) + 1e4
    prediction = target + rng.normal(size=30)
    found = numbers(target, prediction, groups=[f"g{i % 7}" for i in range(30)])
    units = find_units(30, sample_ids=found.sample_ids, groups=found.groups)
    resamples = draw_resamples(units.count, 50, 3)
    values = found.family(units.index).replicates(resamples)
    for column, counts in enumerate(resamples.counts.T):
        rows = np.repeat(np.arange(30), counts[units.index])
        expected = evaluate(target[rows], prediction[rows])
        for name, value in expected.items():
            assert values[name][column] == pytest.approx(value, rel=1e-6), name


def test_rows_say_which_way_is_better_and_what_is_primary():
    rng = np.random.default_rng(0)
    target = rng.normal(size=200)
    rows = scored(numbers(target, target + 0.5 * rng.normal(size=200)))
    assert {name: row["higher_is_better"] for name, row in rows.items()} == {
        "r2": True,
        "rmse": False,
        "mae": False,
        "median_absolute_error": False,
    }
    assert [name for name, row in rows.items() if row["primary"]] == ["r2"]
    assert all(row["lower"] < row["value"] < row["upper"] for row in rows.values())
    assert rows["rmse"]["lower"] < 0.5 < rows["rmse"]["upper"]


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_both_kinds_of_interval_are_made(method):
    rng = np.random.default_rng(0)
    target = rng.normal(size=80)
    rows = scored(numbers(target, target + rng.normal(size=80)), method=method)
    median = rows.pop("median_absolute_error")
    # leaving out single samples says nothing of a median
    assert {row["method"] for row in rows.values()} == {method} and median["method"] == "percentile"


def test_a_target_that_is_all_the_same_leaves_r2_undefined_and_is_flagged():
    found = numbers(np.full(20, 3.3), np.linspace(3, 4, 20))
    rows = scored(found)
    assert np.isnan(rows["r2"]["value"]) and rows["r2"]["n_undefined"] == 20
    assert rows["mae"]["value"] == pytest.approx(np.abs(np.linspace(3, 4, 20) - 3.3).mean())
    assert "constant_target_in_test" in score_gates(found, list(rows.values()))


def test_resamples_of_one_value_are_undefined_and_counted():
    target = np.array([1.0, 1.0, 2.0])
    rows = scored(numbers(target, target + [0.1, -0.1, 0.1]))
    assert 0 < rows["r2"]["n_undefined"] < 200 and rows["rmse"]["n_undefined"] == 0


def test_one_number_for_all_is_flagged_and_no_better_than_chance():
    target = np.random.default_rng(0).normal(size=50)
    found = numbers(target, np.full(50, target.mean()))
    assert found.evaluate()["r2"] == pytest.approx(0)
    gates = score_gates(found, list(scored(found).values()))
    assert "constant_predictions" in gates and "below_chance" in gates


@pytest.mark.parametrize("metric", ["r2", "rmse"])
def test_backbones_are_compared_on_the_same_samples(metric):
    rng = np.random.default_rng(0)
    target = rng.normal(size=100)
    near, far = (numbers(target, target + s * rng.normal(size=100)) for s in (0.1, 0.9))
    (row,) = compare({"near": near, "far": far}, metric=metric, resamples=500, seed=0)
    assert (row["backbone_a"], row["backbone_b"]) == ("far", "near")
    better = -1 if metric == "r2" else 1
    assert better * row["lower"] > 0 or better * row["upper"] > 0
    assert row["p_value"] < 0.01 and row["p_mcnemar"] is None
    with pytest.raises(PermafrostError, match="different targets"):
        compare({"near": near, "far": numbers(target + 1, target)}, seed=0)


def test_alpha_on_the_edge_and_collapsed_features_are_flagged():
    made = splits()
    assert run_ridge(made, options_of("ridge", RIDGE), device="cpu", seed=0).gates == []
    weak = run_ridge(
        made, options_of("ridge", RIDGE, alpha_min=1e5, alpha_max=1e6), device="cpu", seed=0
    )
    assert weak.gates == ["best_alpha_on_edge"] and weak.settings["alpha"] == 1e5
    flat = {
        name: Features(np.full_like(one.embeddings, 0.1), one.labels, one.samples, one.attributes)
        for name, one in made.items()
    }
    result = run_ridge(flat, options_of("ridge", RIDGE), device="cpu", seed=0)
    assert "collapsed_features" in result.gates
    merged = np.concatenate([made["train"].labels, made["val"].labels])
    np.testing.assert_allclose(result.prediction, merged.mean())


def test_units_and_offsets_of_features_and_target_move_with_the_prediction():
    plain = splits()
    moved = {
        name: Features(one.embeddings * 8 + 64, one.labels * 1000 + 5, one.samples, one.attributes)
        for name, one in plain.items()
    }
    first, second = (
        run_ridge(s, options_of("ridge", RIDGE), device="cpu", seed=0).prediction
        for s in (plain, moved)
    )
    np.testing.assert_allclose(second, first * 1000 + 5, rtol=1e-4)


def test_without_validation_one_must_be_left_out():
    made = splits()
    empty = Features(np.empty((0, 5), np.float32), np.empty(0), None, made["val"].attributes)
    made["val"] = empty
    with pytest.raises(PermafrostError, match="leave_one_out"):
        run_ridge(made, options_of("ridge", RIDGE), device="cpu", seed=0)
    options = options_of("ridge", RIDGE, choose="leave_one_out")
    assert run_ridge(made, options, device="cpu", seed=0).settings["directions"] == 5
    made["train"] = Features(np.ones((1, 5), np.float32), np.ones(1), None, empty.attributes)
    with pytest.raises(PermafrostError, match="two samples"):
        run_ridge(made, options, device="cpu", seed=0)


@pytest.mark.parametrize(
    ("target", "prediction", "message"),
    [
        ([1.0, np.nan], [1.0, 2.0], "1 of 2 targets are NaN"),
        ([1.0, 2.0], [np.inf, 2.0], "1 of 2 predictions are NaN"),
        ([], [], "one predicted value per target"),
        ([1.0, 2.0], [1.0], "one predicted value per target"),
    ],
)
def test_bad_numbers_are_refused(target, prediction, message):
    with pytest.raises(PermafrostError, match=message):
        evaluate(target, prediction)


@pytest.mark.parametrize("looked_at", [2, 1000])
def test_the_median_on_resamples_is_that_of_the_samples_repeated(monkeypatch, looked_at):
    """With ties, an even and an odd number of samples, and groups that shift the median far."""
    monkeypatch.setattr("permafrost.statistics.predictions.numbers._FEW", looked_at)
    for size in (1, 2, 31, 400):
        rng = np.random.default_rng(size)
        units = np.sort(rng.integers(0, 7, size))
        units = np.unique(units, return_inverse=True)[1]
        # groups of sizes of their own
        errors = np.round(rng.normal(size=size), 1) * (1 + units)
        target = rng.normal(size=size)
        found = numbers(target, target + errors)
        absolute = np.abs(found.prediction - found.target)
        resamples = draw_resamples(int(units.max()) + 1, 60, 1)
        drawn = found.family(units).replicates(resamples)["median_absolute_error"]
        for place, counts in enumerate(resamples.counts.T.astype(int)):
            repeated = np.repeat(absolute, counts[units])
            assert drawn[place] == pytest.approx(np.median(repeated), abs=1e-12)


def test_the_interval_of_the_median_is_expanded_for_few_groups():
    rng = np.random.default_rng(0)
    target, groups = rng.normal(size=120), [f"scene {i % 6}" for i in range(120)]
    errors = rng.normal(size=120) * (1 + np.arange(120) % 6)
    row = scored(numbers(target, target + errors, groups))["median_absolute_error"]
    plain = scored(numbers(target, target + errors, groups), method="percentile")
    plain = plain["median_absolute_error"]
    assert row["value"] == pytest.approx(np.median(np.abs(errors))) and row["lower"] >= 0
    # sqrt(6 / 5) t / z
    ratio = (row["upper"] - row["lower"]) / (plain["upper"] - plain["lower"])
    assert ratio == pytest.approx(np.sqrt(1.2) * 2.5706 / 1.96, rel=1e-3)


@pytest.mark.parametrize(("size", "least"), [(8, 0.3), (60, 0.2), (1000, 0.1)])
def test_one_unit_with_much_of_the_error_is_named(size, least):
    target = np.random.default_rng(0).normal(size=size)
    for share, said in ((least - 0.02, False), (least + 0.02, True)):
        # the others share the rest of the squared error alike
        squares = np.full(size, (1 - share) / (size - 1))
        squares[3] = share
        sign = np.where(np.arange(size) % 2, 1, -1)
        rows = scored(numbers(target, target + sign * np.sqrt(squares)))
        for name in ("r2", "rmse"):
            assert (f"heavy_tail:{100 * share:.0f} %" in rows[name].get("flags", [])) == said
        assert not rows["median_absolute_error"]["flags"] or size == 8


@pytest.mark.parametrize("size", [3, 40])
def test_errors_that_are_all_the_same_have_a_width_and_a_gate(size):
    target = np.arange(size, dtype=float)
    rows = scored(numbers(target, target + 0.5 * np.where(np.arange(size) % 2, 1, -1)))
    rest = 0.025 ** (1 / size)
    for name in ("rmse", "mae"):
        assert (rows[name]["lower"], rows[name]["upper"]) == pytest.approx((0.5 * rest, 0.5 / rest))
        assert rows[name]["flags"] == ["equal_in_all_units"]
    rows = scored(numbers(target, target))
    assert (rows["mae"]["lower"], rows["mae"]["upper"]) == (0, 0)
    assert rows["mae"]["flags"] == ["equal_in_all_units"]
    # of R² the width is that of a share
    assert 0 < rows["r2"]["lower"] < rows["r2"]["upper"] == 1
