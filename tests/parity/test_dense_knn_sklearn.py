"""Dense nearest neighbours against scikit-learn's brute force and torch's resizing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stages.probe_jobs import run_probe
from helpers.stores.maps import DENSE_KNN, spec, write_maps
from permafrost.core.tables import read_table
from permafrost.probes.dense.map_splits import MaskSplit
from sklearn.neighbors import KNeighborsClassifier


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("resolution", ["native", "working"])
def test_every_confusion_matrix_is_that_of_brute_force(tmp_path, metric, resolution):
    rng = np.random.default_rng(0)
    stores, masks = {}, {}
    for split, count in (("train", 9), ("val", 2), ("test", 5)):
        maps = [rng.normal(size=(count, 6, 4, 3)).astype(np.float32)]
        # two thirds of a patch have one class, so that majorities are clear
        cells = rng.integers(0, 4, (count, 4, 3)).repeat(6, axis=1).repeat(7, axis=2)
        noise = rng.integers(0, 4, cells.shape)
        masks[split] = np.where(rng.random(cells.shape) < 0.7, cells, noise).astype(np.uint8)
        masks[split][rng.random(cells.shape) < 0.1] = 255
        stores[split] = write_maps(
            tmp_path / f"{split}.zarr", maps, masks[split], classes=4, working=(32, 24), split=split
        )
    options = {**DENSE_KNN, "metric": metric, "k": 5, "resolution": resolution}
    run_probe(spec(options), stores, tmp_path / "x.parquet")
    table, _ = read_table(tmp_path / "x.parquet")

    opened = {split: MaskSplit(path) for split, path in stores.items()}
    features = {
        split: one.store.read("map0").transpose(0, 2, 3, 1).reshape(-1, 6).astype(np.float64)
        for split, one in opened.items()
    }
    patches = masks["train"].reshape(9, 4, 6, 3, 7).transpose(0, 1, 3, 2, 4).reshape(-1, 42)
    labels = [np.bincount(patch[patch != 255], minlength=4).argmax() for patch in patches]
    oracle = KNeighborsClassifier(
        5, algorithm="brute", metric="cosine" if metric == "cosine" else "euclidean"
    ).fit(features["train"], labels)
    shares = np.zeros((len(features["test"]), 4))
    shares[:, oracle.classes_] = oracle.predict_proba(features["test"])
    grid = torch.from_numpy(shares.reshape(5, 4, 3, 4).transpose(0, 3, 1, 2).copy()).float()
    size = (24, 21) if resolution == "native" else (32, 24)
    up = torch.nn.functional.interpolate(grid, size, mode="bilinear").numpy()
    truth = torch.from_numpy(masks["test"])[:, None].float()
    truth = torch.nn.functional.interpolate(truth, size, mode="nearest-exact")[:, 0].numpy()
    flat = table["confusion"].combine_chunks().flatten().to_numpy().reshape(5, 4, 4)
    for image in range(5):
        top = np.sort(up[image], axis=0)
        # where two classes have the same share, rounding decides
        clear = (top[-1] - top[-2] > 1e-5) & (truth[image] != 255)
        cells = truth[image][clear].astype(int) * 4 + up[image].argmax(axis=0)[clear]
        expected = np.bincount(cells, minlength=16).reshape(4, 4)
        assert (flat[image] >= expected).all()
        unsure = (truth[image] != 255).sum() - clear.sum()
        assert flat[image].sum() - expected.sum() == unsure < 0.25 * clear.size
