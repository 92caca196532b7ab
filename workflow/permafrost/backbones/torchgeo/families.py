"""Families of torchgeo's models: their arguments, how each is called, and its layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from permafrost.backbones.backbone import METADATA
from permafrost.backbones.input.acquired import by_dates
from permafrost.backbones.input.contract import InputPlan, wavelengths_nm
from permafrost.backbones.outputs.layers import Dense, blocks_of, evenly_spaced, patch_grid
from permafrost.backbones.timm_models import pooled
from permafrost.backbones.torchgeo.inputs import (
    COPERNICUSFM_AREA_KM2,
    COPERNICUSFM_PATCH,
    COPERNICUSFM_RADAR_NM,
    CROMA,
    CROMA_BANDS,
    CROMA_ENCODERS,
    DOFA_RADAR_NM,
    PANOPTICON_RADAR,
    copernicusfm_widths_nm,
)
from permafrost.backbones.torchgeo.pixels import (
    presto_contract,
    presto_wrap,
    tessera_contract,
    tessera_wrap,
)
from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from permafrost.backbones.torchgeo.models import TorchgeoOptions


PANOPTICON_PATCH = 14


@dataclass(frozen=True)
class Family:
    """How the models of a family are built and called.

    Attributes
    ----------
    arguments : (plan, options, has_weights) -> keyword arguments of torchgeo's function.
    wrap : (model, plan, options, where) -> fields of `Backbone`, at least ``module``.
    wants : fields of `InputContract` unless the weights define them.
    radar : for models that need the wavelength of every band, the numbers for bands of radar; else
        None.
    contract : name of the weights or None -> all fields of `InputContract`, for models whose
        weights have no metadata for images; these accept any number of channels.
    packages : packages whose versions are recorded, besides those of torchgeo.
    """

    arguments: Callable[[InputPlan, TorchgeoOptions, bool], dict]
    wrap: Callable[[nn.Module, InputPlan, TorchgeoOptions, str], dict]
    wants: dict = field(default_factory=dict)
    radar: dict[str, float] | None = None
    contract: Callable[[str | None], dict] | None = None
    packages: tuple[str, ...] = ()


class Called(nn.Module):
    """A model that is called by ``call(model, images, **metadata)``."""

    def __init__(self, model: nn.Module, call) -> None:
        super().__init__()
        self.model, self._call = model, call

    def forward(self, images: torch.Tensor, **told: torch.Tensor):
        return self._call(self.model, images, **told)


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


def _sized(plan: InputPlan, options: TorchgeoOptions | None = None, has_weights: bool = False):
    return {"img_size": plan.side} if plan.side else {}


def interpolated(rows: int, plan: InputPlan, patch: int, weights: bool) -> dict:
    """A note if position embeddings trained for `rows` x `rows` patches are interpolated; else empty."""
    if not weights or (plan.side is not None and plan.side // patch == rows):
        return {}
    fed = (
        "the patches of each image"
        if plan.side is None
        else f"{plan.side // patch} x {plan.side // patch}"
    )
    return {"positions": f"position embeddings interpolated from {rows} x {rows} patches to {fed}"}


def _timm_arguments(plan: InputPlan, options: TorchgeoOptions, has_weights: bool) -> dict:
    return {"num_classes": 0, **({} if has_weights else {"in_chans": len(plan)})}


def _vit_arguments(plan: InputPlan, options: TorchgeoOptions, has_weights: bool) -> dict:
    return {**_timm_arguments(plan, options, has_weights), **_sized(plan)}


def _timm_wrap(model, plan, options, where) -> dict:
    return pooled(model, options.pooling)


def _scalemae_wrap(model, plan, options, where) -> dict:
    """ScaleMAE, whose position embeddings depend on the ground sampling distance.

    That of the images is used if known, else the model's default. `options: {res: …}` in an entry
    sets one value for all images.
    """
    from torchgeo.models import scale_mae

    made = pooled(model, options.pooling)
    notes = {"metres_per_pixel": float(model.res)}
    if "res" in options.options:
        return {**made, "notes": notes}
    told: dict[str, torch.Tensor | None] = {"metres": None}
    of_the_model = model._pos_embed

    def positions(tokens: torch.Tensor) -> torch.Tensor:
        if told["metres"] is None:
            return of_the_model(tokens)
        side = int(model.patch_embed.num_patches**0.5)
        found = scale_mae.get_2d_sincos_pos_embed_with_resolution(
            model.embed_dim, side, told["metres"], cls_token=True
        )
        first = model.cls_token.expand(len(tokens), -1, -1)
        return model.pos_drop(torch.cat([first, tokens], dim=1) + found.to(tokens.dtype))

    def call(module, images, ground_distance_m=None):
        told["metres"] = ground_distance_m
        try:
            return module(images)
        finally:
            told["metres"] = None

    model._pos_embed = positions
    takes = frozenset({"ground_distance_m"})
    return {**made, "module": Called(made["module"], call), "notes": notes, "takes": takes}


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
    micrometres = [nm / 1000 for nm in wavelengths_nm(plan, where, radar=DOFA_RADAR_NM)]
    if _pooling(options, (None, "mean", "cls"), where) == "cls":
        model.global_pool, model.norm = False, model.fc_norm
    return {
        "module": Called(model, lambda m, images: m(images, micrometres)),
        "notes": {"wavelengths_um": micrometres},
        "dense": lambda: transformer_dense(model, model.patch_embed.kernel_size),
    }


def _panopticon_wrap(model, plan, options, where) -> dict:
    channels = wavelengths_nm(plan, where, radar=PANOPTICON_RADAR)
    inner = pooled(model.model, options.pooling)

    def call(module, images):
        # the model modifies its channel ids in place, so each call gets a copy
        ids = torch.tensor(channels, device=images.device).expand(len(images), -1).clone()
        return module({"imgs": images, "chn_ids": ids})

    # position embeddings of its weights are for images of 518 pixels
    notes = {
        "channel_ids": channels,
        **interpolated(37, plan, PANOPTICON_PATCH, options.weights is not None),
    }
    return {**inner, "module": Called(inner["module"], call), "notes": notes}


def _copernicusfm_wrap(model, plan, options, where) -> dict:
    centres = wavelengths_nm(plan, where, radar=COPERNICUSFM_RADAR_NM)
    widths = copernicusfm_widths_nm(plan, options.bandwidths_nm, where)
    if _pooling(options, (None, "mean", "cls"), where) == "cls":
        model.global_pool, model.norm = False, model.fc_norm

    def call(module, images, **told):
        return module(
            images,
            copernicusfm_metadata(len(images), images.device, **told),
            wavelengths=centres,
            bandwidths=widths,
            kernel_size=COPERNICUSFM_PATCH,
        )

    nearest, farthest = (1000 * km2**0.5 / COPERNICUSFM_PATCH for km2 in COPERNICUSFM_AREA_KM2)
    return {
        "module": Called(model, call),
        "notes": {
            "wavelengths_nm": centres,
            "bandwidths_nm": widths,
            **interpolated(14, plan, COPERNICUSFM_PATCH, options.weights is not None),
        },
        "dense": lambda: transformer_dense(model, COPERNICUSFM_PATCH),
        "takes": frozenset(METADATA),
        "bounds": {"ground_distance_m": (nearest, farthest)},
    }


def copernicusfm_metadata(
    count: int,
    device: torch.device,
    *,
    place: torch.Tensor | None = None,
    dates: torch.Tensor | None = None,
    ground_distance_m: torch.Tensor | None = None,
) -> torch.Tensor:
    """(count, 4) longitude, latitude, days since 1970, area of a patch in km²; NaN if unknown."""
    found = torch.full((count, 4), float("nan"), device=device)
    if place is not None:
        found[:, :2] = place
    if dates is not None:
        before, day = dates[:, 0] - 1, dates[:, 1]
        # days in the proleptic Gregorian calendar, in which 1970-01-01 is day 719163
        days = 365 * before + before // 4 - before // 100 + before // 400 + day - 719163
        found[:, 2] = days.float()
    if ground_distance_m is not None:
        area = (ground_distance_m * (COPERNICUSFM_PATCH / 1000)) ** 2
        # resized crops of augmented views can be below the smallest area
        found[:, 3] = area.clamp(*COPERNICUSFM_AREA_KM2)
    return found


def _croma_wrap(model, plan, options, where) -> dict:
    modality = options.modality or "optical"
    expected = CROMA_BANDS[modality]["bands"]
    if len(plan) != len(expected):
        raise PermafrostError(
            f"CROMA's modality {modality} takes {len(expected)} bands ({', '.join(expected)}), {len(plan)} are fed",
            where=where,
            remedy="leave input.bands out, with input.missing: zero where the dataset lacks some",
        )
    pooling = _pooling(options, (None, "mean"), where)
    key = f"{modality}_{'GAP' if pooling is None else 'encodings'}"

    def call(module, images):
        radar = images[:, :2] if modality == "joint" else images
        return module(x_sar=radar, x_optical=images[:, 2:] if modality == "joint" else images)[key]

    return {"module": Called(model, call), "dense": lambda: croma_dense(model, modality)}


def _croma_arguments(plan: InputPlan, options: TorchgeoOptions, has_weights: bool) -> dict:
    size = {"image_size": plan.side} if plan.side else {}
    return {"modalities": CROMA_ENCODERS[options.modality or "optical"], **size}


def _plain_wrap(*layers: str):
    """Wrap a network that takes only an image, and whose `layers` return maps."""

    def wrap(model, plan, options, where) -> dict:
        _pooling(options, (None, "mean"), where)
        return {"module": model, "dense": lambda: plain_dense(model, layers)}

    return wrap


def _deo_wrap(model, plan, options, where) -> dict:
    _pooling(options, (None, "mean"), where)
    # torchgeo removes the first convolution, which shifts the indices of layers by one
    dense = {"dense": lambda: swin_dense(model, "feat_extr.features", last=6)}
    return {"module": model, "layout": "NHWC", **dense}


class Encoder(nn.Module):
    """The encoder of a U-Net of segmentation_models_pytorch, with layers ``stride2`` to ``stride32``.

    Parameters
    ----------
    dates : number of dates concatenated in the channels; a single image is repeated for each.
    """

    STRIDES = (2, 4, 8, 16, 32)

    def __init__(self, encoder: nn.Module, dates: int) -> None:
        super().__init__()
        self.encoder, self._dates = encoder, dates
        for stride in self.STRIDES:
            self.add_module(f"stride{stride}", nn.Identity())

    def forward(self, images: torch.Tensor, present: torch.Tensor | None = None) -> torch.Tensor:
        """(B, C, H, W) or (B, T, C, H, W) -> (B, K, H / 32, W / 32).

        Raises
        ------
        PermafrostError : samples have several dates, but not as many as the weights need.
        """
        series = images if images.ndim == 5 else images[:, None]
        return by_dates(self._run, present, series, None)[0]

    def _run(self, series: torch.Tensor, _):
        if series.shape[1] == 1:
            series = series.expand(-1, self._dates, -1, -1, -1)
        if series.shape[1] != self._dates:
            raise PermafrostError(
                f"a sample has {series.shape[1]} dates, and the weights take {self._dates}",
                remedy="use a dataset of pairs or of single images, or leave the backbone out",
            )
        found = self.encoder(series.flatten(1, 2))[1:]
        for stride, features in zip(self.STRIDES, found, strict=True):
            self.get_submodule(f"stride{stride}")(features)
        return found[-1], {}


def _unet_arguments(plan: InputPlan, options: TorchgeoOptions, has_weights: bool) -> dict:
    return {} if has_weights else {"in_channels": len(plan)}


def _unet_wrap(model, plan, options, where) -> dict:
    _pooling(options, (None, "mean"), where)
    first = next(one for one in model.encoder.modules() if isinstance(one, nn.Conv2d))
    dates = first.in_channels // len(plan)
    encoder = Encoder(model.encoder, dates)
    several = {"dates_fed": f"{dates}, a single image for each of them"} if dates > 1 else {}
    layers = tuple(f"stride{stride}" for stride in reversed(Encoder.STRIDES[1:]))
    return {
        "module": encoder,
        "notes": {"part": "encoder", **several},
        "dense": lambda: plain_dense(encoder, layers),
        "takes": frozenset({"present"} if dates > 1 else ()),
    }


_TIMM = Family(_timm_arguments, _timm_wrap)
_VIT = Family(_vit_arguments, _timm_wrap)
_SWIN = Family(lambda plan, *_: {}, _swin_wrap)
_DOFA = Family(
    lambda plan, *_: {"num_classes": 0, **_sized(plan)},
    _dofa_wrap,
    {"bands": "all"},
    DOFA_RADAR_NM,
)
_CROMA = Family(_croma_arguments, _croma_wrap, {**CROMA, **CROMA_BANDS["optical"]})

#: name of torchgeo's function -> its family
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
    "panopticon_vitb14": Family(_sized, _panopticon_wrap, {"bands": "all"}, PANOPTICON_RADAR),
    "copernicusfm_base": Family(
        lambda plan, *_: {}, _copernicusfm_wrap, {"bands": "all"}, COPERNICUSFM_RADAR_NM
    ),
    "croma_base": _CROMA,
    "croma_large": _CROMA,
    "earthloc": Family(
        lambda plan, options, weights: (
            {}
            if weights
            else {"in_channels": len(plan), **({"image_size": plan.side} if plan.side else {})}
        ),
        # a ResNet-50 without its last stage; the fourth layer is its stem
        _plain_wrap("backbone.layer3", "backbone.layer2", "backbone.layer1", "backbone.maxpool"),
        {"size": 320},
    ),
    "deo_base": Family(lambda plan, *_: {}, _deo_wrap),
    "tilenet": Family(
        lambda plan, options, weights: {} if weights else {"in_channels": len(plan)},
        _plain_wrap("layer5", "layer4", "layer3", "layer2"),
    ),
    "unet": Family(_unet_arguments, _unet_wrap, packages=("segmentation-models-pytorch",)),
    "presto": Family(lambda plan, *_: {}, presto_wrap, contract=presto_contract),
    "tessera": Family(lambda plan, *_: {}, tessera_wrap, contract=tessera_contract),
}

#: models of torchgeo that cannot be frozen image backbones, and why
NOT_FOR_IMAGES = {
    "aurora_swin_unet": "forecasts weather fields",
    "satclip": "takes coordinates",
    "olmoearth_v1": "is the first version of what the kind olmoearth offers",
}


def plain_dense(model: nn.Module, layers: Sequence[str]) -> Dense:
    """Layers of convolutional networks, which return (B, C, H, W)."""
    return Dense(model, tuple(layers))


def swin_dense(model: nn.Module, features: str, *, last: int) -> Dense:
    """Layers of torchvision's Swin transformers: every other module of `features`, (B, H, W, C)."""
    return Dense(
        model, tuple(f"{features}.{index}" for index in range(last, -1, -2)), layout="NHWC"
    )


def transformer_dense(model: nn.Module, patch: int) -> Dense:
    """Layers of DOFA and Copernicus-FM: plain transformers with a class token.

    Their patch embedding is a convolution with kernel = stride = `patch` and one pixel of padding.
    """
    return Dense(
        model,
        blocks_of(len(model.blocks)),
        prefix_tokens=1,
        grid=patch_grid((patch, patch), padding=1),
        blocks=tuple(f"blocks.{index}" for index in range(len(model.blocks))),
    )


def croma_dense(model: nn.Module, modality: str = "optical") -> Dense:
    """Layers of CROMA's encoder of a modality.

    Residual sums are computed outside of the blocks, so no module returns the output of a block.
    The map of block i, ``s2_encoder.transformer.layers.i``, is the input of the next block's
    attention, or of the final norm.
    """
    stem = {"optical": "s2_encoder.transformer", "sar": "s1_encoder.transformer"}.get(
        modality, "joint_encoder"
    )
    depth, patch = len(model.get_submodule(stem).layers), model.patch_size
    names = [f"{stem}.layers.{index}" for index in range(depth)]
    given_to = {name: f"{after}.0" for name, after in zip(names, names[1:], strict=False)}
    return Dense(
        model,
        tuple(names[index] for index in evenly_spaced(depth)),
        grid=patch_grid((patch, patch)),
        given_to={**given_to, names[-1]: f"{stem}.norm_out"},
        blocks=tuple(names),
    )
