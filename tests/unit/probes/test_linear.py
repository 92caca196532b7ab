"""The linear probe: choice of C, refit, missing classes, constant labels, gates, errors."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.linear import fit_linear
from permafrost.core.errors import PermafrostError
from permafrost.probes.linear.checks import check_grid

BACKENDS = ["numpy", "torch"]


def blobs(n=240, d=8, classes=4, seed=0, noise=1.5):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, d))
    labels = np.arange(n) % classes
    return (centres[labels] + noise * rng.normal(size=(n, d))).astype(np.float32), labels


def split(x, y, at=160):
    return x[:at], y[:at], x[at:], y[at:]


@pytest.fixture(scope="module")
def fitted():
    return fit_linear(*split(*blobs()), n_classes=4, task="classification", keep_path=True)


def test_default_grid_is_forty_values_from_1e_minus_6_to_1e4(fitted):
    grid = fitted.settings["c_grid"]
    assert (len(grid), grid[0]) == (40, 1e-6)
    np.testing.assert_allclose(np.diff(np.log10(grid)), 10 / 39)
    np.testing.assert_allclose(grid[-1], 1e4)


def test_settings_hold_one_entry_per_c_and_survive_json(fitted):
    settings = json.loads(json.dumps(fitted.settings, allow_nan=False))
    for name in ("val_scores", "objectives", "gradient_norms", "gaps", "iterations", "converged"):
        assert len(settings[name]) == 40, name
    assert all(settings["converged"]) and settings["final"]["converged"]


def test_objectives_never_rise_with_c(fitted):
    assert (np.diff(fitted.settings["objectives"]) <= 1e-9).all()


def test_best_c_is_the_smallest_of_the_best_on_validation(fitted):
    _, _, val_x, val_y = split(*blobs())
    scores = [((val_x @ w.T + b).argmax(1) == val_y).mean() for w, b in fitted.path]
    assert fitted.settings["val_scores"] == pytest.approx(scores)
    assert fitted.settings["best_c"] == fitted.settings["c_grid"][int(np.argmax(scores))]


def test_ties_on_validation_go_to_the_smallest_c():
    x, y = blobs(noise=0.01)
    fit = fit_linear(*split(x, y), n_classes=4, task="classification", c_grid=[1.0, 10.0, 100.0])
    assert fit.settings["val_scores"] == [1.0, 1.0, 1.0]
    assert fit.settings["best_c"] == 1.0


@pytest.mark.parametrize("grid", [[1e-6, 1e-5], [1e3, 1e4]])
def test_best_c_on_the_edge_of_the_grid_is_a_gate(grid):
    fit = fit_linear(*split(*blobs()), n_classes=4, task="classification", c_grid=grid)
    assert "best_c_on_edge" in fit.gates


def test_a_grid_of_one_value_has_no_edge():
    fit = fit_linear(*split(*blobs()), n_classes=4, task="classification", c_grid=[1.0])
    assert fit.gates == []


def test_refit_uses_validation_unless_told_otherwise():
    data = split(*blobs())
    common = {"n_classes": 4, "task": "classification", "c_grid": [0.1], "keep_path": True}
    alone = fit_linear(*data, merge_val=False, **common)
    np.testing.assert_array_equal(alone.coef, alone.path[0][0])
    merged = fit_linear(*data, merge_val=True, **common)
    whole = np.concatenate(data[::2]), np.concatenate(data[1::2])
    direct = fit_linear(*whole, *whole, merge_val=False, **common)
    np.testing.assert_allclose(merged.coef, direct.coef, atol=2e-4)


def test_scores_are_probabilities_of_the_stored_coefficients(fitted):
    x, _ = blobs()
    scores = fitted.scores(x)
    assert scores.dtype == np.float32 and scores.shape == (240, 4)
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-6)
    logits = x @ fitted.coef.T + fitted.intercept
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_a_repeat_gives_the_same_bits(fitted):
    again = fit_linear(*split(*blobs()), n_classes=4, task="classification")
    assert again.coef.tobytes() == fitted.coef.tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("merge_val", [True, False])
def test_a_class_missing_from_train_keeps_the_other_ids(backend, merge_val):
    x, y = blobs()
    y = np.where(y == 1, 4, y)  # ids 0, 2, 3, 4 of 6
    fit = fit_linear(
        *split(x, y), n_classes=6, task="classification", merge_val=merge_val, backend=backend
    )
    scores = fit.scores(x)
    assert scores.shape == (240, 6)
    np.testing.assert_array_equal(scores[:, [1, 5]], 0)
    assert set(scores.argmax(1)) <= {0, 2, 3, 4}
    assert (scores.argmax(1) == y).mean() > 0.6


def test_a_class_that_only_validation_has_is_learnt_in_the_refit():
    x, y = blobs(noise=0.3)
    data = list(split(x, y))
    keep = data[1] != 2
    data[0], data[1] = data[0][keep], data[1][keep]
    options = {"n_classes": 4, "task": "classification", "c_grid": [10.0]}
    fit = fit_linear(*data, **options)
    assert fit.scores(x)[y == 2, 2].mean() > 0.5
    whole = np.concatenate(data[::2]), np.concatenate(data[1::2])
    direct = fit_linear(*whole, *whole, merge_val=False, **options)
    np.testing.assert_allclose(fit.coef, direct.coef, atol=1e-3)
    np.testing.assert_allclose(fit.coef.sum(axis=0), 0, atol=1e-5)


def test_one_class_in_train_is_predicted_and_flagged():
    x, y = blobs()
    fit = fit_linear(x, np.full(240, 2), x, y, n_classes=4, task="classification")
    assert "one_class_in_train" in fit.gates and fit.settings["best_c"] is None
    np.testing.assert_array_equal(fit.scores(x), np.eye(4, dtype=np.float32)[[2] * 240])


def multilabel(n=240, d=8, labels=5, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    return x, (x @ rng.normal(size=(d, labels)) + rng.normal(size=(n, labels)) > 0).astype(np.uint8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_constant_labels_get_certain_probabilities(backend):
    x, y = multilabel()
    y[:, 1], y[:, 3] = 0, 1
    fit = fit_linear(*split(x, y), n_classes=5, task="multilabel", backend=backend)
    scores = fit.scores(x)
    np.testing.assert_array_equal(scores[:, 1], 0)
    np.testing.assert_array_equal(scores[:, 3], 1)
    assert ((scores > 0.5) == y)[:, [0, 2, 4]].mean() > 0.75
    assert "label_always_present_in_train:3" in fit.gates


def test_multilabel_is_chosen_by_micro_average_precision():
    from permafrost.metrics.classification import micro_average_precision

    x, y = multilabel()
    fit = fit_linear(*split(x, y), n_classes=5, task="multilabel", merge_val=False)
    best = max(fit.settings["val_scores"])
    assert fit.settings["val_metric"] == "micro_ap"
    assert micro_average_precision(y[160:], fit.scores(x[160:])) == pytest.approx(best, abs=1e-6)


def test_standardize_makes_the_fit_independent_of_units():
    x, y = blobs()
    options = {"n_classes": 4, "task": "classification", "standardize": True}
    units = np.array([1, 1e4, 1e-3, 1, 1, 50, 1, 1e2], np.float32)
    plain = fit_linear(*split(x, y), **options)
    scaled = fit_linear(*split(x * units + 3, y), **options)
    assert plain.settings["best_c"] == scaled.settings["best_c"]
    np.testing.assert_allclose(plain.scores(x), scaled.scores(x * units + 3), atol=2e-3)


def test_standardize_leaves_constant_columns_alone():
    x, y = blobs()
    x[:, 3] = 5
    fit = fit_linear(*split(x, y), n_classes=4, task="classification", standardize=True)
    assert np.isfinite(fit.coef).all() and np.abs(fit.coef[:, 3]).max() < 1e-12


def test_collapsed_features_predict_the_largest_class_and_are_flagged():
    x, y = np.ones((90, 6), np.float32), np.array([0, 1, 1] * 30)
    fit = fit_linear(x, y, x, y, n_classes=2, task="classification")
    assert "collapsed_features" in fit.gates
    np.testing.assert_allclose(fit.scores(x[:1]), [[1 / 3, 2 / 3]], atol=1e-4)


def test_torch_backend_gives_the_same_fit_as_numpy():
    data = split(*blobs())
    fits = [
        fit_linear(*data, n_classes=4, task="classification", backend=name, keep_path=True)
        for name in BACKENDS
    ]
    ours, theirs = (np.array(fit.settings["objectives"]) for fit in fits)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert fits[0].settings["best_c"] == fits[1].settings["best_c"]
    np.testing.assert_allclose(fits[0].coef, fits[1].coef, atol=2e-3)


def test_torch_backend_restores_the_global_matmul_precision():
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        fit_linear(
            *split(*blobs()), n_classes=4, task="classification", c_grid=[1.0], backend="torch"
        )
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_adam_is_seeded_and_comes_near_the_optimum(backend):
    data = split(*blobs())
    options = {"n_classes": 4, "task": "classification", "c_grid": [0.1, 1.0], "backend": backend}
    optimum = fit_linear(*data, **options)
    first, again = (fit_linear(*data, solver="adam", seed=3, **options) for _ in range(2))
    assert first.coef.tobytes() == again.coef.tobytes()
    for reached, least in zip(
        first.settings["objectives"], optimum.settings["objectives"], strict=True
    ):
        assert least <= reached * (1 + 1e-6) and reached < 1.05 * least


def test_progress_wraps_the_values_of_c():
    seen = []

    def watch(values):
        for value in values:
            seen.append(float(value))
            yield value

    fit_linear(
        *split(*blobs()), n_classes=4, task="classification", c_grid=[1.0, 2.0], progress=watch
    )
    assert seen == [1.0, 2.0]


def test_grid_is_sorted():
    assert check_grid([10.0, 0.1, 1.0]).tolist() == [0.1, 1.0, 10.0]


@pytest.mark.parametrize("grid", [[], [0.0, 1.0], [-1.0], [1.0, 1.0], [float("nan")]])
def test_a_grid_without_distinct_positive_values_is_an_error(grid):
    with pytest.raises(PermafrostError, match="C values"):
        check_grid(grid)


def with_value(array, value):
    array = array.copy()
    array[7, 2] = value
    return array


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, lambda a: with_value(a, np.nan), "train features: 1 of 160 rows hold NaN"),
        (2, lambda a: with_value(a, np.inf), "validation features: 1 of 80 rows hold NaN"),
        (2, lambda a: a[:, :5], "5 dimensions, train has 8"),
        (0, lambda a: a[:0], "non-empty"),
        (1, lambda a: a + 1, "outside 0..3"),
        (1, lambda a: a[:-1], "shape"),
    ],
)
def test_bad_arrays_are_errors_that_name_them(place, change, message):
    data = list(split(*blobs()))
    data[place] = change(data[place])
    with pytest.raises(PermafrostError, match=message):
        fit_linear(*data, n_classes=4, task="classification")


@pytest.mark.parametrize("change", [{"task": "regression"}, {"solver": "sgd"}, {"backend": "jax"}])
def test_unknown_options_are_errors(change):
    options = {"n_classes": 4, "task": "classification", **change}
    with pytest.raises(PermafrostError):
        fit_linear(*split(*blobs()), **options)


def test_validation_without_any_label_is_an_error():
    x, y = multilabel()
    y[160:] = 0
    with pytest.raises(PermafrostError, match="micro-AP"):
        fit_linear(*split(x, y), n_classes=5, task="multilabel")


def test_the_cpu_path_imports_no_torch_and_no_scikit_learn():
    code = (
        "import sys, numpy as np; from permafrost.probes.linear import LinearSettings, fit_linear;"
        "x = np.random.default_rng(0).normal(size=(30, 3)); y = np.arange(30) % 3;"
        "fit_linear((x, y), (x, y), LinearSettings(), n_classes=3, task='classification');"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
