"""Series, pairs and several modalities: from image stores to the features that probes read."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stores.images import SPLITS, SeveralDataset
from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile
from permafrost.features.dates import OverDates, over_dates, without_dates
from permafrost.probes.embeddings import features
from permafrost.probes.embeddings.features import read_features

OPTICAL = {"kind": "imagestats", "input": {"bands": ["red", "blue"], "size": None}}
RESIZED = {"size": 8}
NET = {
    "kind": "timm",
    "model": "test_resnet",
    "weights": {"source": "random"},
    "input": {"bands": "rgb", "size": 32},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> SeveralDataset:
    return SeveralDataset(tmp_path_factory.mktemp("several"))


def statistics(image: np.ndarray) -> np.ndarray:
    """Mean, deviation, maximum and minimum of each band, as `imagestats` makes them."""
    pixels = image.reshape(len(image), -1).astype(np.float64)
    found = [pixels.mean(1), pixels.std(1, ddof=1), pixels.max(1), pixels.min(1)]
    return np.concatenate(found).astype(np.float32)


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_features_of_a_date_are_those_of_its_image(dataset, batch_size):
    stores = dataset.extract(OPTICAL, batch_size=batch_size)
    for split in SPLITS:
        found, counts = stores[split].read("embeddings"), dataset.counts[split]
        assert found.shape[:2] == dataset.pixels[split].shape[:2]
        for row, count in enumerate(counts):
            for date in range(count):
                expected = statistics(dataset.pixels[split][row, date, [0, 2]])
                np.testing.assert_allclose(found[row, date], expected, rtol=1e-5)
            assert not found[row, count:].any()
        assert stores[split].samples()["dates"].to_pylist()[0][0] == "2020-01-15"


def test_a_network_gives_each_date_what_it_gives_its_image_alone(dataset, tmp_path):
    found = dataset.extract(NET, batch_size=1)["test"].read("embeddings")
    single = SeveralDataset(tmp_path / "one", dates=1, samples=(2, 2, 4))
    for row, count in enumerate(dataset.counts["test"]):
        single.pixels["test"][:count] = dataset.pixels["test"][row, :count, None]
        (tmp_path / "one" / "test.zarr").rename(tmp_path / f"old{row}")
        single._write_several("test", "series", False)
        alone = single.extract(NET, batch_size=1)["test"].read("embeddings")
        # batches of another size round in another way
        np.testing.assert_allclose(found[row, :count], alone[:count, 0], rtol=1e-4, atol=1e-5)


def test_what_stands_after_the_last_date_changes_nothing(dataset, tmp_path):
    other = SeveralDataset(tmp_path / "other")
    for split in SPLITS:
        gone = ~(np.arange(4) < other.counts[split][:, None])
        other.pixels[split][gone] = 255
        (tmp_path / "other" / f"{split}.zarr").rename(tmp_path / split)
        other._write_several(split, "series", False)
    ours, theirs = (one.extract(NET)["train"].read("embeddings") for one in (dataset, other))
    assert np.array_equal(ours, theirs)


def test_bands_of_several_modalities_are_fed_in_the_order_asked_for(dataset):
    entry = {"kind": "imagestats", "input": {"bands": ["VH", "green", "VV"], "size": 8}}
    found = dataset.extract(entry)["val"].read("embeddings")
    reshaped = dataset.pixels["val"].reshape(3, 4, 3, 8, 2, 8, 2)
    small = reshaped.mean(axis=(4, 6), dtype=np.float64)
    for row, count in enumerate(dataset.counts["val"]):
        for date in range(count):
            vv, vh = dataset.radar["val"][row].astype(np.float64)
            expected = statistics(np.stack([vh, small[row, date, 1], vv]))
            np.testing.assert_allclose(found[row, date], expected, rtol=1e-4)


def test_modalities_of_other_sizes_need_a_size(dataset):
    entry = {"kind": "imagestats", "input": {"bands": ["green", "VV"], "size": None}}
    with pytest.raises(PermafrostError, match=r"8 x 8 and 16 x 16.*set input.size"):
        dataset.extract(entry)


def test_series_of_two_modalities_go_together_date_by_date(tmp_path):
    both = SeveralDataset(tmp_path, radar_dates=True)
    entry = {"kind": "imagestats", "input": {"bands": ["VV"], "size": None}}
    store = both.extract(entry)["test"]
    assert store.attributes["dates"] == {"kind": "series", "column": "dates_radar"}
    found, both_fed = (
        store.read("embeddings"),
        both.extract({"kind": "imagestats", "input": {"bands": ["VV", "red"], "size": 8}})[
            "test"
        ].read("embeddings"),
    )
    for row, count in enumerate(both.counts["test"]):
        for date in range(count):
            expected = statistics(both.radar["test"][row, date, :1])
            np.testing.assert_allclose(found[row, date], expected, rtol=1e-4)
            assert both_fed[row, date, 0] == pytest.approx(expected[0], rel=1e-4)


# --- how features of dates become those of a sample

VALUES = np.random.default_rng(3).normal(size=(6, 5, 3, 2)).astype(np.float32)
COUNTS = np.array([5, 1, 3, 5, 2, 4])


def each(function) -> np.ndarray:
    return np.stack([function(v[:c]) for v, c in zip(VALUES, COUNTS, strict=True)])


@pytest.mark.parametrize(
    ("how", "function"),
    [
        ("mean", lambda dates: dates.mean(axis=0)),
        ("max", lambda dates: dates.max(axis=0)),
        ("last", lambda dates: dates[-1]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_series_are_reduced_over_the_dates_that_there_are(how, function, dtype):
    values = VALUES.astype(dtype)
    values[~(np.arange(5) < COUNTS[:, None])] = np.inf
    found = OverDates("series", how)(values, COUNTS)
    assert found.dtype == dtype and found.shape == (6, 3, 2)
    tolerance = 1e-6 if dtype == np.float32 else 2e-3
    np.testing.assert_allclose(found, each(function), atol=tolerance)


def test_all_dates_are_concatenated_where_none_is_missing():
    over = OverDates("series", "concatenate")
    found = over(VALUES, np.full(6, 5))
    assert np.array_equal(found, VALUES.reshape(6, 15, 2)) and over.channels(3, 5) == 15
    with pytest.raises(PermafrostError, match="4 of 6 samples have fewer dates"):
        over(VALUES, COUNTS)


@pytest.mark.parametrize("how", ["concatenate", "difference", "absolute"])
def test_pairs(how):
    a, b = VALUES[:, 0], VALUES[:, 1]
    expected = {
        "concatenate": np.concatenate([a, b, abs(a - b)], axis=1),
        "difference": b - a,
        "absolute": abs(a - b),
    }[how]
    over = OverDates("pair", how)
    found = over(VALUES[:, :2], np.full(6, 2))
    assert np.array_equal(found, expected) and over.channels(3, 2) == expected.shape[1]


def test_shuffled_dates_are_the_same_dates_in_another_order():
    last, mixed = OverDates("series", "last"), OverDates("series", "last", shuffled=True)
    found = mixed(VALUES, COUNTS)
    assert not np.array_equal(found, last(VALUES, COUNTS))
    for row, count in enumerate(COUNTS):
        assert any(np.array_equal(found[row], VALUES[row, date]) for date in range(count))
    # the order of a sample follows from its place in the split, however many are read at once
    parts = [mixed(VALUES[i : i + 2], COUNTS[i : i + 2], first=i) for i in (0, 2, 4)]
    assert np.array_equal(found, np.concatenate(parts))
    means = [OverDates("series", "mean", shuffled=one)(VALUES, COUNTS) for one in (False, True)]
    np.testing.assert_allclose(*means, atol=1e-6)


def test_options_of_a_job_say_what_its_dataset_needs():
    options = {"kind": "knn", "temporal": "max", "pair": "absolute", "shuffle_dates": True}
    assert without_dates(options, "one") == {"kind": "knn"}
    assert over_dates(without_dates(options, "one")) is None
    assert over_dates(without_dates(options, "series")) == OverDates("series", "max", True)
    assert over_dates(without_dates(options, "pair")) == OverDates("pair", "absolute", True)


def test_probes_read_reduced_features_and_refuse_a_store_of_another_kind(dataset):
    dataset.extract(OPTICAL, out="read")
    paths = {split: dataset.folder / "read" / f"{split}.zarr" for split in SPLITS}
    for how in ("mean", "last"):
        over = OverDates("series", how)
        for split, one in read_features(paths, over=over).items():
            assert one.embeddings.shape == (len(dataset.counts[split]), 8)
    for wrong in (None, OverDates("pair", "concatenate")):
        with pytest.raises(PermafrostError, match="features of a series, the job is about"):
            read_features(paths, over=wrong)


@pytest.mark.parametrize("how", ["mean", "last"])
def test_features_that_stay_on_disk_are_those_in_memory(dataset, how, monkeypatch):
    dataset.extract(OPTICAL, out="read")
    paths = {split: dataset.folder / "read" / f"{split}.zarr" for split in SPLITS}
    over = OverDates("series", how, shuffled=True)
    held = read_features(paths, over=over, scratch=dataset.folder)
    monkeypatch.setattr(features, "HELD_BYTES", 0)
    monkeypatch.setattr(features, "BLOCK_BYTES", 1)
    for split, one in read_features(paths, over=over, scratch=dataset.folder / "new").items():
        assert isinstance(one.embeddings, RowFile) and one.embeddings.shape[1] == 8
        np.testing.assert_array_equal(one.embeddings, held[split].embeddings)


def test_single_images_of_a_dataset_of_series_are_read_as_they_are(dataset):
    radar = {"kind": "imagestats", "input": {"bands": ["VV", "VH"], "size": None}}
    dataset.extract(radar, out="single")
    paths = {split: dataset.folder / "single" / f"{split}.zarr" for split in SPLITS}
    read = read_features(paths, over=OverDates("series", "mean"))
    for split, one in read.items():
        expected = np.stack([statistics(image) for image in dataset.radar[split]])
        np.testing.assert_allclose(one.embeddings, expected, rtol=1e-4)
