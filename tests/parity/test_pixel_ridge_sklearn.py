"""Ridge and nearest neighbours of numbers per pixel against scikit-learn and against refitting."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from helpers.stores.targets import linear, run, toy_stores, write_targets
from permafrost.core.stores import Store
from permafrost.probes.dense.map_splits import TargetSplit
from permafrost.probes.dense.patch_targets import patch_means
from permafrost.probes.dense_ridge.patch_ridge import BLOCK, Moments, PatchRidge
from permafrost.probes.dense_ridge.probe import Patches
from sklearn import linear_model, metrics, neighbors, preprocessing

ALPHAS = np.logspace(-2, 4, 7)
SHAPES = [(300, 6), (30, 45), (25, 25)]


def weighted(count: int, width: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(count, width)) * rng.uniform(0.1, 20, width) + 50).astype(np.float32)
    y = x @ rng.normal(size=width) / 10 + rng.normal(size=count) + 1e3
    return x, y, rng.uniform(0.05, 1, count)


def fitted(x, y, w, *, standardize=False, pieces=7) -> PatchRidge:
    moments = Moments(x.shape[1])
    for part in np.array_split(np.arange(len(x)), pieces):
        moments.add(x[part], y[part], w[part])
    return PatchRidge.of(moments, standardize=standardize)


def expected(x, y, w, new, alpha, *, standardize):
    x, new = x.astype(np.float64), new.astype(np.float64)
    if standardize:
        scaler = preprocessing.StandardScaler().fit(x, sample_weight=w)
        x, new = scaler.transform(x), scaler.transform(new)
    theirs = linear_model.Ridge(alpha=alpha, solver="svd").fit(x, y, sample_weight=w)
    return theirs.predict(new)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_alpha_predicts_what_ridge_with_sample_weights_does(shape, standardize):
    x, y, w = weighted(*shape)
    new, _, _ = weighted(20, shape[1], seed=1)
    ours = fitted(x, y, w, standardize=standardize).predict(new, ALPHAS)
    for column, alpha in enumerate(ALPHAS):
        theirs = expected(x, y, w, new, alpha, standardize=standardize)
        np.testing.assert_allclose(ours[:, column], theirs, rtol=1e-6)


def test_sums_do_not_depend_on_how_rows_come_and_survive_a_large_offset():
    x, y, w = weighted(BLOCK + 500, 4)
    x, y = x.astype(np.float64) + 1e6, y + 1e6
    one, many = fitted(x, y, w, pieces=1), fitted(x, y, w, pieces=900)
    np.testing.assert_allclose(one.squares, many.squares, rtol=1e-9)
    said = many.predict(x[:9], ALPHAS[:1])[:, 0]
    theirs = expected(x - 1e6, y - 1e6, w, x[:9] - 1e6, ALPHAS[0], standardize=False)
    np.testing.assert_allclose(said - 1e6, theirs, rtol=1e-6)


@pytest.mark.parametrize(("shape", "size"), [((120, 5), 9), ((60, 30), 6), ((40, 70), 8)])
@pytest.mark.parametrize("standardize", [False, True])
def test_residuals_without_an_image_are_those_of_fits_without_it(shape, size, standardize):
    # the first has more rows in an image than features, the others fewer: both forms are solved
    x, y, w = weighted(*shape)
    fit = fitted(x, y, w, standardize=standardize)
    scaler = preprocessing.StandardScaler(with_std=standardize).fit(
        x.astype(float), sample_weight=w
    )
    scaled = scaler.transform(x.astype(float))
    for start in (0, shape[0] - size):
        image = np.arange(start, start + size)
        rest = np.setdiff1d(np.arange(shape[0]), image)
        ours = fit.left_out(x[image], y[image], w[image], ALPHAS)
        for column, alpha in enumerate(ALPHAS):
            alone = linear_model.Ridge(alpha=alpha, solver="svd")
            alone.fit(scaled[rest], y[rest], sample_weight=w[rest])
            theirs = y[image] - alone.predict(scaled[image])
            np.testing.assert_allclose(ours[:, column], theirs, rtol=1e-5, atol=1e-6)


def gathered(stores, names=("train",), stride=4):
    """Features, targets, weights and image of all patches, by other means than the library's."""
    rows = []
    for split in names:
        store = Store(stores[split])
        maps = [store.read(layer["array"]) for layer in store.attributes["layers"]]
        targets = store.read("targets")
        grid = 4 if stride == 4 else 8
        resized = [
            torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(m), grid)
            if m.shape[-1] > grid
            else torch.nn.functional.interpolate(torch.from_numpy(m), (grid, grid), mode="bilinear")
            for m in maps
        ]
        features = torch.cat(resized, dim=1).permute(0, 2, 3, 1).numpy()
        step = targets.shape[1] // grid
        for i, target in enumerate(targets):
            blocks = (
                target.reshape(grid, step, grid, step).transpose(0, 2, 1, 3).reshape(grid, grid, -1)
            )
            for r, c in np.ndindex(grid, grid):
                known = blocks[r, c][~np.isnan(blocks[r, c])]
                if known.size:
                    rows.append(
                        (
                            features[i, r, c],
                            known.astype(float).mean(),
                            known.size / step**2,
                            f"{split}{i}",
                        )
                    )
    x, y, w, image = zip(*rows, strict=True)
    return np.array(x), np.array(y), np.array(w), np.array(image)


def predicted(stores, model, size=16, stride=4):
    """Native predictions of a model of patches, enlarged by torch."""
    store = Store(stores["test"])
    grid = 4 if stride == 4 else 8
    maps = [torch.from_numpy(store.read(layer["array"])) for layer in store.attributes["layers"]]
    resized = [
        torch.nn.functional.adaptive_avg_pool2d(m, grid)
        if m.shape[-1] > grid
        else torch.nn.functional.interpolate(m, (grid, grid), mode="bilinear")
        for m in maps
    ]
    features = torch.cat(resized, dim=1).permute(0, 2, 3, 1).numpy().astype(float)
    said = model(features.reshape(-1, features.shape[-1])).reshape(len(features), 1, grid, grid)
    large = torch.nn.functional.interpolate(torch.from_numpy(said), (size, size), mode="bilinear")
    return large[:, 0].numpy(), store.read("targets")


def scores_of(table) -> dict[str, float]:
    sums = {
        name: np.array(table[name].to_pylist(), float).sum()
        for name in ("pixels", "squared_error", "absolute_error", "truth", "truth_squares")
    }
    variance = sums["truth_squares"] - sums["truth"] ** 2 / sums["pixels"]
    return {
        "r2": 1 - sums["squared_error"] / variance,
        "rmse": np.sqrt(sums["squared_error"] / sums["pixels"]),
        "mae": sums["absolute_error"] / sums["pixels"],
    }


def check_scores(table, said, truth):
    known = ~np.isnan(truth)
    assert scores_of(table) == pytest.approx(
        {
            "r2": metrics.r2_score(truth[known], said[known]),
            "rmse": metrics.root_mean_squared_error(truth[known], said[known]),
            "mae": metrics.mean_absolute_error(truth[known], said[known]),
        },
        rel=1e-5,
    )


@pytest.mark.parametrize("stride", [4, 2])
@pytest.mark.parametrize("merge_val", [False, True])
def test_a_whole_run_is_ridge_on_the_same_patches(tmp_path, merge_val, stride):
    stores = toy_stores(tmp_path / "s")
    table, metadata, _ = run(stores, tmp_path / "o", merge_val=merge_val, stride=stride)
    settings = metadata["settings"]
    x, y, w, _ = gathered(stores, stride=stride)
    vx, vy, vw, _ = gathered(stores, ("val",), stride)
    rmse = [
        np.sqrt(np.average((expected(x, y, w, vx, alpha, standardize=True) - vy) ** 2, weights=vw))
        for alpha in ALPHAS
    ]
    np.testing.assert_allclose(settings["val_scores"], rmse, rtol=1e-5)
    best = ALPHAS[int(np.argmin(rmse))]
    assert settings["alpha"] == pytest.approx(best)
    if merge_val:
        x, y, w, _ = gathered(stores, ("train", "val"), stride)
    said, truth = predicted(
        stores, lambda new: expected(x, y, w, new, best, standardize=True), stride=stride
    )
    check_scores(table, said, truth)
    assert scores_of(table)["r2"] > 0.5
    drawn = [row for row in table.to_pylist() if row["shown"]]
    for row in drawn:
        place = int(row["sample_id"].split("-")[1])
        np.testing.assert_allclose(np.load(io.BytesIO(row["raster"])), said[place], rtol=1e-4)


def test_leaving_one_image_out_scores_every_refit(tmp_path):
    stores = toy_stores(tmp_path / "s", counts=(6, 3, 4))
    _, metadata, _ = run(stores, tmp_path / "o", choose="leave_one_image_out", standardize=False)
    x, y, w, image = gathered(stores, ("train", "val"))
    rmse = []
    for alpha in ALPHAS:
        squares = 0.0
        for name in np.unique(image):
            out = image == name
            said = expected(x[~out], y[~out], w[~out], x[out], alpha, standardize=False)
            squares += w[out] @ (said - y[out]) ** 2
        rmse.append(np.sqrt(squares / w.sum()))
    np.testing.assert_allclose(metadata["settings"]["val_scores"], rmse, rtol=1e-5)
    assert metadata["settings"]["alpha"] == pytest.approx(ALPHAS[int(np.argmin(rmse))])


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_neighbours_say_what_kneighbors_regressor_says(tmp_path, metric):
    stores = toy_stores(tmp_path / "s", grids=(4,))
    table, metadata, _ = run(stores, tmp_path / "o", "dense_knn", metric=metric, k=4)
    x, y, _, _ = gathered(stores)
    name = "euclidean" if metric == "l2" else "cosine"
    theirs = neighbors.KNeighborsRegressor(4, metric=name, algorithm="brute").fit(
        x.astype(float), y
    )
    said, truth = predicted(stores, theirs.predict)
    check_scores(table, said, truth)
    assert metadata["settings"]["patches"] == len(y) == metadata["settings"]["patches_available"]


def test_patches_take_the_mean_of_their_pixels_and_weigh_their_share():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(13, 10)).astype(np.float32)
    target[rng.random(target.shape) < 0.5] = np.nan
    target[:4, :3] = np.nan
    means, shares = patch_means(target, (4, 7))
    for i, j in np.ndindex(4, 7):
        inside = [
            (y, x)
            for y in range(13)
            for x in range(10)
            if i / 4 <= (y + 0.5) / 13 < (i + 1) / 4 and j / 7 <= (x + 0.5) / 10 < (j + 1) / 7
        ]
        values = [float(target[p]) for p in inside if not np.isnan(target[p])]
        assert shares[i, j] == pytest.approx(len(values) / len(inside) if inside else 0)
        if values:
            assert means[i, j] == pytest.approx(np.mean(values), rel=1e-6)
        else:
            assert np.isnan(means[i, j])


def test_finer_maps_are_averaged_over_uneven_cells(tmp_path):
    maps, targets = linear(2, grids=(2, 5), side=20)
    path = write_targets(tmp_path / "x.zarr", maps, targets)
    split = TargetSplit(path)
    patches = Patches.of(split, None, 10, where="here")
    assert patches.grid == (2, 2)
    ((_, rows),) = patches.images(split)
    # the middle line of five belongs half to either side
    shares = np.array([[1, 1, 0.5, 0, 0], [0, 0, 0.5, 1, 1]]) / 2.5
    means = np.einsum("ay,bx,ncyx->nabc", shares, shares, maps[1])
    np.testing.assert_allclose(rows.reshape(2, 2, 2, -1)[..., 5:], means, rtol=1e-5)
