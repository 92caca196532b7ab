"""Backbones that cannot work: a clear error that names the backbone, the file and what is wrong."""

from __future__ import annotations

import os
import pickle

import pytest
import timm
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import Dataset, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.registry import read_entry
from permafrost.core.errors import PermafrostError


def made(entry: dict, bands=None):
    card = card_of(rgb_bands() if bands is None else bands)
    plan = plan_input(entry, {"size": 64}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


def from_file(path, model="test_resnet", **fields) -> dict:
    return {
        "kind": "timm",
        "model": model,
        "weights": {"source": "file", "path": str(path)},
        **fields,
    }


def saved(model_name: str, path, change=None):
    state = {
        k: v.clone() for k, v in timm.create_model(model_name, num_classes=0).state_dict().items()
    }
    if change is not None:
        change(state)
    torch.save(state, path)
    return path


def test_the_checkpoint_of_another_model_names_missing_and_unexpected_tensors(tmp_path):
    path = saved("test_vit", tmp_path / "vit.pt")
    with pytest.raises(PermafrostError) as error:
        made(from_file(path))
    message = str(error.value)
    assert "backbone x" in message and "vit.pt" in message
    assert "missing: " in message and "conv1.0.weight" in message
    assert "unexpected: " in message and "blocks.0" in message


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path):
    def change(state):
        state["layer1.0.conv1.weight"] = torch.zeros(1, 2, 3, 3)

    with pytest.raises(
        PermafrostError, match=r"layer1.0.conv1.weight \(1, 2, 3, 3\) instead of \("
    ):
        made(from_file(saved("test_resnet", tmp_path / "odd.pt", change)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_name_the_tensor(tmp_path, value):
    def change(state):
        state["layer1.0.conv1.weight"][0, 0, 0, 0] = value

    with pytest.raises(
        PermafrostError, match=r"nan.pt: .*'layer1.0.conv1.weight' holds 1 values that are NaN"
    ):
        made(from_file(saved("test_resnet", tmp_path / "nan.pt", change)))


class _Runs:
    def __reduce__(self):
        return (os.mkdir, ("ran",))


def test_a_pickle_with_code_is_refused_and_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"weight": _Runs()}))
    torch.save({"weight": _Runs()}, tmp_path / "evil2.pt")
    for name in ("evil.pt", "evil2.pt"):
        with pytest.raises(
            PermafrostError, match=f"{name}: the weights file cannot be read safely"
        ):
            made(from_file(tmp_path / name))
    assert not (tmp_path / "ran").exists()


def test_a_damaged_and_a_missing_file_are_told_apart(tmp_path):
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")
    with pytest.raises(PermafrostError, match=r"cut.safetensors: the weights file cannot be read"):
        made(from_file(tmp_path / "cut.safetensors"))
    with pytest.raises(PermafrostError, match=r"none.pt: the weights file does not exist"):
        made(from_file(tmp_path / "none.pt"))


def test_an_unknown_model_lists_near_names():
    weights = {"source": "random"}
    with pytest.raises(PermafrostError, match="did you mean 'resnet50'"):
        made({"kind": "timm", "model": "resnet50x", "weights": weights})
    with pytest.raises(PermafrostError, match="no weights 'resnet50.a1_in1'.*resnet50.a1_in1k"):
        made({"kind": "timm", "model": "resnet50.a1_in1", "weights": weights})
    with pytest.raises(PermafrostError, match="unknown kind 'tim'"):
        read_entry({"kind": "tim"}, where="backbone x")
    known = {"kind": "timm", "model": "test_vit", "weights": weights, "seed": 0, "options": {}}
    with pytest.raises(PermafrostError, match="did you mean 'pooling'"):
        read_entry({**known, "poling": "mean"}, where="backbone x")


def test_a_checkpoint_for_other_bands_is_not_guessed_into_place(tmp_path):
    model = timm.create_model("test_resnet", num_classes=0, in_chans=13)
    torch.save(model.state_dict(), tmp_path / "s2.pt")
    with pytest.raises(PermafrostError, match="trained with 13 channels and 3 are fed"):
        made(from_file(tmp_path / "s2.pt"))


def test_a_missing_band_names_backbone_and_dataset():
    entry = {"kind": "imagestats", "input": {"bands": ["B08", "B11"]}}
    with pytest.raises(
        PermafrostError, match="backbone x on tiny: the dataset 'tiny' has no band 'B11'"
    ):
        made(entry, sentinel2_bands(("B08", "B04")))


def test_a_full_disk_leaves_nothing_and_the_run_succeeds_once_there_is_room(tmp_path, small_disk):
    dataset = Dataset(tmp_path, counts=(160, 5, 5))
    entry = {"kind": "rcf", "features": 128, "input": {"size": None}}
    disk = small_disk(48)
    (tmp_path / "features").symlink_to(disk)
    with pytest.raises(
        PermafrostError, match=r"(?s)train.zarr: the feature store cannot be written: No space"
    ):
        dataset.extract(entry)
    assert list(disk.iterdir()) == []
    (tmp_path / "features").unlink()
    assert len(dataset.extract(entry)["train"]) == 160


def test_a_damaged_image_store_is_refused_by_name(tmp_path):
    dataset = Dataset(tmp_path)
    chunk = sorted(
        p
        for p in (tmp_path / "train.zarr" / "images").rglob("*")
        if p.is_file() and p.name != "zarr.json"
    )[-1]
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 0xFF
    chunk.write_bytes(content)
    with pytest.raises(PermafrostError, match=r"train.zarr: rows 18 to 20 of 'images' are damaged"):
        dataset.extract({"kind": "imagestats"})
    assert not (tmp_path / "features").exists() or not list((tmp_path / "features").iterdir())
