"""Features of augmented views: the same images for all backbones, on the way that every image takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stages.views import OPTIONS, STILL, make_views
from helpers.stores.images import Dataset, sentinel2_bands
from permafrost.core.errors import PermafrostError
from permafrost.features.augmentations import draw_view
from permafrost.features.views import apply_view

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
MODEL = {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}, "seed": 3}
STATS = {"kind": "imagestats", "input": {"size": None}}
SMALL = {"size": 48}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("uniform"))


@pytest.fixture(scope="module")
def ragged(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("ragged"), ragged=True)


def statistics(image: np.ndarray) -> np.ndarray:
    """What imagestats says of (C, H, W)."""
    ways = (np.mean, lambda x, axis: x.std(axis, ddof=1), np.max, np.min)
    return np.concatenate([way(image.astype(np.float64), axis=(1, 2)) for way in ways])


# --- parity with extraction ---------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("entry", [MODEL, STATS, {"kind": "rcf", "features": 16, "seed": 1}])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_views_that_change_nothing_are_the_features_of_extraction(dataset, entry, dtype, device):
    extraction = {**SMALL, "dtype": dtype}
    running = {"batch_size": 8, "device": device}
    features = dataset.extract(entry, extraction=extraction, **running)
    for split, store in features.items():
        views = make_views(
            dataset, entry, split=split, extraction=extraction, running=running, **STILL
        )
        expected = store.read("embeddings")
        found = views.read("views")
        assert found.shape == (len(expected), 4, expected.shape[1]) and found.dtype == dtype
        for view in range(4):
            assert np.array_equal(found[:, view], expected)
        assert views.attributes["input"] == store.attributes["input"]


def test_and_of_images_of_several_sizes(ragged):
    for size in (24, None):
        entry = {"kind": "imagestats", "input": {"size": size}}
        expected = ragged.extract(entry, batch_size=5)["train"].read("embeddings")
        views = make_views(ragged, entry, running={"batch_size": 5, "device": "cpu"}, **STILL)
        assert np.array_equal(views.read("views")[:, 2], expected)


def test_where_maps_need_whole_images_views_are_fed_whole_too(tmp_path):
    dataset = Dataset(tmp_path, masks=True)
    entry = {**MODEL, "input": {"size": 40, "crop": 32, "normalization": "dataset"}}
    features = dataset.extract(entry, batch_size=8)["train"]
    running = {"batch_size": 8, "device": "cpu"}
    views = make_views(dataset, entry, extraction={"maps": True}, running=running, **STILL)
    cropped = make_views(dataset, entry, running=running, out="cropped.zarr", **STILL)
    assert np.array_equal(views.read("views")[:, 0], features.read("embeddings"))
    assert not np.array_equal(cropped.read("views"), views.read("views"))
    assert "labels" not in views and "map0" not in views
    assert "crop" in views.attributes["notes"]


# --- what backbones are fed ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "ragged"])
def test_every_view_is_what_is_drawn_for_its_sample(dataset, ragged, kind):
    given = dataset if kind == "uniform" else ragged
    found = make_views(given, STATS, running={"batch_size": 3, "device": "cpu"}).read("views")
    means, spreads = torch.full((3, 1, 1), 100.0), torch.full((3, 1, 1), 50.0)
    for number, (image, size) in enumerate(
        zip(given.images["train"], given.sizes["train"].tolist(), strict=True)
    ):
        true = torch.from_numpy(image[:, : size[0], : size[1]]).float()
        for view in range(4):
            drawn = draw_view(
                OPTIONS, tuple(size), dataset="tiny", sample_id=f"train-{number}", view=view
            )
            expected = statistics(apply_view(drawn, true, means, spreads).numpy())
            np.testing.assert_allclose(found[number, view], expected, rtol=1e-4, atol=1e-3)


def test_backbones_of_other_bands_and_batches_see_the_same_images(tmp_path):
    dataset = Dataset(tmp_path, bands=sentinel2_bands(), dtype=np.uint16, counts=(10, 3, 3))
    entry = {"kind": "imagestats", "input": {"bands": "all", "size": None}}
    every = make_views(dataset, entry, running={"batch_size": 10, "device": "cpu"}).read("views")
    bands = ["B08", "B02"]
    places = [[band["name"] for band in dataset.bands].index(name) for name in bands]
    two = make_views(
        dataset,
        {"kind": "imagestats", "input": {"bands": bands, "size": None}},
        running={"batch_size": 1, "device": "cpu"},
    ).read("views")
    count = len(dataset.bands)
    for kind in (2, 3):  # maxima and minima, in which no rounding can hide
        one = every[:, :, [kind * count + place for place in places]]
        assert np.array_equal(two[:, :, 2 * kind : 2 * kind + 2], one)


@pytest.mark.parametrize(
    "running", [{"batch_size": 1}, {"batch_size": 7, "workers": 1}, {"threads": 2}]
)
def test_how_it_is_run_changes_nothing(dataset, running):
    whole = make_views(
        dataset, MODEL, extraction=SMALL, running={"batch_size": 20, "device": "cpu"}
    )
    other = make_views(dataset, MODEL, extraction=SMALL, running={"device": "cpu", **running})
    np.testing.assert_allclose(other.read("views"), whole.read("views"), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_is_fed_the_same_views(dataset):
    cpu, cuda = (
        make_views(dataset, STATS, running={"device": device}).read("views")
        for device in ("cpu", "cuda")
    )
    assert np.array_equal(cuda[:, :, 6:], cpu[:, :, 6:])


def test_a_repeat_gives_the_same_bytes(dataset):
    for out in ("once.zarr", "twice.zarr"):
        make_views(dataset, MODEL, extraction=SMALL, out=out)
    files = [path for path in sorted((dataset.folder / "once.zarr").rglob("*")) if path.is_file()]
    assert files
    for file in files:
        other = dataset.folder / "twice.zarr" / file.relative_to(dataset.folder / "once.zarr")
        assert file.read_bytes() == other.read_bytes(), file


def test_views_differ_and_more_of_them_are_further_ones(dataset):
    few = make_views(dataset, STATS, views=3).read("views")
    many = make_views(dataset, STATS, views=6).read("views")
    assert np.array_equal(many[:, :3], few)
    assert len(np.unique(many.reshape(-1, many.shape[-1]), axis=0)) == 20 * 6


# --- samples ------------------------------------------------------------------------------------


def test_of_many_images_some_are_drawn_by_the_seed_and_stay_what_they_are(dataset):
    whole = make_views(dataset, STATS, out="whole.zarr")
    drawn = {}
    for seed in (0, 1):
        for entry in (STATS, MODEL):
            store = make_views(dataset, entry, images=9, seed=seed)
            names = store.samples()["sample_id"].to_pylist()
            assert len(names) == 9 and names == sorted(names, key=lambda n: int(n.split("-")[1]))
            assert drawn.setdefault(seed, names) == names
    assert drawn[0] != drawn[1]
    some = make_views(dataset, STATS, images=9)
    rows = [int(name.split("-")[1]) for name in drawn[0]]
    np.testing.assert_allclose(some.read("views"), whole.read("views")[rows], rtol=1e-6)
    assert np.array_equal(some.read("labels"), whole.read("labels")[rows])
    assert some.samples()["group_id"].to_pylist() == drawn[0]


def test_images_of_several_sizes_keep_theirs_when_drawn(ragged):
    whole = make_views(ragged, STATS, out="whole.zarr")
    some = make_views(ragged, STATS, images=7)
    rows = [int(name.split("-")[1]) for name in some.samples()["sample_id"].to_pylist()]
    np.testing.assert_allclose(some.read("views"), whole.read("views")[rows], rtol=1e-6)


@pytest.mark.parametrize("images", [2, 19, 20, 21, 10_000])
def test_of_fewer_images_than_asked_for_all_are_taken_and_both_numbers_recorded(dataset, images):
    store = make_views(dataset, STATS, images=images, views=2)
    assert len(store) == min(images, 20)
    assert store.attributes["drawn_from"] == 20
    assert store.attributes["augmentations"]["images"] == images


def test_labels_groups_and_what_was_done_are_recorded(dataset):
    features = dataset.extract(STATS)["train"]
    store = make_views(dataset, STATS)
    assert np.array_equal(store.read("labels"), features.read("labels"))
    assert store.samples().equals(features.samples())
    found = store.attributes
    assert found["augmentations"] == {**OPTIONS, "aspect": [0.75, 4 / 3]}
    assert found["augmented_bands"][0] == {"name": "red", "mean": 100.0, "std": 50.0}
    assert found["feature_dim"] == 12 and found["split"] == "train"
    same = features.attributes.keys() & found.keys() - {"count", "arrays", "fingerprint"}
    assert {"task", "classes", "weights_sha256", "versions", "split_method"} <= same


# --- bad input ----------------------------------------------------------------------------------


def test_pixels_that_are_not_numbers_name_the_sample(tmp_path):
    dataset = Dataset(tmp_path, dtype=np.float32)
    dataset.images["train"][7, 1, 5, 5] = np.nan
    dataset._write("train", np.zeros(20, int))
    with pytest.raises(PermafrostError, match="first of sample 'train-7'"):
        make_views(dataset, STATS, **STILL)
    assert not (tmp_path / "views.zarr").exists()


def test_an_empty_split_and_options_that_cannot_be_drawn_are_refused(tmp_path):
    dataset = Dataset(tmp_path, counts=(4, 0, 2))
    with pytest.raises(PermafrostError, match="split val has no images") as caught:
        make_views(dataset, STATS, split="val")
    assert "measures: {split" in caught.value.remedy
    with pytest.raises(PermafrostError, match="crop_scale") as caught:
        make_views(dataset, STATS, crop_scale=[1.0, 0.5])
    assert "backbone tried" in str(caught.value.where)
    assert not (tmp_path / "views.zarr").exists()


def test_collapsed_features_are_recorded(dataset):
    still = make_views(dataset, STATS, **STILL)
    assert still.attributes["gates"] == []
    entry = {"kind": "imagestats", "input": {"bands": ["red"], "size": 1}}
    black = Dataset(dataset.folder / "black")
    black.images["train"][:] = 0
    black._write("train", np.zeros(20, int))
    store = make_views(black, entry, **STILL)
    assert store.attributes["gates"] == ["collapsed_features"]
