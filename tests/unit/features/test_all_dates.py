"""Backbones that are fed all dates of a series at once."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.probe_jobs import configured, run_probe
from helpers.stores.images import SPLITS, Dataset, SeveralDataset
from helpers.stores.seasons import Seasons
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table

MODULE = '''
import torch
from torch import nn


class Recurrent(nn.Module):
    """A GRU over the mean colours of dates, its state after the last one that there is."""

    layers = ("spread",)

    def __init__(self, channels):
        super().__init__()
        self.gru = nn.GRU(channels + 2, 16, batch_first=True)
        self.spread = nn.Conv3d(channels, 4, (1, 2, 2), stride=(1, 2, 2))
        self.spread.register_forward_hook(lambda module, inputs, output: output.mean(dim=2))

    def forward(self, images, *, dates, present):
        assert images.ndim == 5 and dates.shape == (*images.shape[:2], 2)
        assert present.dtype == torch.bool and not images[~present].any()
        self.spread(images.transpose(1, 2))
        angle = dates[..., 1] / 366 * 2 * torch.pi
        seasons = torch.stack([angle.sin(), angle.cos()], dim=-1)
        states, _ = self.gru(torch.cat([images.mean(dim=(3, 4)), seasons], dim=-1))
        return states[torch.arange(len(images)), present.sum(dim=1) - 1]


class Told(nn.Module):
    """What it is told, as features."""

    def forward(self, images, dates, present):
        parts = [images.mean(dim=(2, 3, 4))[..., None], dates, present[..., None]]
        return torch.cat([one.float() for one in parts], dim=-1).flatten(1)


class Optional(nn.Module):
    """Whether it is told dates, and how many there are."""

    def forward(self, images, *, present, dates=None):
        assert dates is None or dates.shape == (*images.shape[:2], 2)
        told = torch.full(present.shape[:1], dates is not None)
        return torch.stack([told, present.sum(dim=1)], dim=1).float()


class Plain(nn.Module):
    def forward(self, images):
        return images.amax(dim=(2, 3, 4))


def recurrent(inputs):
    return Recurrent(len(inputs))


def told(inputs):
    return Told()


def optional(inputs):
    return Optional()


def plain(inputs):
    return Plain()
'''


@pytest.fixture
def entry(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(MODULE)

    def of(function: str, **fed) -> dict:
        fed = {"dates": "all", "normalization": "none", "size": None, "bands": "rgb"} | fed
        return {"kind": "entrypoint", "entrypoint": f"{file}:{function}", "input": fed}

    return of


@pytest.mark.parametrize("batch_size", [1, 9, 64])
def test_the_module_is_told_which_dates_there_are_and_when(tmp_path, entry, batch_size):
    dataset = SeveralDataset(tmp_path)
    store = dataset.extract(entry("told"), batch_size=batch_size)["train"]
    found = store.read("embeddings").reshape(9, 4, 4)
    assert store.attributes["input"]["dates"] == "all"
    assert store.attributes["input"]["most_dates"] == 4 and "dates" not in store.attributes
    for row, count in enumerate(dataset.counts["train"]):
        pixels = dataset.pixels["train"][row, :count].reshape(count, -1)
        np.testing.assert_allclose(found[row, :count, 0], pixels.mean(axis=1), rtol=1e-4)
        days = [15, 46, 75, 106][:count]
        assert found[row, :count, 1:].tolist() == [[2020, day, 1] for day in days]
        assert not found[row, count:].any()


def test_native_sizes_may_differ_between_series(tmp_path, entry):
    dataset = SeveralDataset(tmp_path)
    whole = dataset.extract(entry("plain"), batch_size=64)["train"].read("embeddings")
    assert np.array_equal(whole, dataset.pixels["train"].max(axis=(2, 3, 4)))
    ragged = Seasons(tmp_path / "ragged", samples=(20, 2, 2), ragged=True)
    assert len(np.unique(ragged.sizes["train"], axis=0)) > 5
    found = ragged.extract(entry("plain"), batch_size=64)["train"].read("embeddings")
    for row, (height, width) in enumerate(ragged.sizes["train"]):
        inside = ragged.pixels["train"][row, ..., :height, :width]
        assert np.array_equal(found[row], inside.max(axis=(1, 2, 3)))


def test_a_dataset_of_single_images_is_one_of_one_date(tmp_path, entry):
    dataset = Dataset(tmp_path)
    store = dataset.extract(entry("optional"))["test"]
    found = store.read("embeddings")
    assert store.attributes["input"]["most_dates"] == 1
    assert store.attributes["metadata"] == {"dates": "unknown", "reasons": {"dates": "not known"}}
    assert found.shape == (7, 2) and found.tolist() == [[0, 1]] * 7


def test_dates_that_a_module_needs_must_be_known(tmp_path, entry):
    with pytest.raises(PermafrostError, match="needs the date of every image, which is not known"):
        Dataset(tmp_path).extract(entry("told"))


def test_only_a_module_of_ones_own_is_fed_all_dates(tmp_path):
    entry = {"kind": "imagestats", "input": {"bands": "rgb", "size": None, "dates": "all"}}
    with pytest.raises(PermafrostError, match="takes the dates of a series one at a time"):
        SeveralDataset(tmp_path).extract(entry)


@pytest.mark.parametrize("masks", [False, True])
def test_every_probe_works_on_what_a_recurrent_network_gives(tmp_path, entry, masks):
    dataset = Seasons(tmp_path / "seasons", samples=(80, 20, 40), masks=masks)
    stores = dataset.extract(entry("recurrent", normalization="dataset"), batch_size=32)
    assert stores["test"].read("embeddings").shape == (40, 16)
    probes = [("segmentation", {"head": "linear"})] if masks else [("knn", {}), ("ltae", {})]
    for kind, own in probes:
        quick = {"epochs": 2} if kind != "knn" else {}
        options = configured(kind, **own, **quick)
        spec = {"dataset": "tiny", "backbone": "tried", "probe": "p", "seed": 0}
        spec |= {"options": options, "inputs": {"features": "fingerprint-of-features"}}
        path = tmp_path / f"{kind}.parquet"
        run_probe(spec, {s: stores[s].path for s in SPLITS}, path, device="cpu")
        table, _ = read_table(path)
        if kind == "knn":
            right = table["target"].to_numpy() == table["prediction"].to_numpy()
            assert right.mean() > 0.8
