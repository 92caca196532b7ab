"""Maps, options and objects that the detection probe refuses, by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stages.probe_jobs import run_probe
from helpers.stores.objects import (
    DETECTION,
    NOTHING,
    run,
    scatter,
    spec,
    telling_maps,
    toy_stores,
    write_objects,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import Objects


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


def test_nan_in_the_maps_stops_with_epoch_batch_and_cause_and_leaves_no_file(toy, tmp_path):
    rng = np.random.default_rng(0)
    images = [scatter(rng, (64, 64)) for _ in range(12)]
    maps = telling_maps(rng, images, (64, 64), (4, 8))
    maps[1][5, 2, 0, 0] = np.nan
    broken = {
        split: write_objects(
            tmp_path / f"{split}.zarr", maps, images, sizes=(64, 64), working=(64, 64), split=split
        )
        for split in ("train", "test")
    }
    with pytest.raises(
        PermafrostError,
        match=r"loss became nan in epoch 1, batch \d: the map of layer layer1 .*row 5",
    ):
        run({**toy, "train": broken["train"]}, tmp_path, epochs=1)
    with pytest.raises(PermafrostError, match=r"NaN or infinity for images from 'test-0' on"):
        run({**toy, "test": broken["test"]}, tmp_path, epochs=1, coco=tmp_path / "coco")
    assert not list(tmp_path.glob("*.parquet")) and not (tmp_path / "coco").exists()


def test_a_loss_that_diverges_stops_with_epoch_and_cause(toy, tmp_path):
    with pytest.raises(PermafrostError, match=r"in epoch \d+, (validation )?batch \d+: the head's"):
        run(toy, tmp_path, learning_rate=1e30, schedule="constant", epochs=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"layers": ["layer9"]}, "no map of layer 'layer9'.*did you mean"),
        ({"learning_rate": 1e-7}, "below min_learning_rate"),
    ],
)
def test_options_that_cannot_work_are_refused(toy, tmp_path, changes, message):
    if torch.cuda.is_available() and "precision" in changes:
        changes = {**changes, "device": "cpu"}
    with pytest.raises(PermafrostError, match=message):
        run(toy, tmp_path, **changes)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (Objects.of([[0, 0, np.nan, 9]], [0]), "corner that is not finite"),
        (Objects.of([[0, 0, 9, 9]], [2]), "class that is not one of 2"),
        (Objects.of([[9, 0, 0, 9]], [0]), "wrong way round"),
    ],
)
def test_objects_that_cannot_be_are_refused_by_sample(toy, tmp_path, objects, message):
    maps = [np.zeros((2, 7, 4, 4)), np.zeros((2, 7, 8, 8))]
    broken = write_objects(
        tmp_path / "broken.zarr", maps, [NOTHING, objects], sizes=(64, 64), working=(64, 64)
    )
    with pytest.raises(
        PermafrostError, match=f"'train-1' has an object with a.* {message}|{message}"
    ):
        run({**toy, "train": broken}, tmp_path)


def test_stores_of_another_plan_or_without_objects_are_refused(toy, tmp_path):
    from helpers.stores.maps import toy_stores as mask_stores

    masks = mask_stores(tmp_path / "masks")
    with pytest.raises(PermafrostError, match="no maps of layers with objects"):
        run({**toy, "train": masks["train"]}, tmp_path)
    other = spec(DETECTION) | {"inputs": {"features": "0" * 32}}
    with pytest.raises(PermafrostError, match="another plan"):
        run_probe(other, toy, tmp_path / "x.parquet")
