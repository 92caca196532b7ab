"""Dense nearest neighbours: patch labels, the choice of layer and patches, resizing, no torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from helpers.stages.probe_jobs import run_probe
from helpers.stores.maps import DENSE_KNN, separable, spec, toy_stores, write_maps
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.metrics.segmentation import evaluate
from permafrost.probes.dense.interpolate import (
    bilinear_matrix,
    resize_bilinear,
    resize_mask,
)
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.dense.patch_targets import NO_LABEL, patch_labels
from permafrost.probes.dense_knn.probe import PatchClasses, choose_layer, train_patches


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


def run(stores, folder, *, seed=0, second_output=None, **options):
    output = folder / f"{len(list(folder.iterdir()))}.parquet"
    run_probe(
        spec({**DENSE_KNN, **options}, seed),
        stores,
        output,
        device="cpu",
        second_output=second_output,
    )
    return read_table(output, expect="0" * 32)


def confusion(table, classes=3):
    flat = table["confusion"].combine_chunks().flatten().to_numpy()
    return flat.reshape(len(table), classes, classes)


def brute_force_labels(mask, grid, classes, ignored):
    out = np.full(grid, NO_LABEL)
    height, width = mask.shape
    for i, j in np.ndindex(grid):
        found = [
            mask[y, x]
            for y, x in np.ndindex(mask.shape)
            if i <= (y + 0.5) * grid[0] / height < i + 1
            and j <= (x + 0.5) * grid[1] / width < j + 1
            and mask[y, x] != ignored
        ]
        if found:
            out[i, j] = np.bincount(found, minlength=classes).argmax()
    return out


@pytest.mark.parametrize(
    ("shape", "grid"), [((12, 16), (3, 4)), ((13, 10), (4, 7)), ((3, 3), (5, 2))]
)
def test_a_patch_has_the_label_of_most_of_its_pixels(shape, grid):
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 3, shape).astype(np.uint8)
    mask[rng.random(shape) < 0.4] = 255
    mask[:4, :4] = 255
    found = patch_labels(mask, grid, 3, 255)
    np.testing.assert_array_equal(found, brute_force_labels(mask, grid, 3, 255))
    assert (found == NO_LABEL).any()


def test_ties_between_classes_go_to_the_smallest():
    mask = np.array([[2, 1], [1, 2]], np.uint8)
    assert patch_labels(mask, (1, 1), 3, 255) == [[1]]


def test_an_ignore_value_that_is_a_class_labels_no_patch():
    mask = np.array([[1, 1], [1, 2]], np.uint8)
    assert patch_labels(mask, (1, 1), 3, 1) == [[2]]


@pytest.mark.parametrize(
    ("source", "target"), [((4, 6), (16, 9)), ((5, 1), (3, 7)), ((7, 7), (7, 7))]
)
@pytest.mark.parametrize("align_corners", [False, True])
def test_resizing_by_matrices_is_that_of_torch(source, target, align_corners):
    import torch

    maps = np.random.default_rng(0).normal(size=(2, 3, *source)).astype(np.float32)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(maps), target, mode="bilinear", align_corners=align_corners
    ).numpy()
    rows = bilinear_matrix(source[0], target[0], align_corners)
    columns = bilinear_matrix(source[1], target[1], align_corners)
    np.testing.assert_allclose(rows @ maps @ columns.T, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    if not align_corners:
        np.testing.assert_allclose(resize_bilinear(maps, target), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("source", "target"), [((13, 20), (16, 16)), ((20, 9), (7, 30))])
def test_masks_are_resized_as_by_nearest_exact(source, target):
    import torch

    mask = np.random.default_rng(0).integers(0, 250, source).astype(np.uint8)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(mask)[None, None].double(), target, mode="nearest-exact"
    )
    np.testing.assert_array_equal(resize_mask(mask, target), expected[0, 0])


@pytest.mark.parametrize(
    ("heights", "chosen"), [((2, 4, 8, 16), 1), ((8, 8, 8), 0), ((1, 16), 1), ((2, 3), 1)]
)
def test_the_layer_with_patches_closest_to_sixteen_pixels_is_taken(tmp_path, heights, chosen):
    maps = [np.zeros((1, 2, h, h), np.float32) for h in heights]
    path = write_maps(tmp_path / "a.zarr", maps, np.zeros((1, 64, 64), np.uint8))
    split = MaskSplit(path)
    assert choose_layer(split, None, "toy").array == f"map{chosen}"
    assert choose_layer(split, "layer1", "toy").array == f"map{len(heights) - 1}"
    with pytest.raises(PermafrostError, match="no map of layer"):
        choose_layer(split, "layer7", "toy")


def test_separable_patches_are_told_apart(toy, tmp_path):
    table, metadata = run(toy, tmp_path, layer="layer1", boundary=0.05)
    assert evaluate(confusion(table).sum(axis=0))["mean_iou"] > 0.75
    assert metadata["layers"] == ["layer1"] and metadata["head"] is None
    assert metadata["feature_dim"] == 5 and metadata["kind"] == "dense_knn"
    assert metadata["settings"]["patches"] == metadata["settings"]["patches_available"] == 24 * 64
    assert {"boundary_intersection", "boundary_union"} <= set(table.column_names)


def test_patches_without_labels_are_dropped_and_too_many_are_drawn(tmp_path):
    maps, masks = separable(12)
    masks[:, :4, :4] = 255
    split = MaskSplit(write_maps(tmp_path / "train.zarr", maps, masks))
    layer = split.layers[0]
    features, labels, available = train_patches(PatchClasses, split, layer, 10**6, 0)
    assert available == len(labels) == 12 * 15
    stored = split.store.read("map0").transpose(0, 2, 3, 1).astype(np.float32)
    np.testing.assert_array_equal(features, stored.reshape(12, 16, 5)[:, 1:].reshape(-1, 5))
    some = [train_patches(PatchClasses, split, layer, 50, seed) for seed in (0, 0, 1)]
    assert [len(labels) for _, labels, _ in some] == [50] * 3
    np.testing.assert_array_equal(some[0][0], some[1][0])
    assert (some[0][0] != some[2][0]).any()
    rows = {tuple(row): label for row, label in zip(features, labels, strict=True)}
    assert all(rows[tuple(row)] == label for row, label in zip(*some[0][:2], strict=True))


def test_k_beyond_the_patches_is_an_error(toy, tmp_path):
    with pytest.raises(PermafrostError, match="k = 9 neighbours of 5 labelled"):
        run(toy, tmp_path, k=9, max_patches=5)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_the_nearest_class_mean_of_patches(tmp_path, metric):
    """Against means, distances and torch's resizing of a few lines."""
    import torch

    stores = toy_stores(tmp_path / "toy")
    given = {key: value for key, value in DENSE_KNN.items() if key != "k"}
    given |= {"kind": "dense_centroid", "layer": "layer1", "metric": metric}
    (tmp_path / "out").mkdir()
    run_probe(spec(given), stores, tmp_path / "out" / "x.parquet", device="cpu")
    table, metadata = read_table(tmp_path / "out" / "x.parquet", expect="0" * 32)
    assert metadata["settings"]["patches"] == 24 * 64 and metadata["kind"] == "dense_centroid"

    def moved(rows):
        length = np.linalg.norm(rows, axis=-1, keepdims=True)
        return rows / length if metric == "cosine" else rows

    train, test = (MaskSplit(stores[name]) for name in ("train", "test"))
    layer = next(one for one in train.layers if one.name == "layer1")
    features, labels, _ = train_patches(PatchClasses, train, layer, 10**6, 0)
    features = moved(features.astype(float))
    means = moved(np.stack([features[labels == one].mean(axis=0) for one in range(3)]))
    maps = moved(test.maps(layer, 0, 10).transpose(0, 2, 3, 1).astype(float))
    scores = -((maps[..., None, :] - means) ** 2).sum(axis=-1)
    if metric == "cosine":
        scores = maps @ means.T
    large = torch.nn.functional.interpolate(
        torch.from_numpy(scores.transpose(0, 3, 1, 2)), (16, 16), mode="bilinear"
    )
    predicted, truth = large.argmax(dim=1).numpy(), test.truths(0, 10)
    expected = np.zeros((10, 3, 3), int)
    for image, (own, said) in enumerate(zip(truth, predicted, strict=True)):
        np.add.at(expected[image], (own[own != 255], said[own != 255]), 1)
    np.testing.assert_array_equal(confusion(table), expected)
    assert evaluate(expected.sum(axis=0))["mean_iou"] > 0.75


def test_a_class_without_patches_is_never_the_nearest(tmp_path):
    stores = toy_stores(tmp_path / "toy", classes=4)
    given = {key: value for key, value in DENSE_KNN.items() if key != "k"}
    run_probe(
        spec({**given, "kind": "dense_centroid"}), stores, tmp_path / "x.parquet", device="cpu"
    )
    table, metadata = read_table(tmp_path / "x.parquet", expect="0" * 32)
    assert not confusion(table, 4)[:, :, 3].any()
    assert "class_missing_in_train:3" in metadata["gates"]


def test_masks_are_written_too(toy, tmp_path):
    from permafrost.core.stores import Store

    run(toy, tmp_path, masks="zarr", second_output=tmp_path / "masks.zarr")
    assert Store(tmp_path / "masks.zarr", expect="0" * 32).shape("predictions") == (10, 16, 16)


def test_dense_knn_imports_no_torch(toy, tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'tests'); from helpers.stores.maps import *;"
        f"stores = { ({k: str(v) for k, v in toy.items()})!r};"
        f"run_probe(spec(DENSE_KNN), stores, {str(tmp_path / 'x.parquet')!r}, device='cpu');"
        "print([m for m in ('torch', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_one_index_serves_all_blocks_of_test_patches(toy, tmp_path, monkeypatch):
    from permafrost.probes.dense_knn import probe as patches

    whole = confusion(run(toy, tmp_path)[0])
    made, searched = [], []

    class Spy(patches.NeighbourSearch):
        def __init__(self, features, k, **options):
            super().__init__(features, k, **options)
            made.append(features)

        def find(self, queries):
            searched.append(len(queries))
            return super().find(queries)

    monkeypatch.setattr(patches, "NeighbourSearch", Spy)
    monkeypatch.setattr(patches, "QUERIES", 1)
    np.testing.assert_array_equal(confusion(run(toy, tmp_path)[0]), whole)
    assert len(made) == 1 and len(searched) == 10
