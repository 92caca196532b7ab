"""Models of timm: how weights reach them and how their output is read."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources

RANDOM = {"source": "random"}


def made(entry: dict, bands=None, extraction=None):
    card = card_of(rgb_bands() if bands is None else bands)
    entry = {"kind": "timm", **entry}
    plan = plan_input(entry, extraction or {"size": 64}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


def images(backbone, count=2) -> torch.Tensor:
    side = backbone.plan.side
    return torch.randn(
        count, len(backbone.plan), side, side, generator=torch.Generator().manual_seed(0)
    )


def saved(model, path, change=None) -> str:
    state = {key: value.clone() for key, value in model.state_dict().items()}
    if change:
        change(state)
    torch.save(state, path)
    return str(path)


def test_the_same_seed_gives_the_same_network_and_another_seed_another():
    first, again, other = (
        made({"model": "test_resnet", "weights": RANDOM, "seed": seed}).module for seed in (0, 0, 1)
    )
    pairs = zip(first.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)
    assert any(
        not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_checkpoint_with_its_classifier_gives_the_models_features(tmp_path, suffix):
    from safetensors.torch import save_file

    model = timm.create_model("test_resnet", num_classes=10).eval()
    path = tmp_path / f"weights.{suffix}"
    (torch.save if suffix == "pt" else save_file)(model.state_dict(), path)
    backbone = made({"model": "test_resnet", "weights": {"source": "file", "path": str(path)}})
    pixels = images(backbone)
    with torch.inference_mode():
        expected = model.forward_head(model.forward_features(pixels), pre_logits=True)
        assert torch.equal(backbone.features(pixels), expected)
    assert backbone.weights_sha256
    assert backbone.plan.normalization == "weights"


def test_half_precision_weights_are_widened(tmp_path):
    model = timm.create_model("test_resnet", num_classes=0)
    path = saved(model.half(), tmp_path / "half.pt")
    backbone = made({"model": "test_resnet", "weights": {"source": "file", "path": path}})
    assert {p.dtype for p in backbone.module.parameters()} == {torch.float32}
    assert torch.equal(
        backbone.module.state_dict()["conv1.0.weight"], model.state_dict()["conv1.0.weight"].float()
    )


def test_a_wrapped_and_prefixed_checkpoint_is_unwrapped(tmp_path):
    model = timm.create_model("test_resnet", num_classes=0)
    state = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "run.pth")
    entry = {
        "model": "test_resnet",
        "weights": {"source": "file", "path": str(tmp_path / "run.pth")},
    }
    assert torch.equal(
        made(entry).module.state_dict()["conv1.0.weight"], model.state_dict()["conv1.0.weight"]
    )


def test_the_input_convolution_is_repeated_and_rescaled_for_more_bands(tmp_path):
    model = timm.create_model("test_resnet", num_classes=0)
    path = saved(model, tmp_path / "weights.pt")
    entry = {
        "model": "test_resnet",
        "weights": {"source": "file", "path": path},
        "input": {"bands": "all", "normalization": "dataset"},
    }
    backbone = made(entry, sentinel2_bands())
    name = model.pretrained_cfg["first_conv"]
    adapted = backbone.module.state_dict()[f"{name}.weight"]
    original = model.state_dict()[f"{name}.weight"]
    torch.testing.assert_close(adapted[:, 4], original[:, 1] * 3 / 13)
    assert "3 to 13" in backbone.notes["input_convolution"]


def test_statistics_of_the_weights_come_from_timms_description_unless_the_entry_has_its_own(
    tmp_path,
):
    path = saved(timm.create_model("test_vit", num_classes=0), tmp_path / "weights.pt")
    entry = {"model": "test_vit", "weights": {"source": "file", "path": path}}
    channel = made(entry).plan.channels[0]
    config = timm.create_model("test_vit").pretrained_cfg
    np.testing.assert_allclose(channel.center, config["mean"][0] * 255)
    own = made({**entry, "input": {"mean": 0.25, "std": 0.5}}).plan.channels[0]
    np.testing.assert_allclose([own.center, own.gain], [0.25 * 255, 1 / (0.5 * 255)])


@pytest.mark.parametrize("name", ["test_vit", "test_vit2", "test_vit3"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "both"])
def test_tokens_are_pooled_by_the_models_own_number_of_prefix_tokens(name, pooling):
    model = timm.create_model(name, num_classes=0)
    if model.num_prefix_tokens == 0 and pooling != "mean":
        pytest.skip(f"{name} has no class token")
    backbone = made({"model": name, "weights": RANDOM, "pooling": pooling})
    pixels = images(backbone)
    with torch.inference_mode():
        tokens = backbone.module.model.forward_features(pixels)
        parts = {"cls": tokens[:, 0], "mean": tokens[:, model.num_prefix_tokens :].mean(dim=1)}
        expected = (
            torch.cat([parts["cls"], parts["mean"]], 1) if pooling == "both" else parts[pooling]
        )
        torch.testing.assert_close(backbone.features(pixels), expected)


def test_register_tokens_are_left_out_of_the_mean():
    options = {"reg_tokens": 4}
    backbone = made({"model": "test_vit", "weights": RANDOM, "pooling": "mean", "options": options})
    assert backbone.prefix_tokens == 5
    pixels = images(backbone)
    with torch.inference_mode():
        tokens = backbone.module.model.forward_features(pixels)
        torch.testing.assert_close(backbone.features(pixels), tokens[:, 5:].mean(dim=1))


def test_stages_that_end_with_channels_are_pooled_over_space():
    """Swin's stages are (B, H, W, C): at other sizes that cannot be told from the shape."""
    options = {"depths": (1, 1), "embed_dim": 16, "num_heads": (2, 2)}
    entry = {"model": "swin_tiny_patch4_window7_224", "weights": RANDOM, "options": options}
    pooled = made({**entry, "pooling": "mean"}, extraction={"size": 224})
    own = made(entry, extraction={"size": 224})
    pixels = images(pooled, 1)
    with torch.inference_mode():
        torch.testing.assert_close(pooled.features(pixels), own.features(pixels))
    assert pooled.layout == "NHWC"


def test_a_vision_transformer_is_built_for_the_size_it_is_fed():
    backbone = made({"model": "test_vit", "weights": RANDOM}, extraction={"size": 96})
    assert backbone.features(images(backbone)).shape[0] == 2


def test_position_embeddings_of_a_file_are_resampled_to_another_size(tmp_path):
    path = saved(timm.create_model("test_vit", num_classes=0), tmp_path / "weights.pt")
    entry = {"model": "test_vit", "weights": {"source": "file", "path": path}}
    backbone = made(entry, extraction={"size": 96})
    assert backbone.features(images(backbone)).isfinite().all()
