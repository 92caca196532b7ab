"""Build TerraTorch's models and load their weights. Imports TerraTorch."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from terratorch.models.backbones import prithvi_vit
from terratorch.models.backbones.clay_v15.model import Encoder
from terratorch.models.backbones.prithvi_vit import PRETRAINED_BANDS, checkpoint_filter_fn_vit
from terratorch.models.backbones.terramind.model import terramind_register
from terratorch.registry import TERRATORCH_BACKBONE_REGISTRY
from torch import nn

from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.layers import evenly_spaced, patch_grid
from permafrost.backbones.terratorch.families import Family, TerratorchOptions
from permafrost.backbones.terratorch.outputs import Built, Told
from permafrost.core.errors import PermafrostError, first_line

if TYPE_CHECKING:
    type Fed = Mapping[str, Mapping[str, int]]


def published_file(model: str, family: Family, where: str) -> Path:
    """The weights file that TerraTorch would use, from the cache of the hub or torch, or downloaded.

    Raises
    ------
    PermafrostError : the model has no published weights, or they cannot be downloaded.
    """
    from huggingface_hub import hf_hub_download

    try:
        if family.weights is not None:
            from permafrost.backbones.torchgeo.weights import find_weights

            weights, _ = find_weights(family.weights, where)
            weights.get_state_dict(progress=False, weights_only=True)
            return Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
        place = _published(family.kind, model)
        if place is not None:
            return Path(hf_hub_download(*place))
    except OSError as error:
        raise PermafrostError(
            f"the weights of {model} are not available ({first_line(error)})",
            where=where,
            remedy="download them on a machine with a network, or use {source: file, path: …}",
        ) from error
    raise PermafrostError(
        f"TerraTorch has no published weights for {model}",
        where=where,
        remedy="use weights: null, or {source: file, path: …}",
    )


def _published(kind: str, model: str) -> tuple[str, str] | None:
    """(repository of the hub, file); None without published weights."""
    if kind == "clay":
        return "made-with-clay/Clay", "v1.5/clay-v1.5.ckpt"
    known = {**prithvi_vit.pretrained_weights, **terramind_register.pretrained_weights}.get(model)
    return None if known is None else (known["hf_hub_id"], known["hf_hub_filename"])


def _spaced(count: int) -> tuple[int, ...]:
    return tuple(evenly_spaced(count))


def _of_bands(images: torch.Tensor, positions: list[int]) -> torch.Tensor:
    """The channels of (..., C, H, W) at `positions`; a view if they are consecutive."""
    first, count = positions[0], len(positions)
    if positions == list(range(first, first + count)):
        return images.narrow(-3, first, count)
    return images[..., positions, :, :]


# --- Prithvi ---------------------------------------------------------------------------------------


def _prithvi(
    options: TerratorchOptions, family: Family, plan: InputPlan, fed: Fed, where: str
) -> Built:
    ((modality, positions),) = fed.items()
    rows = family.modalities[modality].bands
    names = [rows[name][0] for name in positions]
    model = TERRATORCH_BACKBONE_REGISTRY.build(
        options.model, bands=names, num_frames=options.frames, **options.options
    )
    order = list(positions.values())
    takes = {"dates"} if model.temporal_encoding else set()
    takes |= {"place"} if model.location_encoding else set()
    takes |= {"present"} if options.frames > 1 else set()

    def place(state: dict) -> dict:
        _check_patches(state, model, where)
        return checkpoint_filter_fn_vit(state, model, PRETRAINED_BANDS, model.model_bands)

    def call(model: nn.Module, images: torch.Tensor, told: Told):
        dates, there = told.get("dates"), told.get("present")
        if images.ndim == 4:
            images = images[:, None]
            dates = None if dates is None else dates[:, None]
        if options.frames > 1:
            chosen = frame_positions(there, images, options.frames, where)
            rows = torch.arange(len(images), device=images.device)[:, None]
            images = images[rows, chosen]
            dates = None if dates is None else dates[rows, chosen]
        coordinates = {}
        if dates is not None:
            coordinates["temporal_coords"] = dates.to(images.dtype)
        if "place" in told:
            # the model expects latitude first
            coordinates["location_coords"] = told["place"].flip(1).to(images.dtype)
        return model(_of_bands(images, order).transpose(1, 2).contiguous(), **coordinates)

    return Built(
        model,
        call,
        outputs=len(model.blocks),
        place=place,
        layers=_spaced(len(model.blocks)),
        grid=patch_grid(model.patch_embed.patch_size[1:]),
        frames=options.frames,
        prefix_tokens=1,
        takes=frozenset(takes),
    )


def frame_positions(
    there: torch.Tensor | None, images: torch.Tensor, frames: int, where: str
) -> torch.Tensor:
    """(B, frames) positions of the dates to use: evenly spaced, including the first and the last.

    Parameters
    ----------
    there : (B, T) bool, which dates exist; existing dates come first. None: all.
    images : (B, T, C, H, W).

    Raises
    ------
    PermafrostError : a sample has fewer than `frames` dates.
    """
    if there is None:
        there = torch.ones(images.shape[:2], dtype=torch.bool, device=images.device)
    counts = there.sum(1)
    if int(counts.min()) < frames:
        raise PermafrostError(
            f"a sample has {int(counts.min())} dates, and the model is fed {frames} frames",
            where=where,
            remedy="lower frames, or leave out samples with fewer dates",
        )
    steps = torch.arange(frames, device=images.device) / (frames - 1)
    return (steps * (counts[:, None] - 1)).round().long()


def _check_patches(state: dict, model: nn.Module, where: str) -> None:
    """Check the shape of patch embeddings, since TerraTorch keeps random ones if it differs."""
    keys = [key for key in state if key.endswith("patch_embed.proj.weight")]
    wanted = model.patch_embed.proj.weight
    found = state[keys[0]] if keys else None
    if found is None or found.shape[0] != wanted.shape[0] or found.shape[2:] != wanted.shape[2:]:
        has = "none" if found is None else tuple(found.shape)
        raise PermafrostError(
            f"the checkpoint does not fit the model; its patch embedding is {has} instead of {tuple(wanted.shape)}",
            where=where,
            remedy="name the model that the checkpoint was saved from",
        )


# --- TerraMind -------------------------------------------------------------------------------------


def _terramind(
    options: TerratorchOptions, family: Family, plan: InputPlan, fed: Fed, where: str
) -> Built:
    from terratorch.models.backbones.terramind.model.terramind_register import (
        PRETRAINED_BANDS,
        select_modality_patch_embed_weights,
    )

    model = TERRATORCH_BACKBONE_REGISTRY.build(
        options.model, modalities=list(fed), **options.options
    )
    fewer = {
        modality: [family.modalities[modality].bands[name][0] for name in positions]
        for modality, positions in fed.items()
        if len(positions) < len(family.modalities[modality].bands)
    }

    def place(state: dict) -> dict:
        own = model.state_dict()
        fixed = set(own) - {name for name, p in model.named_parameters() if p.requires_grad}
        # files contain all modalities, and may lack fixed (sinusoidal) position embeddings
        return {key: value for key, value in own.items() if key in fixed} | {
            key: value for key, value in state.items() if key in own
        }

    places = {key: list(bands.values()) for key, bands in fed.items()}

    def call(model: nn.Module, images: torch.Tensor, told: Told):
        return model({key: _of_bands(images, of_one) for key, of_one in places.items()})

    depth = len(model.encoder)
    return Built(
        model,
        call,
        outputs=depth,
        place=place,
        finish=lambda: (
            fewer and select_modality_patch_embed_weights(model, fewer, PRETRAINED_BANDS)
        ),
        layers=_spaced(depth),
        grid=patch_grid((16, 16)),
    )


# --- Clay ------------------------------------------------------------------------------------------

# arguments of Clay 1.5, which has the large size
_CLAY = {"dim": 1024, "depth": 24, "heads": 16, "dim_head": 64, "mlp_ratio": 4, "patch_size": 8}


def _clay(
    options: TerratorchOptions, family: Family, plan: InputPlan, fed: Fed, where: str
) -> Built:
    ((platform, positions),) = fed.items()
    modality = family.modalities[platform]
    model = Encoder(mask_ratio=0.0, shuffle=False, **{**_CLAY, **options.options})
    micrometres = [cast(float, modality.bands[name][0]) for name in positions]
    order = list(positions.values())

    def place(state: dict) -> dict:
        # the file also contains the decoder and the teacher
        return {
            key.removeprefix("encoder."): value
            for key, value in state.items()
            if key.startswith("encoder.")
        }

    def call(model: nn.Module, images: torch.Tensor, told: Told):
        return _clay_outputs(model, images[:, order], told, micrometres, modality.gsd_m)

    depth = len(model.transformer.layers)
    return Built(
        model,
        call,
        outputs=depth,
        place=place,
        layers=_spaced(depth),
        grid=patch_grid((model.patch_size, model.patch_size)),
        prefix_tokens=1,
        takes=frozenset({"dates", "place", "ground_distance_m"}),
        notes={"wavelengths_um": micrometres, "ground_distance_m": modality.gsd_m},
    )


def _clay_outputs(
    model: nn.Module,
    images: torch.Tensor,
    told: Told,
    micrometres: list[float],
    usual_m: float,
) -> list[torch.Tensor]:
    """Outputs of all blocks of Clay's encoder, unmasked, with a ground sampling distance per image."""
    count, device = len(images), images.device
    unknown = images.new_zeros(count, 4)
    when = clay_time(told["dates"]).to(images) if "dates" in told else unknown
    place = clay_place(told["place"]).to(images) if "place" in told else unknown
    metres = told.get("ground_distance_m", images.new_full((count,), usual_m))
    patches, _ = model.to_patch_embed(images, torch.tensor(micrometres, device=device))
    encoded = torch.empty_like(patches)
    for distance in metres.unique():
        rows = metres == distance
        encoded[rows] = model.add_encodings(patches[rows], when[rows], place[rows], distance)
    tokens = torch.cat([model.cls_token.expand(count, -1, -1), encoded], dim=1)
    outputs = []
    for attention, feed_forward in model.transformer.layers:
        tokens = attention(tokens) + tokens
        tokens = feed_forward(tokens) + tokens
        outputs.append(tokens)
    outputs[-1] = model.transformer.norm(tokens)
    return outputs


def clay_time(dates: torch.Tensor) -> torch.Tensor:
    """(B, 2) year and day of the year -> (B, 4) sine and cosine of the week, and zeros for the hour.

    As ``normalize_timestamp`` in Clay's tutorials.
    """
    weeks = [
        (datetime.date(year, 1, 1) + datetime.timedelta(days=day - 1)).isocalendar().week
        for year, day in dates.tolist()
    ]
    angles = [week * 2 * math.pi / 52 for week in weeks]
    return torch.tensor([(math.sin(angle), math.cos(angle), 0.0, 0.0) for angle in angles])


def clay_place(place: torch.Tensor) -> torch.Tensor:
    """(B, 2) longitude and latitude in degrees -> (B, 4) sin and cos of latitude, then of longitude."""
    longitude, latitude = place.double().deg2rad().unbind(1)
    return torch.stack([latitude.sin(), latitude.cos(), longitude.sin(), longitude.cos()], dim=1)


# --- models of torchgeo ----------------------------------------------------------------------------

# TerraTorch's name of the wrapped model -> (weight of its first convolution, its classifier)
_WRAPPED = {
    "resnet_model": ("conv1.weight", "fc"),
    "swin_model": ("features.0.0.weight", "head"),
    "vit_model": ("patch_embed.proj.weight", "head"),
}


def _torchgeo(
    options: TerratorchOptions, family: Family, plan: InputPlan, fed: Fed, where: str
) -> Built:
    from permafrost.backbones.torchgeo.weights import contract_of, find_weights

    bands = contract_of(find_weights(family.weights, where)[0], where).get("bands")
    count = 8 if "_swin_" in options.model else 5
    model = TERRATORCH_BACKBONE_REGISTRY.build(
        options.model, model_bands=plan.names, out_indices=list(range(count)), **options.options
    )
    name = next(name for name in _WRAPPED if hasattr(model, name))
    first, classifier = _WRAPPED[name]
    inner = getattr(model, name)
    setattr(inner, classifier, nn.Identity())
    outputs = len(inner.blocks) if name == "vit_model" else count
    layers = {"resnet_model": (4, 3, 2, 1), "swin_model": (7, 5, 3, 1), "vit_model": None}[name]

    def place(state: dict) -> dict:
        state = {key: value for key, value in state.items() if not key.startswith(f"{classifier}.")}
        positions = _positions(bands, plan, where)
        if first in state and positions != list(range(state[first].shape[1])):
            state[first] = state[first][:, positions]
        return {f"{name}.{key}": value for key, value in state.items()}

    return Built(
        model,
        lambda model, images, told: model(images),
        outputs=outputs,
        place=place,
        layers=layers or _spaced(outputs),
        layout="NHWC" if name == "swin_model" else "NCHW",
        notes={"like": family.weights},
    )


def _positions(bands, plan: InputPlan, where: str) -> list[int]:
    """Position of each input channel among the bands of the weights."""
    known = ["red", "green", "blue"] if bands in ("rgb", None) else list(bands)
    unknown = [str(channel.wanted) for channel in plan.channels if channel.wanted not in known]
    if unknown:
        raise PermafrostError(
            f"the weights were trained with {', '.join(known)}, and fed are {', '.join(unknown)}",
            where=where,
            remedy="leave input.bands out, or name bands as the weights do",
        )
    return [known.index(channel.wanted) for channel in plan.channels]


# --- others ----------------------------------------------------------------------------------------

_DOFA_BANDS = {
    "coastal": "COASTAL_AEROSOL",
    "blue": "BLUE",
    "green": "GREEN",
    "red": "RED",
    "rededge1": "RED_EDGE_1",
    "rededge2": "RED_EDGE_2",
    "rededge3": "RED_EDGE_3",
    "nir": "NIR_BROAD",
    "nir08": "NIR_NARROW",
    "water_vapour": "WATER_VAPOR",
    "cirrus": "CIRRUS",
    "swir16": "SWIR_1",
    "swir22": "SWIR_2",
    "thermal1": "THERMAL_INFRARED_1",
    "vv": "VV",
    "vh": "VH",
}


def _dofa(
    options: TerratorchOptions, family: Family, plan: InputPlan, fed: Fed, where: str
) -> Built:
    names = [_DOFA_BANDS.get(str(channel.common_name)) for channel in plan.channels]
    if None in names:
        raise PermafrostError(
            f"TerraTorch's DOFA has no wavelength for {plan.names[names.index(None)]}",
            where=where,
            remedy="name other bands under input.bands, or use kind torchgeo, which takes any wavelength",
        )
    depth = 24 if "large" in options.model else 12
    model = TERRATORCH_BACKBONE_REGISTRY.build(
        options.model, model_bands=names, out_indices=list(range(depth)), **options.options
    )

    return Built(
        model,
        lambda model, images, told: model(images),
        outputs=depth,
        place=lambda state: {f"dofa_model.{key}": value for key, value in state.items()},
        heads=("dofa_model.head.", "dofa_model.fc_norm.", "dofa_model.norm."),
        layers=_spaced(depth),
        grid=patch_grid((16, 16), padding=1),
        prefix_tokens=1,
        notes={"bands": names},
    )


BUILDERS = {
    "prithvi": _prithvi,
    "terramind": _terramind,
    "clay": _clay,
    "torchgeo": _torchgeo,
    "dofa": _dofa,
}
