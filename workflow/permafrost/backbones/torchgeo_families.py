"""How torchgeo's models are called: each family wants its image, and more, in a way of its own; and their layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from permafrost.backbones.contract import InputPlan, wavelengths_nm
from permafrost.backbones.layers import Dense, blocks_of, evenly_spaced, patch_grid
from permafrost.backbones.timm_models import pooled
from permafrost.backbones.torchgeo_pixels import (
    presto_contract,
    presto_wrap,
    tessera_contract,
    tessera_wrap,
)
from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from permafrost.backbones.torchgeo_models import TorchgeoOptions


# centre and width in nm of Sentinel-2's bands as Copernicus-FM was trained with them
# (Wang et al. 2025, arXiv:2503.11849); widths of other sensors are given in the entry
_SENTINEL2_WIDTHS = {
    "coastal": 20,
    "blue": 65,
    "green": 35,
    "red": 30,
    "rededge1": 15,
    "rededge2": 15,
    "rededge3": 20,
    "nir": 115,
    "nir08": 20,
    "water_vapour": 20,
    "cirrus": 30,
    "swir16": 90,
    "swir22": 180,
}
_CROMA_BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12")
# channel numbers of radar in Panopticon, orbit direction not told
_PANOPTICON_RADAR = {"vv": -1.0, "vh": -2.0, "hh": -3.0, "hv": -4.0}
# side in pixels of Copernicus-FM's patches for images of 10 to 30 m
_COPERNICUSFM_PATCH = 16
# stands for the wavelength of C-band radar in DOFA's training
_DOFA_RADAR_NM = {"vv": 3750.0, "vh": 3750.0}


@dataclass(frozen=True)
class Family:
    """One way of building and calling.

    Attributes
    ----------
    arguments : (plan, options, has_weights) -> keyword arguments of torchgeo's function.
    wrap : (model, plan, options, where) -> fields of `Backbone`, at least ``module``.
    wants : fields of `InputContract` where the weights say nothing.
    radar : of models that need the wavelength of every band, the numbers that stand for it in bands of radar;
        None for models that need none.
    contract : from the name of the weights, or None, to all fields of `InputContract`, for models whose weights do
        not say in a form of images what they want; they have no number of channels of their own.
    """

    arguments: Callable[[InputPlan, bool], dict]
    wrap: Callable[[nn.Module, InputPlan, TorchgeoOptions, str], dict]
    wants: dict = field(default_factory=dict)
    radar: dict[str, float] | None = None
    contract: Callable[[str | None], dict] | None = None


class Called(nn.Module):
    """A model that is called in a way of its own: ``call(model, images)``."""

    def __init__(self, model: nn.Module, call) -> None:
        super().__init__()
        self.model, self._call = model, call

    def forward(self, images: torch.Tensor):
        return self._call(self.model, images)


def _pooling(options: TorchgeoOptions, allowed: tuple, where: str) -> str | None:
    pooling = options.pooling
    if pooling not in allowed:
        raise PermafrostError(
            f"pooling: {pooling} is not possible with this model",
            where=where,
            remedy=f"leave pooling out{' or use ' + ', '.join(filter(None, allowed)) if any(allowed) else ''}",
        )
    return pooling


# --- timm networks ---------------------------------------------------------------------------------


def _timm_arguments(plan: InputPlan, has_weights: bool) -> dict:
    return {"num_classes": 0, **({} if has_weights else {"in_chans": len(plan)})}


def _vit_arguments(plan: InputPlan, has_weights: bool) -> dict:
    return {**_timm_arguments(plan, has_weights), **({"img_size": plan.side} if plan.side else {})}


def _timm_wrap(model, plan, options, where) -> dict:
    return pooled(model, options.pooling)


def _scalemae_wrap(model, plan, options, where) -> dict:
    return {**pooled(model, options.pooling), "notes": {"metres_per_pixel": float(model.res)}}


# --- others ----------------------------------------------------------------------------------------


def _swin_wrap(model, plan, options, where) -> dict:
    _pooling(options, (None, "mean"), where)
    model.head = nn.Identity()
    first = model.features[0][0]
    if first.in_channels != len(plan):
        model.features[0][0] = nn.Conv2d(
            len(plan), first.out_channels, first.kernel_size, first.stride
        )
    return {"module": model, "dense": lambda: swin_dense(model, "features", last=7)}


def _dofa_wrap(model, plan, options, where) -> dict:
    micrometres = [nm / 1000 for nm in wavelengths_nm(plan, where, radar=_DOFA_RADAR_NM)]
    if _pooling(options, (None, "mean", "cls"), where) == "cls":
        model.global_pool, model.norm = False, model.fc_norm
    return {
        "module": Called(model, lambda m, images: m(images, micrometres)),
        "notes": {"wavelengths_um": micrometres},
        "dense": lambda: transformer_dense(model, model.patch_embed.kernel_size),
    }


def _panopticon_wrap(model, plan, options, where) -> dict:
    channels = wavelengths_nm(plan, where, radar=_PANOPTICON_RADAR)
    inner = pooled(model.model, options.pooling)

    def call(module, images):
        # the model writes into its channel numbers, so each call gets new ones
        ids = torch.tensor(channels, device=images.device).expand(len(images), -1).clone()
        return module({"imgs": images, "chn_ids": ids})

    return {**inner, "module": Called(inner["module"], call), "notes": {"channel_ids": channels}}


def _copernicusfm_wrap(model, plan, options, where) -> dict:
    centres = wavelengths_nm(plan, where)
    widths = options.bandwidths_nm or [
        _SENTINEL2_WIDTHS.get(channel.common_name) for channel in plan.channels
    ]
    if len(widths) != len(plan) or None in widths:
        raise PermafrostError(
            "the backbone needs the bandwidth of every band, and it is not known for all of"
            f" {', '.join(plan.names)}",
            where=where,
            remedy="give bandwidths_nm, one number per band in the order fed",
        )
    if _pooling(options, (None, "mean", "cls"), where) == "cls":
        model.global_pool, model.norm = False, model.fc_norm

    def call(module, images):
        unknown = torch.full((len(images), 4), float("nan"), device=images.device)
        return module(
            images, unknown, wavelengths=centres, bandwidths=widths, kernel_size=_COPERNICUSFM_PATCH
        )

    return {
        "module": Called(model, call),
        "notes": {"wavelengths_nm": centres, "bandwidths_nm": [float(width) for width in widths]},
        "dense": lambda: transformer_dense(model, _COPERNICUSFM_PATCH),
    }


def _croma_wrap(model, plan, options, where) -> dict:
    if len(plan) != model.s2_channels:
        raise PermafrostError(
            f"CROMA takes {model.s2_channels} Sentinel-2 bands, {len(plan)} are fed",
            where=where,
            remedy="leave input.bands out, with input.missing: zero where the dataset lacks some",
        )
    key = {None: "optical_GAP", "mean": "optical_encodings"}[
        _pooling(options, (None, "mean"), where)
    ]
    return {
        "module": Called(model, lambda m, images: m(x_optical=images)[key]),
        "dense": lambda: croma_dense(model),
    }


def _plain_wrap(*layers: str):
    """A network that takes an image and nothing else, and whose `layers` return maps."""

    def wrap(model, plan, options, where) -> dict:
        _pooling(options, (None, "mean"), where)
        return {"module": model, "dense": lambda: plain_dense(model, layers)}

    return wrap


def _deo_wrap(model, plan, options, where) -> dict:
    _pooling(options, (None, "mean"), where)
    # torchgeo takes the first stages' own convolution away, so that all is one place further on
    dense = {"dense": lambda: swin_dense(model, "feat_extr.features", last=6)}
    return {"module": model, "layout": "NHWC", **dense}


_TIMM = Family(_timm_arguments, _timm_wrap)
_VIT = Family(_vit_arguments, _timm_wrap)
_SWIN = Family(lambda plan, _: {}, _swin_wrap)
_DOFA = Family(
    lambda plan, _: {"num_classes": 0, **({"img_size": plan.side} if plan.side else {})},
    _dofa_wrap,
    {"bands": "all"},
    _DOFA_RADAR_NM,
)
_CROMA = Family(
    lambda plan, _: {"modalities": ["optical"], **({"image_size": plan.side} if plan.side else {})},
    _croma_wrap,
    {"bands": _CROMA_BANDS, "sensor": "sentinel2", "size": 120},
)

#: name of torchgeo's function -> how it is built and called
FAMILIES = {
    **dict.fromkeys(("resnet18", "resnet50", "resnet152"), _TIMM),
    **dict.fromkeys(
        (
            "vit_small_patch16_224",
            "vit_base_patch16_224",
            "vit_large_patch16_224",
            "vit_huge_patch14_224",
            "vit_small_patch14_dinov2",
            "vit_base_patch14_dinov2",
        ),
        _VIT,
    ),
    "scalemae_large_patch16": Family(_vit_arguments, _scalemae_wrap),
    **dict.fromkeys(("swin_t", "swin_s", "swin_b", "swin_v2_t", "swin_v2_b"), _SWIN),
    **dict.fromkeys(
        (
            "dofa_small_patch16_224",
            "dofa_base_patch16_224",
            "dofa_large_patch16_224",
            "dofa_huge_patch14_224",
        ),
        _DOFA,
    ),
    "panopticon_vitb14": Family(
        lambda plan, _: {"img_size": plan.side} if plan.side else {},
        _panopticon_wrap,
        {"bands": "all"},
        _PANOPTICON_RADAR,
    ),
    "copernicusfm_base": Family(lambda plan, _: {}, _copernicusfm_wrap, {"bands": "all"}, {}),
    "croma_base": _CROMA,
    "croma_large": _CROMA,
    "earthloc": Family(
        lambda plan, weights: (
            {}
            if weights
            else {"in_channels": len(plan), **({"image_size": plan.side} if plan.side else {})}
        ),
        # a ResNet-50 without its last stage; the fourth map is that of its stem
        _plain_wrap("backbone.layer3", "backbone.layer2", "backbone.layer1", "backbone.maxpool"),
        {"size": 320},
    ),
    "deo_base": Family(lambda plan, _: {}, _deo_wrap),
    "tilenet": Family(
        lambda plan, weights: {} if weights else {"in_channels": len(plan)},
        _plain_wrap("layer5", "layer4", "layer3", "layer2"),
    ),
    "presto": Family(lambda plan, _: {}, presto_wrap, contract=presto_contract),
    "tessera": Family(lambda plan, _: {}, tessera_wrap, contract=tessera_contract),
}

#: models of torchgeo that are no frozen image backbones, and why
NOT_FOR_IMAGES = {
    "aurora_swin_unet": "forecasts weather fields",
    "satclip": "takes coordinates",
    "unet": "is a segmentation network",
    "olmoearth_v1": "is the first version of what the kind olmoearth offers",
}


def plain_dense(model: nn.Module, layers: Sequence[str]) -> Dense:
    """Convolutional networks: every layer returns (B, C, H, W)."""
    return Dense(model, tuple(layers))


def swin_dense(model: nn.Module, features: str, *, last: int) -> Dense:
    """torchvision's Swin transformers, whose stages, every other one of `features`, return (B, H, W, C)."""
    return Dense(
        model, tuple(f"{features}.{index}" for index in range(last, -1, -2)), layout="NHWC"
    )


def transformer_dense(model: nn.Module, patch: int) -> Dense:
    """DOFA and Copernicus-FM: plain transformers with a class token.

    Their patch embedding is a convolution whose kernel is its stride, with one pixel of padding.
    """
    return Dense(
        model,
        blocks_of(len(model.blocks)),
        prefix_tokens=1,
        grid=patch_grid((patch, patch), padding=1),
    )


def croma_dense(model: nn.Module) -> Dense:
    """CROMA's optical encoder. No module of it returns what a block makes, since the sums are taken outside.

    So block i, named ``s2_encoder.transformer.layers.i``, is what the attention of the next one is given, and
    the last block what the final norm is given.
    """
    stem = "s2_encoder.transformer"
    depth, patch = len(model.s2_encoder.transformer.layers), model.s2_encoder.patch_size
    names = [f"{stem}.layers.{index}" for index in range(depth)]
    given_to = {name: f"{after}.0" for name, after in zip(names, names[1:], strict=False)}
    return Dense(
        model,
        tuple(names[index] for index in evenly_spaced(depth)),
        grid=patch_grid((patch, patch)),
        given_to={**given_to, names[-1]: f"{stem}.norm_out"},
    )
