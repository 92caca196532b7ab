"""The default maps of every family of timm that takes intermediate maps itself, on a small model of each."""

from __future__ import annotations

import importlib
import inspect

import pytest
import timm
import torch
from permafrost.backbones.backbone import WithMaps
from permafrost.backbones.outputs.layers import choose_layers
from permafrost.backbones.timm_maps import timm_dense

TINY = {"embed_dim": 48, "depth": 4, "num_heads": 3}
SWIN = {"embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 3, 4)}
#: family (module of timm.models) -> model, options that make it small, side in pixels
FAMILIES = {
    "beit": ("beit_base_patch16_224", {**TINY, "img_size": 64}, 64),
    "byobnet": ("test_byobnet", {}, 64),
    "cait": ("cait_xxs24_224", {"img_size": 64, "depth": 4}, 64),
    "coat": ("coat_tiny", {"img_size": 64}, 64),
    "convit": ("convit_tiny", {"img_size": 64}, 64),
    "convmixer": ("convmixer_768_32", {}, 64),
    "convnext": ("test_convnext", {}, 64),
    "cpubone": ("cpubone_nano", {}, 64),
    "crossvit": ("crossvit_tiny_240", {}, 240),
    "csatv2": ("csatv2", {}, 64),
    "cspnet": ("cs3darknet_focus_s", {}, 64),
    "cspnext": ("cspnext_tiny", {}, 64),
    "davit": ("davit_tiny", {}, 64),
    "deepseek_vit": ("deepseek_vit_412m", TINY, 56),
    "densenet": ("densenet121", {}, 64),
    "dla": ("dla46x_c", {}, 64),
    "dpn": ("dpn48b", {}, 64),
    "edgenext": ("edgenext_xx_small", {}, 64),
    "efficientformer": ("efficientformer_l1", {}, 224),
    "efficientformer_v2": ("efficientformerv2_s0", {"img_size": 64}, 64),
    "efficientnet": ("mnasnet_small", {}, 64),
    "efficientvim": ("efficientvim_m1", {}, 64),
    "efficientvit_mit": ("efficientvit_b0", {}, 64),
    "efficientvit_msra": ("efficientvit_m0", {"img_size": 64}, 64),
    "eva": ("eva02_tiny_patch14_224", {"img_size": 56}, 56),
    "fasternet": ("fasternet_t0", {}, 64),
    "fastvit": ("fastvit_t8", {}, 64),
    "focalnet": ("focalnet_tiny_srf", {}, 64),
    "gcvit": ("gcvit_xxtiny", {"img_size": 64}, 64),
    "gemma4_vit": ("gemma4_vit_167m", TINY, 64),
    "ghostnet": ("ghostnet_050", {}, 64),
    "hgnet": ("hgnetv2_b0", {}, 64),
    "hiera": ("hiera_tiny_224", {"img_size": 64, "embed_dim": 24, "stages": (1, 1, 1, 1)}, 64),
    "hieradet_sam2": (
        "sam2_hiera_tiny",
        {"embed_dim": 24, "stages": (1, 1, 1, 1), "global_att_blocks": ()},
        64,
    ),
    "hrnet": ("hrnet_w18_small", {}, 64),
    "iformer": ("iformer_t", {}, 64),
    "inception_next": ("inception_next_atto", {}, 64),
    "inception_resnet_v2": ("inception_resnet_v2", {}, 96),
    "inception_v3": ("inception_v3", {}, 96),
    "inception_v4": ("inception_v4", {}, 96),
    "lcnetv2": ("lcnetv2_small", {}, 64),
    "levit": ("levit_128s", {"img_size": 64}, 64),
    "lowformer": ("lowformer_b0", {}, 64),
    "mambaout": ("test_mambaout", {}, 64),
    "maxxvit": ("test_coatnet", {"img_size": 64}, 64),
    "metaformer": ("poolformerv2_s12", {}, 64),
    "mlp_mixer": ("gmlp_ti16_224", {"img_size": 64}, 64),
    "mobilenetv3": ("lcnet_035", {}, 64),
    "mobilenetv5": ("mobilenetv5_base", {}, 64),
    "mvitv2": ("mvitv2_tiny", {"img_size": 64}, 64),
    "naflexvit": ("naflexvit_base_patch16_gap", TINY, 64),
    "nasnet": ("nasnetalarge", {}, 96),
    "nest": ("nest_tiny", {"img_size": 64}, 64),
    "nextvit": ("nextvit_small", {}, 64),
    "nfnet": ("test_nfnet", {}, 64),
    "pit": ("pit_ti_224", {"img_size": 64}, 64),
    "pnasnet": ("pnasnet5large", {}, 96),
    "pvt_v2": ("pvt_v2_b0", {}, 64),
    "qwen3_vit": ("qwen3_vit_88m", TINY, 64),
    "rdnet": ("rdnet_tiny", {}, 64),
    "regnet": ("regnetx_002", {}, 64),
    "repghost": ("repghostnet_050", {}, 64),
    "repvit": ("repvit_m1", {}, 64),
    "resnet": ("test_resnet", {}, 64),
    "resnetv2": ("resnetv2_18", {}, 64),
    "rexnet": ("rexnet_100", {}, 64),
    "selecsls": ("selecsls42", {}, 64),
    "senet": ("legacy_seresnet18", {}, 64),
    "sequencer": ("sequencer2d_s", {"img_size": 64}, 64),
    "shvit": ("shvit_s1", {}, 64),
    "starnet": ("starnet_s050", {}, 64),
    "swiftformer": ("swiftformer_xs", {"img_size": 64}, 64),
    "swin_transformer": (
        "swin_tiny_patch4_window7_224",
        {"img_size": 64, "window_size": 2, **SWIN},
        64,
    ),
    "swin_transformer_v2": (
        "swinv2_tiny_window16_256",
        {"img_size": 64, "window_size": 2, **SWIN},
        64,
    ),
    "swin_transformer_v2_cr": (
        "swinv2_cr_tiny_224",
        {"img_size": 64, "window_size": 2, **SWIN},
        64,
    ),
    "tiny_vit": ("tiny_vit_5m_224", {}, 64),
    "tnt": ("tnt_s_legacy_patch16_224", {"img_size": 64}, 64),
    "tresnet": ("tresnet_m", {}, 64),
    "twins": ("twins_svt_small", {"img_size": 64}, 64),
    "vgg": ("vgg11", {}, 64),
    "visformer": ("visformer_tiny", {"img_size": 64}, 64),
    "vision_transformer": ("test_vit", {"img_size": 64}, 64),
    "vision_transformer_relpos": ("test_vit_relpos", {"img_size": 64}, 64),
    "vision_transformer_sam": (
        "samvit_base_patch16_224",
        {**TINY, "img_size": 64, "window_size": 2, "global_attn_indexes": (1, 3)},
        64,
    ),
    "volo": ("volo_d1_224", {"img_size": 64}, 64),
    "vovnet": ("ese_vovnet19b_slim_dw", {}, 64),
    "xception": ("legacy_xception", {}, 64),
    "xception_aligned": ("xception41p", {}, 64),
    "xcit": ("xcit_nano_12_p8_224", {"img_size": 64}, 64),
}
#: of many parameters or large images
SLOW = {
    "nasnet",
    "pnasnet",
    "vgg",
    "inception_resnet_v2",
    "inception_v3",
    "inception_v4",
    "mobilenetv5",
}
#: what their convolutions leave is less than an image of whole strides
WITHOUT_PADDING = {"inception_resnet_v2", "inception_v3", "inception_v4"}


def test_the_table_names_every_family_that_takes_intermediate_maps():
    families = {timm.models._registry._model_to_module[name] for name in timm.list_models()}
    takes = {
        name
        for name in families
        if "def forward_intermediates"
        in inspect.getsource(importlib.import_module(f"timm.models.{name}"))
    }
    assert takes == FAMILIES.keys()


@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=[pytest.mark.slow] if f in SLOW else []) for f in FAMILIES]
)
def test_default_maps_are_those_that_timm_takes(family):
    name, options, side = FAMILIES[family]
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=0, **options).eval()
        images = torch.randn(2, 3, side, side)
        embedding = model(images)
        taken = model.forward_intermediates(images, output_fmt="NCHW", intermediates_only=True)
        dense = timm_dense(model)
        layers = choose_layers(dense, None, where="backbone x")
        module = WithMaps(model, dense, layers, torch.float32, where="backbone x")
        pooled, maps = module(images)
        alone = module(images[1:])[1]
    assert torch.equal(pooled, embedding), "maps must not change the embedding"
    info = model.feature_info
    for layer, values, one in zip(layers, maps, alone, strict=True):
        number = layer.partition("intermediates.")[2]
        at = int(number) if number else [entry["module"] for entry in info].index(layer)
        torch.testing.assert_close(values, taken[at])
        torch.testing.assert_close(
            values[1:], one, rtol=1e-3, atol=1e-5 * max(1, values.abs().max())
        )
        assert values.shape[2] == values.shape[3] and values.shape[1] == info[at]["num_chs"]
        stride = side / values.shape[2]
        if family in WITHOUT_PADDING:
            assert stride >= info[at]["reduction"]
        else:
            assert stride == pytest.approx(info[at]["reduction"], rel=0.35)
