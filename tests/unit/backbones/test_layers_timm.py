"""The maps of timm's families, against timm's own way of taking intermediate features."""

from __future__ import annotations

import pytest
import timm
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import card_of, rgb_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.outputs.layers import choose_layers
from permafrost.backbones.timm_maps import timm_dense
from permafrost.core.errors import PermafrostError

SWIN = {"embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 3, 4)}
#: name, options, (height, width), the grids of the maps; sizes are no square where the family allows it
FAMILIES = [
    ("test_resnet", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("resnet18", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("test_efficientnet", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("mobilenetv2_035", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("densenet121", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("test_convnext", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("test_mambaout", {}, (64, 96), [(2, 3), (4, 6), (8, 12), (16, 24)]),
    ("test_maxvit", {"img_size": 64}, (64, 64), [(2, 2), (4, 4), (8, 8), (16, 16)]),
    ("test_vit", {"img_size": (64, 96)}, (64, 96), [(4, 6)] * 4),
    ("test_vit2", {"img_size": (64, 96), "reg_tokens": 4}, (64, 96), [(4, 6)] * 4),
    ("test_vit3", {"dynamic_img_size": True}, (64, 96), [(4, 6)] * 4),
    (
        "vit_small_patch16_dinov3",
        {"embed_dim": 48, "depth": 6, "num_heads": 3},
        (64, 96),
        [(4, 6)] * 4,
    ),
    (
        "swin_tiny_patch4_window7_224",
        {**SWIN, "img_size": (96, 160), "window_size": 4},
        (96, 160),
        [(3, 5), (6, 10), (12, 20), (24, 40)],
    ),
    # as high as wide, and higher than the 24 channels: sizes cannot tell the layout
    (
        "swin_tiny_patch4_window7_224",
        {**SWIN, "img_size": 160, "window_size": 5},
        (160, 160),
        [(5, 5), (10, 10), (20, 20), (40, 40)],
    ),
    (
        "swinv2_tiny_window8_256",
        {**SWIN, "img_size": 128, "window_size": 4},
        (128, 128),
        [(4, 4), (8, 8), (16, 16), (32, 32)],
    ),
]


def made(entry: dict, size: int = 64):
    card = card_of(rgb_bands())
    entry = {"kind": "timm", "weights": {"source": "random"}, **entry}
    plan = plan_input(entry, {"size": size}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


@pytest.mark.parametrize(
    ("name", "options", "size", "grids"), FAMILIES, ids=lambda value: str(value)[:28]
)
def test_default_maps_are_those_that_timm_takes(name, options, size, grids):
    backbone = made({"model": name, "options": options})
    model = backbone.module
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        alone = backbone.features(images)
        taken = model.forward_intermediates(
            images, norm=False, intermediates_only=True, output_fmt="NCHW"
        )
        backbone.make_maps(None, torch.float32)
        pooled, maps = backbone.features_and_maps(images)
    assert torch.equal(pooled, alone), "hooks must not change the embedding"
    assert [tuple(values.shape[2:]) for values in maps] == grids
    described = [entry["module"] for entry in model.feature_info]
    for layer, values in zip(backbone.layers, maps, strict=True):
        torch.testing.assert_close(values, taken[described.index(layer)])


def test_the_maps_of_a_residual_network_are_those_of_features_only():
    backbone = made({"model": "resnet18", "seed": 3})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        theirs = timm.create_model("resnet18", features_only=True, out_indices=(1, 2, 3, 4)).eval()
    theirs.load_state_dict(backbone.module.state_dict(), strict=False)
    backbone.make_maps(None, torch.float32)
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        _, maps = backbone.features_and_maps(images)
        for ours, expected in zip(maps, reversed(theirs(images)), strict=True):
            torch.testing.assert_close(ours, expected)


def test_five_prefix_tokens_are_left_out():
    """One class token and four registers: 4 x 4 patches and 5 more make 21 tokens."""
    options = {"embed_dim": 48, "depth": 4, "num_heads": 3}
    backbone = made({"model": "vit_small_patch16_dinov3", "options": options})
    model = backbone.module
    assert model.num_prefix_tokens == 5
    kept = []
    handle = model.blocks[3].register_forward_hook(lambda *given: kept.append(given[-1].clone()))
    backbone.make_maps(["blocks.3"], torch.float32)
    with torch.inference_mode():
        (values,) = backbone.features_and_maps(torch.randn(2, 3, 64, 64))[1]
    handle.remove()
    assert kept[0].shape[1] == 21
    assert torch.equal(values[:, :, 1, 2], kept[0][:, 5 + 4 * 1 + 2])


@pytest.mark.parametrize("pooling", [None, "mean"])
def test_layers_have_the_same_names_whatever_the_pooling(pooling):
    backbone = made(
        {"model": "test_vit", "layers": ["blocks.3", "blocks.1"], "pooling": pooling}
        if pooling
        else {"model": "test_vit", "layers": ["blocks.3", "blocks.1"]}
    )
    backbone.make_maps(["blocks.3", "blocks.1"], torch.float16)
    with torch.inference_mode():
        maps = backbone.features_and_maps(torch.randn(2, 3, 64, 64))[1]
    assert [tuple(values.shape) for values in maps] == [(2, 64, 4, 4)] * 2


def test_every_timm_entry_of_the_catalogue_has_four_default_layers():
    from helpers.project import REPOSITORY
    from permafrost.plan.catalogue import read_yaml

    entries = read_yaml(REPOSITORY / "config" / "backbones" / "timm.yaml")
    assert entries
    for key, entry in entries.items():
        with torch.device("meta"):
            model = timm.create_model(entry["model"], pretrained=False, num_classes=0)
        dense = timm_dense(model)
        assert len(choose_layers(dense, None, where=key)) == 4, key
        reductions = {e["module"]: e["reduction"] for e in model.feature_info}
        order = [reductions[name] for name in dense.layers]
        assert order == sorted(order, reverse=True), key


@pytest.mark.parametrize(
    ("model", "layers", "message"),
    [
        ("test_resnet", ["layer5"], "no layer 'layer5', did you mean 'layer"),
        ("test_vit", ["blocks.12"], "no layer 'blocks.12', did you mean 'blocks"),
        ("hrnet_w18_small", ["stage2"], "layer stage2: the layer returned a list"),
        ("levit_128s", ["stages.0"], "does not define their grid.*intermediates.0"),
        ("volo_d1_224", ["network.0"], "not a map of images of 224 x 224"),
        ("test_resnet", ["intermediates.5"], "takes 5 intermediate maps of ResNet, not .* 5"),
        ("test_resnet", ["intermediates.00"], "no layer 'intermediates.00'"),
    ],
)
def test_layers_that_give_no_map_are_an_error(model, layers, message):
    with pytest.raises(PermafrostError, match=message):
        backbone = made({"model": model}, size=224)
        backbone.make_maps(layers, torch.float16)
        with torch.inference_mode():
            backbone.features_and_maps(torch.randn(1, 3, 224, 224))


def test_blocks_of_sam_keep_rows_and_columns_apart():
    model = timm.create_model("samvit_base_patch16", img_size=64, num_classes=0).eval()
    dense = timm_dense(model)
    layer = dense.layers[0]
    made = {}
    model.get_submodule(layer).register_forward_hook(lambda *found: made.update(out=found[-1]))
    with torch.inference_mode():
        model.forward_features(torch.zeros(1, 3, 64, 64))
    assert dense.layouts[layer] == "NHWC" and made["out"].shape == (1, 4, 4, 768)
