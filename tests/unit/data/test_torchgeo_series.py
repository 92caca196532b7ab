"""Samples of torchgeo that hold several images: keys, dates and places, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.datasets.images import Prepared, open_source
from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.store.image_store import ImageStore

NOON = 1_577_880_000  # 2020-01-01T12:00 UTC
DAY = 86_400


def numbers(*shape: int, start: int = 0) -> torch.Tensor:
    return torch.arange(start, start + int(np.prod(shape))).reshape(shape).float()


@pytest.fixture
def dataset(monkeypatch):
    """A function that makes torchgeo's class `Made`, whose sample of a number is what a function says."""
    from torchgeo import datasets

    def make(sample, **attributes):
        class Made(datasets.NonGeoDataset):
            classes = ("dry", "wet")

            def __init__(self, split="train"):
                self.first = 10 * ["train", "val", "test"].index(split)

            def __len__(self):
                return 3

            def __getitem__(self, index):
                return {"label": torch.tensor(index % 2), **sample(self.first + index)}

        for name, value in attributes.items():
            setattr(Made, name, value)
        monkeypatch.setattr(datasets, "Made", Made, raising=False)

    return make


def entry(bands: int = 2, *, source: dict | None = None, **more) -> dict:
    return {
        "task": "classification",
        "bands": [{"name": f"channel {i}"} for i in range(bands)],
        "units": {"unit": "digital_number", "scale": 1},
        "source": {"kind": "torchgeo", "name": "Made", **(source or {})},
        **more,
    }


def modalities(**bands: int) -> dict:
    return {
        name: {"bands": [{"name": f"channel {i}"} for i in range(n)]} for name, n in bands.items()
    }


def first(given: dict):
    return open_source(given).decode(0)


def refusal(given: dict) -> str:
    with pytest.raises((PermafrostError, UnreadableImage)) as caught:
        first(given)
    return f"{caught.value} {caught.value.remedy}"


def test_several_keys_are_stacked_by_their_bands(dataset):
    dataset(lambda i: {"image": numbers(3, 4, 4), "dem": numbers(1, 4, 4, start=100)})
    image = first(entry(4, source={"image_key": ["image", "dem"]})).image
    assert image.shape == (4, 4, 4) and image[3, 0, 0] == 100


def test_of_a_pair_several_keys_are_its_dates(dataset):
    dataset(lambda i: {"before": numbers(2, 4, 4), "after": numbers(2, 4, 4, start=100)})
    image = first(entry(dates="pair", source={"image_key": ["before", "after"]})).image
    assert image.shape == (2, 2, 4, 4) and image[1, 0, 0, 0] == 100


def test_dates_stacked_as_bands_come_apart(dataset):
    dataset(lambda i: {"image": numbers(6, 4, 4)})
    image = first(entry(2, dates="series", source={"axes": "(TC)HW"})).image
    assert image.shape == (3, 2, 4, 4) and image[:, 0, 0, 0].tolist() == [0, 32, 64]


def test_modalities_have_their_own_keys_and_types(dataset, tmp_path):
    dataset(lambda i: {"a": numbers(2, 4, 4), "b": numbers(1, 2, 2, start=i) / 8})
    source = {"image_key": {"near": "a", "far": "b"}, "dtype": {"near": "uint16"}}
    given = entry(source=source, modalities=modalities(near=2, far=1))
    del given["bands"]
    out = Prepared(tmp_path)
    out.run(given)
    store = ImageStore(out.outputs["test"])
    assert store.store.read("images").dtype == np.uint16
    assert store.store.read("images_far")[:, 0, 0, 0].tolist() == [20 / 8, 21 / 8, 22 / 8]


def test_a_date_and_a_place_in_the_sample_reach_the_table_of_samples(dataset, tmp_path):
    def sample(i):
        said = {"time": NOON + i * DAY, "lon": 7.5, "lat": 50 + i}
        return {"image": numbers(2, 4, 4), **{k: torch.tensor(v) for k, v in said.items()}}

    dataset(sample)
    out = Prepared(tmp_path)
    out.run(entry(splits={"method": "given"}))
    row = ImageStore(out.outputs["val"]).samples.to_pylist()[1]
    assert (row["date"], row["lon"], row["lat"]) == ("2020-01-12", 7.5, 61)


def test_blocks_are_cut_by_the_place_in_the_sample(dataset):
    dataset(
        lambda i: {"image": numbers(2, 4, 4), "lon": torch.tensor(7.5), "lat": torch.tensor(50.0)}
    )
    assert open_source(entry()).locate(0) == (7.5, 50.0)


def test_dates_of_a_series_reach_the_store_and_an_unknown_one_is_null(dataset, tmp_path):
    def sample(i):
        times = [NOON, float("nan"), NOON + 40 * DAY]
        return {"image": numbers(3, 2, 4, 4), "time": torch.tensor(times)}

    dataset(sample)
    out = Prepared(tmp_path)
    out.run(entry(dates="series"))
    row = ImageStore(out.outputs["train"]).samples.to_pylist()[0]
    assert row["dates"] == ["2020-01-01", None, "2020-02-10"] and row["date"] is None


def test_dates_of_the_class_count_where_they_are_as_many_as_the_images(dataset):
    dataset(lambda i: {"image": numbers(2 + i, 2, 4, 4)}, dates=("2021_03", "20210401"))
    source = open_source(entry(dates="series"))
    assert source.decode(0).dates == (("2021-03", "2021-04-01"),)
    assert source.decode(1).dates == ()


def test_a_key_that_does_not_exist_is_answered_with_those_that_do(dataset):
    dataset(lambda i: {"image": numbers(2, 4, 4)})
    said = refusal(entry(source={"image_key": "optical"}))
    assert "samples have no 'optical', only label, image" in said and "image_key" in said


@pytest.mark.parametrize(
    "dates, said",
    [
        ("one", "no single ones of one size: a 2 x 4 x 4, b 2 x 8 x 8"),
        ("pair", "no single ones of one size: a 2 x 4 x 4, b 2 x 8 x 8"),
    ],
)
def test_images_that_belong_together_have_one_size(dataset, dates, said):
    dataset(lambda i: {"a": numbers(2, 4, 4), "b": numbers(2, 8, 8)})
    assert said in refusal(entry(4, dates=dates, source={"image_key": ["a", "b"]}))


def test_a_pair_of_images_with_different_bands_is_refused(dataset):
    dataset(lambda i: {"a": numbers(2, 4, 4), "b": numbers(1, 4, 4)})
    assert "no single ones of one size" in refusal(
        entry(dates="pair", source={"image_key": ["a", "b"]})
    )


def test_channels_that_are_no_dates_are_refused(dataset):
    dataset(lambda i: {"image": numbers(5, 4, 4)})
    said = refusal(entry(2, dates="series", source={"axes": "(TC)HW"}))
    assert "5 channels, which are no dates of 2 bands" in said


def test_keys_and_modalities_name_the_same(dataset):
    dataset(lambda i: {"a": numbers(2, 4, 4)})
    given = entry(
        source={"image_key": {"near": "a", "nir": "b"}}, modalities=modalities(near=2, far=1)
    )
    del given["bands"]
    assert "image_key and modalities of the entry do not name the same: far, nir" in refusal(given)
    given["source"]["image_key"] = "a"
    assert "image_key names no modality" in refusal(given)


@pytest.mark.parametrize(
    "sample, said",
    [
        (lambda i: {"image": numbers(3, 2, 4, 4)}, "has 3 dates, and a pair has two"),
        (
            lambda i: {"image": numbers(2, 2, 4, 4), "time": torch.tensor([NOON + DAY, NOON])},
            "dates out of order: 2020-01-01 after 2020-01-02",
        ),
        (
            lambda i: {"image": numbers(2, 2, 4, 4), "time": torch.tensor([NOON])},
            "has 2 images and 1 dates",
        ),
        (
            lambda i: {"image": numbers(2, 4, 4)},
            "one image of shape (2, 4, 4), not a pair of dates",
        ),
        (lambda i: {"image": numbers(2, 2 + i // 10, 4, 4)}, "has shape (2, 3, 4, 4)"),
    ],
    ids=["three", "order", "count", "one", "bands"],
)
def test_what_is_no_pair_is_refused_by_prepare(dataset, tmp_path, sample, said):
    dataset(sample)
    with pytest.raises(PermafrostError) as caught:
        Prepared(tmp_path / "out").run(entry(dates="pair"))
    assert said in str(caught.value)
    assert not (tmp_path / "out" / "train.zarr").exists()


def test_four_dimensions_where_one_image_is_expected_say_what_to_declare(dataset, tmp_path):
    dataset(lambda i: {"image": numbers(3, 2, 4, 4)})
    with pytest.raises(PermafrostError, match=r"images of 3 dates.*dates: series, or dates: pair"):
        Prepared(tmp_path / "out").run(entry())


def test_the_axis_of_a_single_date_is_dropped_where_one_image_is_expected(dataset):
    dataset(lambda i: {"image": numbers(1, 2, 4, 4)})
    assert first(entry()).image.shape == (2, 4, 4)
    assert first(entry(dates="series")).image.shape == (1, 2, 4, 4)


def test_arguments_that_a_class_changes_stay_as_they_were(monkeypatch):
    from torchgeo import datasets

    class Changing(datasets.NonGeoDataset):
        classes = ("dry", "wet")

        def __init__(self, split="train", names=()):
            assert names.pop() == "s2"

        def __len__(self):
            return 1

        def __getitem__(self, index):
            return {"label": torch.tensor(0), "image": numbers(2, 4, 4)}

    monkeypatch.setattr(datasets, "Made", Changing, raising=False)
    assert len(open_source(entry(source={"arguments": {"names": ["s2"]}})).records()) == 3
