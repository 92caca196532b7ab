"""Weights from files: what may be dropped or renamed, and what is refused."""

from __future__ import annotations

import argparse

import pytest
import timm
import torch
from helpers.backbones import build, plan_input, validated
from helpers.stores.images import card_of, rgb_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.weights.checkpoint import load_file_into, select
from permafrost.core.errors import PermafrostError
from permafrost.stages.cli import main


def made(weights: dict):
    card = card_of(rgb_bands())
    entry = {"kind": "timm", "model": "test_vit", "weights": {"source": "file", **weights}}
    plan = plan_input(entry, {"size": 160}, card)
    return build(entry, plan, Resources("backbone x", card, 0, None))


@pytest.fixture
def autoencoder(tmp_path):
    """A masked autoencoder: the encoder under a prefix, with a decoder and a head."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        encoder = timm.create_model("test_vit", num_classes=0)
    state = {f"encoder.{key}": value for key, value in encoder.state_dict().items()}
    rest = {
        name: torch.ones(2) for name in ("decoder_embed.weight", "decoder_norm.bias", "mask_token")
    }
    path = tmp_path / "mae.pth"
    torch.save({"model": {**state, **rest}, "epoch": 3}, path)
    return encoder, str(path)


def test_what_a_decoder_adds_is_dropped_counted_and_listed_once(autoencoder):
    encoder, path = autoencoder
    drop = ["decoder*", "mask_token", "*_embed.weight"]
    backbone = made({"path": path, "drop": drop, "prefix": "encoder."})
    loaded = backbone.module.state_dict()
    assert all(torch.equal(value, loaded[key]) for key, value in encoder.state_dict().items())
    names = ["decoder_embed.weight", "decoder_norm.bias", "mask_token"]
    assert backbone.notes == {"dropped": {"count": 3, "names": names}}


def test_names_that_nobody_dropped_are_refused(autoencoder):
    _, path = autoencoder
    with pytest.raises(
        PermafrostError, match=r"2 unexpected: decoder_embed\.weight, decoder_norm"
    ) as error:
        made({"path": path, "drop": ["mask_token"], "prefix": "encoder."})
    assert "weights.drop" in str(error.value)
    with pytest.raises(PermafrostError, match=r"1 missing: cls_token"):
        made(
            {
                "path": path,
                "drop": ["decoder*", "mask_token", "encoder.cls_token"],
                "prefix": "encoder.",
            }
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"drop": ["decoder*", "mask_token", "head*"]}, "'head*' drops nothing"),
        ({"drop": ["Decoder*"]}, "'Decoder*' drops nothing"),
        ({"prefix": "student."}, "no name begins with 'student.'"),
    ],
)
def test_a_pattern_or_a_prefix_that_fits_nothing_is_refused(autoencoder, change, said):
    with pytest.raises(PermafrostError) as error:
        made({"path": autoencoder[1], **change})
    assert said in str(error.value) and autoencoder[1] in str(error.value)


def test_a_prefix_may_not_make_one_name_of_two():
    state = {"teacher.w": torch.ones(1), "w": torch.zeros(1)}
    with pytest.raises(PermafrostError, match="two tensors would have the name 'w'"):
        select(state, None, "teacher.", where="x")
    kept, notes = select(state, ["w"], "teacher.", where="x")
    assert list(kept) == ["w"] and torch.equal(kept["w"], torch.ones(1))
    assert notes["dropped"]["names"] == ["w"]


def test_mappings_in_mappings_are_dropped_from_by_dotted_names():
    state = {"s1": {"w": torch.ones(1), "head": torch.ones(1)}, "s2": {"w": torch.ones(1)}}
    kept, notes = select(state, ["*.head", "s2*"], None, where="x")
    assert {key: list(value) for key, value in kept.items()} == {"s1": ["w"]}
    assert notes["dropped"] == {"count": 2, "names": ["s1.head", "s2.w"]}


def test_one_call_loads_a_file_into_a_module(tmp_path):
    module = torch.nn.Linear(2, 2)
    torch.save(
        {"net.weight": torch.ones(2, 2), "net.bias": torch.ones(2), "x": torch.ones(1)},
        tmp_path / "a.pt",
    )
    notes, digest = load_file_into(module, tmp_path / "a.pt", drop=["x"], prefix="net.", where="x")
    assert notes["dropped"]["count"] == 1 and len(digest) == 64 and module.bias.sum() == 2


def test_only_files_have_something_to_drop():
    entry = {
        "kind": "timm",
        "model": "test_vit",
        "weights": {"source": "pretrained", "drop": ["*"]},
    }
    with pytest.raises(PermafrostError, match="weights: drop needs path too"):
        validated(entry)


def test_a_pickle_of_more_than_tensors_says_how_it_is_converted_and_then_works(
    autoencoder, tmp_path
):
    encoder, path = autoencoder
    content = torch.load(path, weights_only=True)
    torch.save({**content, "args": argparse.Namespace(lr=1)}, path)
    weights = {"path": path, "drop": ["decoder*", "mask_token"], "prefix": "encoder."}
    with pytest.raises(PermafrostError) as error:
        made(weights)
    command = str(error.value).rpartition(": permafrost ")[2].split()
    assert command == ["convert-checkpoint", path, path.replace(".pth", ".safetensors")]
    assert main(command) == 0
    loaded = made({**weights, "path": command[-1]}).module.state_dict()
    assert all(torch.equal(value, loaded[key]) for key, value in encoder.state_dict().items())
