"""What backbones are told of images beside their pixels: of all samples of a dataset, or of none."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.profiling import card_in, profile
from helpers.stores.images import SPLITS, Dataset
from permafrost.core.errors import PermafrostError

MODULE = '''
import torch
from torch import nn


class Told(nn.Module):
    """What it is told, as features: NaN stands for nothing, as 0 may be told."""

    def forward(self, images, dates=None, place=None, ground_distance_m=None):
        nothing = images.new_full((len(images), 2), -1000.0)
        assert dates is None or dates.dtype == torch.int64
        assert all(one is None or one.dtype == torch.float32 for one in (place, ground_distance_m))
        parts = [
            nothing if dates is None else dates,
            nothing if place is None else place,
            nothing[:, :1] if ground_distance_m is None else ground_distance_m[:, None],
        ]
        return torch.cat([one.float() for one in parts], dim=1)


class Placed(nn.Module):
    def forward(self, images, place):
        return images.mean(dim=(2, 3)) + place.mean()


class Plain(nn.Module):
    def forward(self, images):
        return images.mean(dim=(2, 3))


def told(inputs):
    return Told()


def placed(inputs):
    return Placed()


def plain(inputs):
    return Plain()
'''
NOTHING = -1000.0
ALL = {"place": "fed", "dates": "fed", "ground_distance_m": "fed"}


@pytest.fixture
def entry(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(MODULE)

    def of(function: str = "told", **fed) -> dict:
        fed = {"normalization": "none", "size": 8} | fed
        return {"kind": "entrypoint", "entrypoint": f"{file}:{function}", "input": fed}

    return of


def expected(dataset: Dataset, split: str, distance) -> np.ndarray:
    about = dataset.about(split)
    days = [np.datetime64(day) for day in about["date"].to_pylist()]
    days = [[2020, (day - np.datetime64("2020-01-01")).astype(int) + 1] for day in days]
    place = np.stack([about["lon"], about["lat"]], axis=1)
    return np.concatenate([days, place, np.broadcast_to(distance, (len(days), 1))], axis=1)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("size", [8, None])
def test_what_is_known_of_all_samples_is_told(tmp_path, entry, batch_size, ragged, size):
    dataset = Dataset(tmp_path, metadata=True, ragged=ragged, card={"gsd_m": 10.0})
    stores = dataset.extract(entry(size=size), batch_size=batch_size)
    for split in SPLITS:
        sides = np.sqrt(dataset.sizes[split].prod(axis=1, keepdims=True))
        distance = 10 * sides / 8 if size else np.full_like(sides, 10)
        found = stores[split].read("embeddings")
        np.testing.assert_allclose(found, expected(dataset, split, distance), rtol=1e-6)
        assert stores[split].attributes["metadata"] == ALL


@pytest.mark.parametrize(
    ("column", "name", "places"), [("lat", "place", [2, 3]), ("date", "dates", [0, 1])]
)
def test_what_one_sample_lacks_is_told_of_none(tmp_path, entry, column, name, places):
    dataset = Dataset(tmp_path, metadata=column, card={"gsd_m": 10.0})
    stores = dataset.extract(entry())
    for split in SPLITS:
        found = stores[split].read("embeddings")
        assert (found[:, places] == NOTHING).all()
        assert (np.delete(found, places, axis=1) != NOTHING).all()
    noun = "samples" if name == "place" else "images"
    assert stores["train"].attributes["metadata"] == {
        **ALL,
        name: "unknown",
        "reasons": {name: f"known only for 31 of 32 {noun}"},
    }


def test_one_place_for_all_is_none(tmp_path, entry, monkeypatch):
    dataset = Dataset(tmp_path / "a", metadata=True)
    alike = {
        name: column.take([0] * len(column)) for name, column in dataset.about("train").items()
    }
    monkeypatch.setattr(
        Dataset,
        "about",
        lambda self, split: {k: v[: len(self.images[split])] for k, v in alike.items()},
    )
    found = Dataset(tmp_path / "b", metadata=True).extract(entry())["train"].attributes["metadata"]
    assert found["place"] == "unknown" and "all 32 images" in found["reasons"]["place"]
    assert found["dates"] == "fed" and "no gsd_m" in found["reasons"]["ground_distance_m"]


def test_withheld_metadata_does_not_reach_the_model(tmp_path, entry):
    dataset = Dataset(tmp_path, metadata=True, card={"gsd_m": 10.0})
    store = dataset.extract(entry(metadata="withheld"))["train"]
    assert (store.read("embeddings") == NOTHING).all()
    assert store.attributes["metadata"] == dict.fromkeys(ALL, "withheld")
    with pytest.raises(PermafrostError, match="needs the place of every image, which is withheld"):
        dataset.extract(entry("placed", metadata="withheld"))


def test_backbones_that_take_nothing_are_told_nothing(tmp_path, entry):
    dataset = Dataset(tmp_path, metadata=True, card={"gsd_m": 10.0})
    assert "metadata" not in dataset.extract(entry("plain"))["train"].attributes
    with pytest.raises(
        PermafrostError, match="takes no location, date or ground sampling distance"
    ):
        dataset.extract(entry("plain", metadata="withheld"))


def test_what_a_module_needs_must_be_known(tmp_path, entry):
    with pytest.raises(PermafrostError, match="known only for 31 of 32 samples"):
        Dataset(tmp_path, metadata="lon").extract(entry("placed"))


def test_a_profile_is_told_what_an_extraction_is(tmp_path, entry):
    dataset = Dataset(tmp_path, metadata=True)
    images = {split: dataset.folder / f"{split}.zarr" for split in SPLITS}
    card = card_in(tmp_path / "profiled", size=(32, 32))
    found = profile(tmp_path, entry("placed"), images=lambda: images, card=card)
    assert found.feature_dim == 3
