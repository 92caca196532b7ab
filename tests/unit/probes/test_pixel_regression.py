"""Numbers per pixel: tables of the probes, what is kept and shown, gates, comparison, refusals."""

from __future__ import annotations

import io

import numpy as np
import pytest
import rasterio
from helpers.stores.maps import separable, write_maps
from helpers.stores.targets import linear, run, toy_stores, write_targets
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store
from permafrost.probes.dense.shown import LONGEST, thinned
from permafrost.probes.dense.tables import BINS, enlarged, joint_histogram
from permafrost.statistics.predictions.pixel_numbers import PredictedPixels
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.gates import score_gates

PROBES = ["dense_ridge", "dense_knn"]
pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


@pytest.fixture
def stores(tmp_path):
    return toy_stores(tmp_path / "stores")


def gates_of(table, metadata) -> list[str]:
    found = predictions_from_table(table, metadata)
    return score_gates(found, bootstrap_scores(found, seed=1))


@pytest.mark.parametrize("kind", PROBES)
def test_a_table_says_what_it_is_and_is_scored(stores, tmp_path, kind):
    table, metadata, _ = run(stores, tmp_path / "out", kind)
    assert (metadata["task"], metadata["kind"], metadata["target"]) == (
        "pixel_regression",
        kind,
        "height",
    )
    assert (metadata["n_train"], metadata["n_val"], metadata["n_test"]) == (12, 5, 7)
    assert metadata["layers"] and metadata["resolution"] == "native" and metadata["centre"] == 3
    found = predictions_from_table(table, metadata)
    assert isinstance(found, PredictedPixels) and found.evaluate()["r2"] > 0.3
    targets = Store(stores["test"]).read("targets")
    assert table["pixels"].to_pylist() == (~np.isnan(targets)).sum(axis=(1, 2)).tolist()
    counts = np.array(metadata["histogram"]["counts"])
    assert counts.shape == (BINS, BINS) and counts.sum() == sum(table["pixels"].to_pylist())
    assert gates_of(table, metadata) == ["few_units"]


@pytest.mark.parametrize("kind", PROBES)
def test_all_probes_show_the_same_images_and_the_extremes(stores, tmp_path, kind):
    table, _, _ = run(stores, tmp_path / "out", kind, pictures=2)
    kinds = table["shown"].to_pylist()
    assert [kinds.count(name) for name in ("drawn", "best", "worst")] == [2, 2, 2]
    other, _, _ = run(stores, tmp_path / "out", "dense_knn", k=1, pictures=2)
    drawn = [
        [i for i, k in enumerate(t["shown"].to_pylist()) if k == "drawn"] for t in (table, other)
    ]
    assert drawn[0] == drawn[1]
    rmse = np.sqrt(np.array(table["squared_error"]) / np.array(table["pixels"]))
    rated = [i for i, kind in enumerate(kinds) if kind != "drawn"]
    assert kinds[max(rated, key=lambda i: rmse[i])] == "worst"
    assert kinds[min(rated, key=lambda i: rmse[i])] == "best"
    raster = np.load(io.BytesIO(table["raster"][kinds.index("worst")].as_py()))
    assert raster.shape == (16, 16) and raster.dtype == np.float32
    none, _, _ = run(stores, tmp_path / "out", kind, pictures=0)
    assert none["raster"].null_count == none["shown"].null_count == 7


@pytest.mark.parametrize("kind", PROBES)
@pytest.mark.parametrize("form", ["zarr", "geotiff"])
def test_predicted_rasters_are_kept_where_they_are_asked_for(stores, tmp_path, kind, form):
    place = tmp_path / "masks"
    table, _, _ = run(stores, tmp_path / "out", kind, masks=form, second_output=place)
    row = table["shown"].to_pylist().index("worst")
    shown = np.load(io.BytesIO(table["raster"][row].as_py()))
    if form == "zarr":
        kept = Store(place).read("predictions")[row]
    else:
        with rasterio.open(place / f"{table['sample_id'][row]}.tif") as file:
            kept = file.read(1)
    assert kept.dtype == np.float32
    np.testing.assert_array_equal(kept, shown)


def test_images_of_several_sizes_and_without_data_are_scored_as_they_are(tmp_path):
    maps, targets = linear(6, seed=2)
    sizes = [[16, 16]] * 5 + [[12, 9]]
    targets[5, 12:], targets[5, :, 9:] = np.nan, np.nan
    targets[1] = np.nan
    stores = toy_stores(tmp_path / "s")
    stores["test"] = write_targets(
        tmp_path / "t.zarr", maps, targets, split="test", sizes=sizes, working=(16, 16)
    )
    place = tmp_path / "masks"
    table, metadata, _ = run(stores, tmp_path / "o", masks="geotiff", second_output=place)
    assert table["pixels"][1].as_py() == 0 and table["truth_min"][1].as_py() is None
    assert table["pixels"][5].as_py() == np.count_nonzero(~np.isnan(targets[5]))
    with rasterio.open(place / "test-5.tif") as file:
        assert file.shape == (12, 9)
    assert predictions_from_table(table, metadata).evaluate()["r2"] > 0.3
    # a resample that draws nothing but the image without data has no score
    units = np.array([0, 1, 0, 0, 0, 0])
    from permafrost.statistics.resampling.resamples import Resamples

    family = predictions_from_table(table, metadata).family(units)
    only = family.replicates(Resamples.of(np.array([[0], [2]], np.uint8)))
    assert all(np.isnan(value[0]) for value in only.values())


def test_the_working_resolution_scores_resized_targets(stores, tmp_path):
    about = {"working": (8, 8)}
    small = {
        split: write_targets(tmp_path / f"{split}8.zarr", *linear(n, seed=i), split=split, **about)
        for i, (split, n) in enumerate({"train": 12, "val": 5, "test": 7}.items())
    }
    table, metadata, _ = run(small, tmp_path / "out", resolution="working", stride=2)
    targets = Store(small["test"]).read("targets")[:, 1::2, 1::2]
    assert metadata["working_size"] == [8, 8]
    assert table["pixels"].to_pylist() == (~np.isnan(targets)).sum(axis=(1, 2)).tolist()


def test_layers_are_chosen_by_name_and_stride(stores, tmp_path):
    everything = run(stores, tmp_path / "o")[1]
    assert (everything["layers"], everything["settings"]["grid"]) == (["layer2", "layer1"], [4, 4])
    assert everything["feature_dim"] == 10
    fine = run(stores, tmp_path / "o", stride=1)[1]
    assert fine["settings"]["grid"] == [8, 8]
    one = run(stores, tmp_path / "o", layers=["layer1"])[1]
    assert (one["layers"], one["settings"]["grid"], one["feature_dim"]) == (["layer1"], [8, 8], 5)
    with pytest.raises(PermafrostError, match="no map of layer 'layer9'"):
        run(stores, tmp_path / "o", layers=["layer9"])


def test_few_patches_are_drawn_where_there_are_more(stores, tmp_path):
    _, metadata, _ = run(stores, tmp_path / "o", "dense_knn", max_patches=50)
    assert metadata["settings"]["patches"] == 50 < metadata["settings"]["patches_available"]
    with pytest.raises(PermafrostError, match="k = 51 neighbours of 50 train patches with data"):
        run(stores, tmp_path / "o", "dense_knn", max_patches=50, k=51)


def test_alpha_on_the_edge_and_collapsed_features_are_flagged(stores, tmp_path):
    assert run(stores, tmp_path / "o")[1]["gates"] == []
    _, weak, _ = run(stores, tmp_path / "o", alpha_min=1e7, alpha_max=1e8)
    assert weak["gates"] == ["best_alpha_on_edge"] and weak["settings"]["alpha"] == 1e7
    flat = {}
    for i, (split, count) in enumerate({"train": 6, "val": 3, "test": 3}.items()):
        maps, targets = linear(count, seed=i)
        maps = [np.full_like(m, 0.1) for m in maps]
        flat[split] = write_targets(tmp_path / f"{split}.zarr", maps, targets, split=split)
    table, metadata, _ = run(flat, tmp_path / "o")
    assert "collapsed_features" in metadata["gates"]
    assert {"constant_predictions", "below_chance"} <= set(gates_of(table, metadata))


def test_a_constant_target_in_test_leaves_r2_undefined_with_a_reason(stores, tmp_path):
    maps, targets = linear(4, seed=2)
    targets[~np.isnan(targets)] = 2.5
    stores["test"] = write_targets(tmp_path / "t.zarr", maps, targets, split="test")
    table, metadata, _ = run(stores, tmp_path / "o")
    found = predictions_from_table(table, metadata)
    rows = {row["metric"]: row for row in bootstrap_scores(found, seed=1)}
    assert np.isnan(rows["r2"]["value"]) and rows["r2"]["n_undefined"] == rows["r2"]["resamples"]
    assert np.isfinite(rows["rmse"]["value"]) and np.isfinite(rows["mae"]["upper"])
    assert "constant_target_in_test" in gates_of(table, metadata)


def test_backbones_are_paired_only_on_the_same_truth(stores, tmp_path):
    found = {}
    for name, kind in (("a", "dense_ridge"), ("b", "dense_knn")):
        table, metadata, _ = run(stores, tmp_path / "o", kind)
        found[name] = predictions_from_table(table, metadata)
    (row,) = compare(found, resamples=100, seed=0)
    assert row["metric"] == "r2" and row["unit"] == "group"
    maps, targets = linear(7, seed=2)
    other = {**stores, "test": write_targets(tmp_path / "t.zarr", maps, targets + 1, split="test")}
    table, metadata, _ = run(other, tmp_path / "o")
    with pytest.raises(PermafrostError, match="different targets"):
        compare({**found, "c": predictions_from_table(table, metadata)}, seed=0)


@pytest.mark.parametrize("kind", PROBES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_features_that_are_not_finite_are_refused(stores, tmp_path, kind, split):
    maps, targets = linear(5, seed=1)
    for values in maps:
        values[2, 0, 1, 1] = np.nan
    stores[split] = write_targets(tmp_path / "bad.zarr", maps, targets, split=split)
    with pytest.raises(PermafrostError, match="NaN or infinity") as caught:
        run(stores, tmp_path / "o", kind)
    assert caught.value.where and caught.value.remedy
    assert not list((tmp_path / "o").iterdir())


def test_a_fit_needs_two_images_and_a_validation(stores, tmp_path):
    maps, targets = linear(4, seed=1)
    empty = np.full_like(targets, np.nan)
    without = {**stores, "val": write_targets(tmp_path / "v.zarr", maps, empty, split="val")}
    with pytest.raises(PermafrostError, match="validation, which has no pixel with data"):
        run(without, tmp_path / "o")
    assert run(without, tmp_path / "o", choose="leave_one_image_out")[1]["n_val"] == 4
    empty[0] = targets[0]
    one = {**stores, "train": write_targets(tmp_path / "t.zarr", maps, empty)}
    with pytest.raises(PermafrostError, match="two images with data, train has 1"):
        run(one, tmp_path / "o")


def test_a_test_split_without_data_has_no_score(stores, tmp_path):
    maps, targets = linear(4, seed=1)
    nothing = np.full_like(targets, np.nan)
    stores["test"] = write_targets(tmp_path / "t.zarr", maps, nothing, split="test")
    table, metadata, _ = run(stores, tmp_path / "o")
    with pytest.raises(PermafrostError, match="no pixel of the test set has a target"):
        predictions_from_table(table, metadata)


def test_stores_of_other_tasks_are_refused(tmp_path):
    maps, masks = separable(4)
    path = write_maps(tmp_path / "m.zarr", maps, masks)
    with pytest.raises(PermafrostError, match="numbers per pixel"):
        run(dict.fromkeys(("train", "val", "test"), path), tmp_path / "o")


def test_numbers_beyond_the_range_count_in_the_outermost_bins():
    truth = np.array([[0.0, 10.0], [5.0, np.nan]])
    said = np.array([[-3.0, 12.0], [5.0, 1.0]])
    counts = joint_histogram(truth, said, (0.0, 10.0))
    middle = BINS // 2
    assert counts[0, 0] == counts[-1, -1] == counts[middle, middle] == 1 and counts.sum() == 3


def test_enlarging_keeps_the_digits_of_large_numbers():
    grid = 1e7 + np.arange(4.0).reshape(2, 2) / 1000
    np.testing.assert_allclose(enlarged(grid, (4, 4))[0, 0], 1e7, atol=1e-8)
    np.testing.assert_allclose(enlarged(grid, (4, 4)).mean() - 1e7, 0.0015, atol=1e-7)


def test_large_rasters_are_thinned_for_pictures():
    raster = np.arange(1100 * 300).reshape(1100, 300)
    small = thinned(raster)
    assert max(small.shape) <= LONGEST
    np.testing.assert_array_equal(small, raster[::3, ::3])
