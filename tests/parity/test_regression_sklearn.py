"""Ridge, nearest neighbours and metrics of numbers against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from permafrost.metrics.regression import evaluate
from permafrost.probes.embeddings.features import Features
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.ridge.probe import run_ridge
from permafrost.probes.ridge.solver import Ridge
from sklearn import linear_model, metrics, neighbors, preprocessing

ALPHAS = np.logspace(-3, 5, 9)
SHAPES = [(60, 8), (30, 50), (20, 20)]


def data(count: int, width: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    units = rng.uniform(0.1, 30, width)
    x = (rng.normal(size=(count, width)) * units + 100).astype(np.float32)
    return x, x @ (rng.normal(size=width) / units) + rng.normal(size=count) + 7


def splits(task="regression", width=8, **counts) -> dict[str, Features]:
    made = {}
    x, y = data(sum(counts.values()), width)
    start = 0
    for name, count in counts.items():
        rows = slice(start, start + count)
        made[name] = Features(x[rows], y[rows], None, {"task": task, "classes": []})
        start += count
    return made


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_predictions_of_every_alpha_are_those_of_ridge(shape, standardize):
    x, y = data(*shape)
    new, _ = data(15, shape[1], seed=1)
    ours = Ridge.of(x, y, standardize=standardize).predict(new, ALPHAS)
    scaler = preprocessing.StandardScaler(with_std=standardize).fit(x.astype(np.float64))
    for column, alpha in enumerate(ALPHAS):
        theirs = linear_model.Ridge(alpha=alpha, solver="svd")
        theirs.fit(scaler.transform(x.astype(np.float64)), y)
        expected = theirs.predict(scaler.transform(new.astype(np.float64)))
        np.testing.assert_allclose(ours[:, column], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_left_out_residuals_are_those_of_ridge_cv_and_of_leaving_out(shape):
    x, y = data(*shape)
    ours = Ridge.of(x, y, standardize=False).left_out(x, ALPHAS)
    theirs = linear_model.RidgeCV(alphas=ALPHAS, store_cv_results=True).fit(x, y)
    np.testing.assert_allclose(ours**2, theirs.cv_results_, rtol=1e-5)
    keep = np.arange(len(y)) != 4
    alone = linear_model.Ridge(alpha=ALPHAS[3], solver="svd").fit(x[keep].astype(float), y[keep])
    np.testing.assert_allclose(ours[4, 3], y[4] - alone.predict(x[4:5])[0], rtol=1e-5)


@pytest.mark.parametrize("merge_val", [False, True])
def test_leave_one_out_chooses_the_alpha_of_ridge_cv(merge_val):
    made = splits(train=40, val=20, test=10)
    options = {
        "alpha_min": 1e-3,
        "alpha_max": 1e5,
        "alpha_count": 9,
        "choose": "leave_one_out",
        "merge_val": merge_val,
        "standardize": False,
    }
    result = run_ridge(made, options_of("ridge", options), device="cpu", seed=0)
    names = ("train", "val") if merge_val else ("train",)
    x = np.concatenate([made[name].embeddings for name in names]).astype(np.float64)
    y = np.concatenate([made[name].labels for name in names])
    theirs = linear_model.RidgeCV(alphas=ALPHAS).fit(x, y)
    assert result.settings["alpha"] == pytest.approx(theirs.alpha_)
    expected = theirs.predict(made["test"].embeddings.astype(np.float64))
    np.testing.assert_allclose(result.prediction, expected, rtol=1e-6)


@pytest.mark.parametrize("merge_val", [False, True])
def test_validation_chooses_what_fits_it_best(merge_val):
    made = splits(train=40, val=20, test=10)
    options = {
        "alpha_min": 1e-3,
        "alpha_max": 1e5,
        "alpha_count": 9,
        "choose": "validation",
        "merge_val": merge_val,
        "standardize": True,
    }
    result = run_ridge(made, options_of("ridge", options), device="cpu", seed=0)
    pipe = [
        linear_model.Ridge(alpha=alpha, solver="svd").fit(
            preprocessing.StandardScaler()
            .fit(made["train"].embeddings.astype(float))
            .transform(made["train"].embeddings.astype(float)),
            made["train"].labels,
        )
        for alpha in ALPHAS
    ]
    scaler = preprocessing.StandardScaler().fit(made["train"].embeddings.astype(float))
    val = scaler.transform(made["val"].embeddings.astype(float))
    rmse = [metrics.root_mean_squared_error(made["val"].labels, p.predict(val)) for p in pipe]
    np.testing.assert_allclose(result.settings["val_scores"], rmse, rtol=1e-6)
    best = ALPHAS[int(np.argmin(rmse))]
    assert result.settings["alpha"] == pytest.approx(best)
    names = ("train", "val") if merge_val else ("train",)
    x = np.concatenate([made[name].embeddings for name in names]).astype(np.float64)
    y = np.concatenate([made[name].labels for name in names])
    final = preprocessing.StandardScaler().fit(x)
    expected = linear_model.Ridge(alpha=best, solver="svd").fit(final.transform(x), y)
    said = expected.predict(final.transform(made["test"].embeddings.astype(float)))
    np.testing.assert_allclose(result.prediction, said, rtol=1e-6)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_neighbours_say_what_kneighbors_regressor_says(metric):
    made = splits(train=80, val=5, test=30)
    result = run_knn(made, options_of("knn", {"k": 5, "metric": metric}), device="cpu", seed=0)
    name = "euclidean" if metric == "l2" else "cosine"
    theirs = neighbors.KNeighborsRegressor(5, metric=name, algorithm="brute")
    theirs.fit(made["train"].embeddings.astype(float), made["train"].labels)
    expected = theirs.predict(made["test"].embeddings.astype(float))
    np.testing.assert_allclose(result.prediction, expected, rtol=1e-12)
    assert result.scores is None


def test_metrics_are_those_of_scikit_learn():
    _, y = data(50, 4)
    said = y + np.random.default_rng(1).normal(size=50)
    assert evaluate(y, said) == pytest.approx(
        {
            "r2": metrics.r2_score(y, said),
            "rmse": metrics.root_mean_squared_error(y, said),
            "mae": metrics.mean_absolute_error(y, said),
            "median_absolute_error": metrics.median_absolute_error(y, said),
        }
    )
    assert (
        evaluate(y, -said)["r2"] == pytest.approx(metrics.r2_score(y, -said))
        and evaluate(y, -said)["r2"] < 0
    )
