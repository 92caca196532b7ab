"""The maps of torchgeo's families: every one has layers, and they lie where the image has them."""

from __future__ import annotations

import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import card_of, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.outputs.layers import choose_layers
from permafrost.backbones.torchgeo.families import FAMILIES
from permafrost.backbones.torchgeo.models import TorchgeoOptions

torchgeo_models = pytest.importorskip("torchgeo.models")


def planned(name: str, **entry):
    entry = {"kind": "torchgeo", "model": name, "weights": None, **entry}
    return entry, plan_input(entry, {"size": 224}, card_of(sentinel2_bands()), where="backbone x")


def made(name: str, layers=None, **entry):
    entry, plan = planned(name, **entry)
    backbone = build(entry, plan, Resources("backbone x", card_of(sentinel2_bands()), 0, None))
    backbone.make_maps(layers, torch.float32)
    return backbone


def maps(backbone, pixels):
    with torch.inference_mode():
        return backbone.features_and_maps(pixels)


# models of single pixels have no layers
OF_IMAGES = sorted(name for name, family in FAMILIES.items() if family.contract is None)


@pytest.mark.parametrize("name", OF_IMAGES)
def test_every_family_has_four_default_layers(name):
    """Without memory or arithmetic, so that the large ones are built as they are."""
    if name.startswith("croma"):
        options = {"image_size": 16}  # its attention bias is made by loops over pairs of patches
    else:
        options = {}
    bands = {"bands": ["B04", "B03", "B02"]} if not name.startswith("croma") else {}
    _, plan = planned(name, input=bands)
    family = FAMILIES[name]
    with torch.device("meta"):
        chosen = TorchgeoOptions(weights=None)
        arguments = {**family.arguments(plan, chosen, False), **options}
        model = getattr(torchgeo_models, name)(**arguments)
        fields = family.wrap(model, plan, TorchgeoOptions(weights=None), "backbone x")
    assert len(choose_layers(fields["dense"](), None, where=name)) == 4


TINY = {"embed_dim": 32, "depth": 4, "num_heads": 2}


@pytest.fixture
def small_models(monkeypatch):
    from torchgeo.models import CROMA, DEO, DOFA, CopernicusFM

    class SmallDeo(DEO):
        def __init__(self) -> None:
            super().__init__("swin_t")

    for name, small in {
        "dofa_base_patch16_224": lambda **k: DOFA(**{**k, **TINY}),
        "copernicusfm_base": lambda **k: CopernicusFM(**{**k, **TINY}),
        "croma_base": lambda **k: CROMA(**{**k, "encoder_dim": 32, "encoder_depth": 4}),
        "deo_base": lambda **k: SmallDeo(),
    }.items():
        monkeypatch.setattr(torchgeo_models, name, small)


@pytest.mark.parametrize(
    ("name", "stem", "side", "patch"),
    [
        ("dofa_base_patch16_224", "blocks.0.norm1", 64, 16),
        ("copernicusfm_base", "blocks.0.norm1", 224, 16),
        ("croma_base", "s2_encoder.linear_input", 48, 8),
        ("vit_small_patch16_224", "blocks.0.norm1", 64, 16),
    ],
)
def test_a_changed_patch_changes_its_own_cell_and_no_other(small_models, name, stem, side, patch):
    bands = {} if name.startswith("croma") else {"bands": ["B04", "B03", "B02"]}
    backbone = made(name, [stem], input={**bands, "size": side})
    pixels = torch.randn(1, len(backbone.plan), side, side)
    other = pixels.clone()
    # inside the patch in row 1, column 2
    other[:, :, patch + 3 : 2 * patch - 3, 2 * patch + 3 : 3 * patch - 3] += 1
    (before,), (after,) = maps(backbone, pixels)[1], maps(backbone, other)[1]
    changed = (before != after).any(dim=1)[0].nonzero().tolist()
    assert changed == [[1, 2]]


def test_the_last_map_of_dofa_and_copernicusfm_is_what_is_pooled(small_models):
    for name in ("dofa_base_patch16_224", "copernicusfm_base"):
        backbone = made(name, input={"bands": ["B08", "B02"]})
        assert backbone.layers == ("blocks.3", "blocks.2", "blocks.1", "blocks.0")
        pooled, values = maps(backbone, torch.randn(2, 2, 224, 224))
        assert [tuple(one.shape) for one in values] == [(2, 32, 14, 14)] * 4
        norm = backbone.module.module.model.fc_norm
        torch.testing.assert_close(norm(values[0].mean(dim=(2, 3))), pooled)


def test_cromas_maps_are_the_sums_that_its_blocks_make(small_models):
    """No module returns them: they are made again here, block by block."""
    backbone = made("croma_base", input={"size": 48}, pooling="mean")
    model = backbone.module.module.model
    pixels = torch.randn(2, 12, 48, 48)
    pooled, values = maps(backbone, pixels)
    encoder = model.s2_encoder
    with torch.inference_mode():
        cells = pixels.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 1, 4, 5)
        tokens, expected = encoder.linear_input(cells.flatten(3).flatten(1, 2)), []
        for attention, feed_forward in encoder.transformer.layers:
            tokens = attention(tokens, model.attn_bias) + tokens
            tokens = feed_forward(tokens) + tokens
            expected.append(tokens.reshape(2, 6, 6, 32).permute(0, 3, 1, 2))
        last = encoder.transformer.norm_out(tokens).mean(dim=1)
    for ours, theirs in zip(values, reversed(expected), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(pooled, last)


@pytest.mark.parametrize(("name", "side"), [("swin_v2_t", 64), ("swin_t", 224), ("deo_base", 96)])
def test_swins_maps_are_turned_by_the_declared_layout(small_models, name, side):
    bands = {"bands": ["B04", "B03", "B02"], "size": side}
    backbone = made(name, input=bands)
    pooled, values = maps(backbone, torch.randn(1, 3, side, side))
    grid = side // 32
    widths = [(one.shape[1], one.shape[2]) for one in values]
    assert widths == [(768, grid), (384, 2 * grid), (192, 4 * grid), (96, 8 * grid)]
    last = values[0].permute(0, 2, 3, 1)
    model = backbone.module.module
    last = last if name == "deo_base" else model.norm(last)
    torch.testing.assert_close(last.mean(dim=(1, 2)), pooled)


@pytest.mark.parametrize(
    ("name", "side", "shapes"),
    [
        ("resnet18", 64, [(512, 2), (256, 4), (128, 8), (64, 16)]),
        ("tilenet", 64, [(512, 4), (512, 8), (256, 16), (128, 32)]),
        ("earthloc", 96, [(1024, 6), (512, 12), (256, 24), (64, 24)]),
        ("vit_small_patch16_224", 64, [(384, 4)] * 4),
    ],
)
def test_maps_of_further_families(name, side, shapes):
    backbone = made(name, input={"bands": ["B04", "B03", "B02"], "size": side})
    pooled, values = maps(backbone, torch.randn(1, 3, side, side))
    assert [(one.shape[1], one.shape[2]) for one in values] == shapes
    assert pooled.ndim == 2


def test_panopticons_maps_come_from_its_own_grid(monkeypatch):
    """A ViT-B with four blocks, at 56 pixels: 4 x 4 patches and a class token."""
    import timm

    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, **k: create(name, depth=4, **k))
    backbone = made("panopticon_vitb14", input={"bands": ["B04", "B08"], "size": 56})
    pooled, values = maps(backbone, torch.randn(1, 2, 56, 56))
    assert backbone.layers == ("blocks.3", "blocks.2", "blocks.1", "blocks.0")
    assert [tuple(one.shape) for one in values] == [(1, 768, 4, 4)] * 4


def test_scalemaes_maps_are_those_of_its_blocks(monkeypatch):
    from torchgeo.models import ScaleMAE

    monkeypatch.setattr(
        torchgeo_models,
        "scalemae_large_patch16",
        lambda **k: ScaleMAE(**{**k, **TINY, "patch_size": 16}),
    )
    backbone = made("scalemae_large_patch16", input={"bands": ["B04", "B03", "B02"], "size": 64})
    values = maps(backbone, torch.randn(1, 3, 64, 64))[1]
    assert [tuple(one.shape) for one in values] == [(1, 32, 4, 4)] * 4
