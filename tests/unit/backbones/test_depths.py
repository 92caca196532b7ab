"""Features of blocks: which block a depth means, and means against hooks and timm's own intermediate maps."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import card_of, rgb_bands
from permafrost.backbones.backbone import Backbone, Resources
from permafrost.backbones.outputs.block_maps import BlockMaps
from permafrost.backbones.outputs.depth import nearest_block
from permafrost.backbones.outputs.layers import Dense, choose_blocks
from torch import nn


def made(entry: dict, size: int = 64) -> Backbone:
    plan = plan_input(entry, {"size": size}, card_of(rgb_bands()), where="backbone x")
    return build(entry, plan, Resources("backbone x", card_of(rgb_bands()), 0, None))


def of_timm(name: str, **options) -> Backbone:
    entry = {"kind": "timm", "model": name, "weights": {"source": "random"}}
    return made({**entry, "options": options})


def outputs(backbone, images):
    with torch.inference_mode():
        return backbone.features_and_maps(images)


def test_the_nearest_block_is_that_of_brute_force_and_of_two_the_deeper():
    for count in (1, 2, 3, 5, 12, 24, 50):
        for hundredths in range(1, 101):
            apart = {
                number: abs(Fraction(number, count) - Fraction(hundredths, 100))
                for number in range(1, count + 1)
            }
            expected = max(one for one in apart if apart[one] == min(apart.values()))
            assert nearest_block(hundredths / 100, count) == expected
    # 14.5 blocks, and less in binary; JSON may give a whole number
    assert 0.29 * 50 < 14.5 and nearest_block(0.29, 50) == 15
    assert nearest_block(1, 12) == 12 and nearest_block(1e-9, 12) == 1


MODELS = [
    # a class token; a class token and registers; stages of other widths; (B, H, W, C)
    ("test_vit", {}, [f"blocks.{index}" for index in range(6)]),
    ("test_vit2", {"reg_tokens": 4}, [f"blocks.{index}" for index in range(8)]),
    ("test_resnet", {}, ["act1", *(f"layer{stage}" for stage in range(1, 5))]),
    (
        "swin_tiny_patch4_window7_224",
        {"img_size": 64, "window_size": 2, "embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 3, 4)},
        [f"layers.{stage}" for stage in range(4)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "blocks"), MODELS, ids=lambda one: str(one)[:12])
def test_they_are_what_a_hook_gets_and_what_timm_takes(name, options, blocks):
    backbone = of_timm(name, **options)
    model, kept = backbone.module, {}
    images = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    hooks = [
        model.get_submodule(one).register_forward_hook(
            lambda *given, one=one: kept.update({one: given[-1].clone()})
        )
        for one in blocks
    ]
    alone = outputs(backbone, images)[0]
    for hook in hooks:
        hook.remove()
    with torch.inference_mode():
        taken = model.forward_intermediates(images, intermediates_only=True, output_fmt="NCHW")
    backbone.keep_depths(None, torch.float32)
    assert backbone.blocks == {one: (place, len(blocks)) for place, one in enumerate(blocks, 1)}
    pooled, found = outputs(backbone, images)
    assert torch.equal(pooled, alone)
    for one, rows, theirs in zip(blocks, found, taken, strict=True):
        values = kept[one]
        if values.ndim == 3:
            by_hand = values[:, model.num_prefix_tokens :].mean(dim=1)
        else:
            by_hand = values.mean(dim=(1, 2) if name.startswith("swin") else (2, 3))
        torch.testing.assert_close(rows, by_hand)
        torch.testing.assert_close(rows, theirs.mean(dim=(2, 3)))


def test_the_last_stage_of_a_residual_network_has_its_pooled_output():
    backbone = of_timm("test_resnet")
    backbone.keep_depths([1.0], torch.float32)
    pooled, (last,) = outputs(backbone, torch.randn(2, 3, 64, 64))
    torch.testing.assert_close(last, pooled)


def test_models_whose_blocks_timm_lays_out_have_all_of_its_intermediate_maps():
    options = {"img_size": 64, "embed_dim": 48, "depth": 3, "num_heads": 4}
    backbone = of_timm("xcit_nano_12_p16_224", **options)
    model, images = backbone.module, torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        taken = model.forward_intermediates(images, intermediates_only=True)
    backbone.keep_depths(None, torch.float32)
    assert list(backbone.blocks) == ["intermediates.0", "intermediates.1", "intermediates.2"]
    for rows, theirs in zip(outputs(backbone, images)[1], taken, strict=True):
        torch.testing.assert_close(rows, theirs.mean(dim=(2, 3)))


def test_a_stem_without_a_name_is_no_block():
    """TResNet's first entry of `feature_info` names no module."""
    backbone = of_timm("tresnet_m")
    assert backbone.module.feature_info[0]["module"] == ""
    backbone.keep_depths(None, torch.float32)
    assert list(backbone.blocks) == [f"body.layer{stage}" for stage in range(1, 5)]


def test_only_the_blocks_nearest_to_the_depths_are_kept():
    backbone = of_timm("test_vit")
    backbone.keep_depths([1.0, 0.5, 0.49], torch.float16)
    assert backbone.blocks == {"blocks.2": (3, 6), "blocks.5": (6, 6)}
    found = outputs(backbone, torch.randn(2, 3, 64, 64))[1]
    assert [(tuple(one.shape), one.dtype) for one in found] == [((2, 64), torch.float16)] * 2


def test_means_are_computed_in_float32():
    """The mean of 1 and the next number of float16 is none of float16."""

    class Half(nn.Module):
        layers = ("same",)

        def __init__(self) -> None:
            super().__init__()
            self.same = nn.Identity()

        def forward(self, images):
            return self.same(images.half()).float()

    module = Half()
    backbone = Backbone(module, None, "backbone x", dense=lambda: Dense(module, module.layers))
    backbone.keep_depths(None, torch.float32)
    found = outputs(backbone, torch.tensor([[[[1.0, 1 + 2**-10]]]]))[1]
    assert found[0].tolist() == [[1 + 2**-11]]


@pytest.mark.parametrize("kind", ["imagestats", "rcf"])
def test_baselines_have_no_blocks_and_a_note_says_so(kind):
    backbone = made({"kind": kind, **({"features": 8} if kind == "rcf" else {})})
    images = torch.rand(2, 3, 32, 32)
    alone = outputs(backbone, images)[0]
    backbone.keep_depths(None, torch.float32)
    pooled, found = outputs(backbone, images)
    assert torch.equal(pooled, alone) and found == [] == list(backbone.blocks)
    assert backbone.notes["depths"].startswith("no blocks are known")


def test_blocks_that_no_family_lists_are_the_declared_layers_from_the_last():
    module = nn.Sequential(*(nn.Identity() for _ in range(3)))
    assert choose_blocks(Dense(module, ("2", "1", "0")), None) == {
        "0": (1, 3), "1": (2, 3), "2": (3, 3)
    }  # fmt: skip
    assert choose_blocks(Dense(module, ("2", "0")), [0.2, 0.3]) == {"0": (1, 2)}
    assert choose_blocks(Dense(module), None) == {} == choose_blocks(Dense(module), [0.5])


def test_models_with_maps_of_blocks_list_all_of_them():
    holder = nn.Module()
    holder.maps = BlockMaps(nn.ModuleList(nn.Identity() for _ in range(6)))
    dense = holder.maps.dense(holder, "maps")
    assert list(choose_blocks(dense, None)) == [f"maps.{index}" for index in range(6)]
    assert len(dense.layers) == 4
