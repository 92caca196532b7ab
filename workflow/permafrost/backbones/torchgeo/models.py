"""Image backbones of torchgeo, by their weights or, for random weights, by their model function."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from permafrost.backbones.backbone import Backbone, Resources, isolated_seed
from permafrost.backbones.entry import Pooled, Selected, WeightsFile
from permafrost.backbones.input.contract import InputPlan, check_channels
from permafrost.backbones.torchgeo.families import (
    FAMILIES,
    NOT_FOR_IMAGES,
    PANOPTICON_PATCH,
    Family,
    interpolated,
)
from permafrost.backbones.torchgeo.inputs import of_modality
from permafrost.backbones.torchgeo.layouts import settle
from permafrost.backbones.torchgeo.weights import (
    LocalWeights,
    channels_of,
    contract_of,
    find_weights,
    offered,
)
from permafrost.backbones.weights.checkpoint import check_finite
from permafrost.backbones.weights.published import Published, at_address, obtain
from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.identity import file_digest
from permafrost.core.options import Above0, LeftOut, Some, Text


@dataclass(frozen=True, kw_only=True)
class TorchgeoFile(WeightsFile, Selected):
    """The file that torchgeo would download, or one saved from its classes."""

    like: Text
    """Name of torchgeo's weights with the same bands and transforms."""


@dataclass(frozen=True, kw_only=True)
class TorchgeoOptions(Pooled):
    """A model of torchgeo."""

    weights: Text | None | TorchgeoFile
    """Name of torchgeo's weights (ResNet50_Weights.SENTINEL2_RGB_MOCO), null for random weights, or a file."""
    model: LeftOut[Text] = None
    """Name of torchgeo's model function; needed only without weights."""
    options: dict = field(default_factory=dict)
    """Further arguments of torchgeo's model function."""
    bandwidths_nm: LeftOut[Some[Above0]] = None
    """Width of every input band in nm. Copernicus-FM needs it if neither its authors nor the dataset define it."""
    pixels: LeftOut[Literal["mean", "centre", "every"]] = None
    """Input of Presto and TESSERA, which read time series of single pixels: the mean of an image's pixels (the
    default), its centre pixel, or every pixel, which also gives feature maps; features of pixels are averaged."""
    modality: LeftOut[Literal["optical", "sar", "joint"]] = None
    """Input of CROMA: Sentinel-2 (optical, the default), Sentinel-1 radar (sar), or both (joint)."""


# tensors that torchgeo's model functions need not load: fixed or without effect
_NOT_IN_CHECKPOINTS = (
    "head",
    "fc.",
    "norm.",
    "fc_norm.",
    "pos_embed",
    "attn_bias",
)


def wants(options: TorchgeoOptions, where: str) -> dict:
    """Fields of `InputContract` from the weights, else from the family; z-scores without statistics."""
    name, weights = _parse(options, where)
    family = _family(name, where)
    if family.contract is not None:
        return family.contract(None if weights is None else str(weights))
    own = {"normalization": "dataset", **family.wants, **of_modality(name, options.modality, where)}
    return {**own, **(contract_of(weights, where) if weights is not None else {})}


def build(options: TorchgeoOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build a model of torchgeo.

    Raises
    ------
    PermafrostError : torchgeo lacks the model or weights, or options, weights or bands do not fit it.
    """
    where = resources.where
    name, weights = _parse(options, where)
    family = _family(name, where)
    if family.contract is None:
        _refuse_pixels(options, name, where)
        channels = None if weights is None else channels_of(weights)
        check_channels(channels, plan, weights, where)
    found: contextlib.AbstractContextManager[None]
    digest, found = None, contextlib.nullcontext()
    own = published(options, where)
    if own is not None:
        path, digest = obtain(own, resources.weights_folder, where=where)
        found = offered(path)
    with isolated_seed(options.seed), found:
        model = _create(
            name,
            weights,
            {**family.arguments(plan, options, weights is not None), **options.options},
            where,
        )
        rows = settle(model, weights.laid) if isinstance(weights, LocalWeights) else None
        fields = family.wrap(model, plan, options, where)
    if rows is not None:
        fields["notes"].pop("positions", None)
        fields["notes"] |= interpolated(rows, plan, PANOPTICON_PATCH, True)
    if isinstance(weights, LocalWeights):
        _check_loaded(model, weights, where)
        digest = file_digest(weights.path)
    check_finite(fields["module"].state_dict(), where=where)
    notes = {
        **getattr(weights, "notes", {}),
        **fields.pop("notes", {}),
        "model": name,
        "weights": str(weights) if weights else None,
    }
    return Backbone(
        **fields,
        plan=plan,
        where=where,
        weights_sha256=digest,
        notes=notes,
        packages=("torch", "torchvision", "timm", "torchgeo", *family.packages),
    )


def _refuse_pixels(options: TorchgeoOptions, name: str, where: str) -> None:
    if options.pixels is not None:
        raise PermafrostError(
            f"torchgeo's {name} takes images, not series of single pixels",
            where=f"{where}: pixels",
            remedy="leave pixels out",
        )


def published(options: TorchgeoOptions, where: str) -> Published | None:
    """The published weights of an entry; None if it uses others."""
    weights = options.weights
    if not isinstance(weights, str):
        return None
    return at_address(weights, find_weights(weights, where)[0].url)


def _parse(options: TorchgeoOptions, where: str):
    """(name of the model function, weights: an enum member, `LocalWeights` or None)."""
    weights, name = options.weights, options.model
    if weights is None:
        if name is None:
            raise PermafrostError("an entry without weights needs the key 'model'", where=where)
        return name, None
    if isinstance(weights, str):
        found, model = find_weights(weights, where)
    else:
        like, model = find_weights(weights.like, where)
        found = LocalWeights(like, model, weights.path, where, weights.drop, weights.prefix)
    if name not in (None, model):
        raise PermafrostError(
            f"the weights are for {model}, not for {name}", where=f"{where}: model"
        )
    return model, found


def _family(name: str, where: str) -> Family:
    if name in NOT_FOR_IMAGES:
        raise PermafrostError(
            f"torchgeo's {name} {NOT_FOR_IMAGES[name]}; it gives no features of an image by itself",
            where=where,
            remedy="wrap it in an entry point of your own (config/backbones/template.py)",
        )
    return look_up(FAMILIES, name, "torchgeo has no model", where=f"{where}: model")


def _create(name: str, weights, arguments: dict, where: str) -> nn.Module:
    import torchgeo.models

    try:
        # some functions have no argument `weights`
        known = {"weights": weights} if weights is not None else {}
        return getattr(torchgeo.models, name)(**known, **arguments)
    except PermafrostError:
        raise
    except (TypeError, ValueError, AssertionError, KeyError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:400] or type(error).__name__
        what = f"does not accept the weights or options ({reason})"
        raise PermafrostError(
            f"torchgeo's {name} {what}",
            where=where,
            remedy="check that the file holds these weights, and `options`, which go to the model function",
        ) from error


def _check_loaded(model: nn.Module, weights: LocalWeights, where: str) -> None:
    """Check a file for missing tensors, since torchgeo does not do so for some models."""
    state, flat = weights.get_state_dict(), {}
    for key, value in state.items():
        flat.update(
            {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
        )
    missing = [
        key
        for key in model.state_dict()
        if key not in flat
        and key.removeprefix("model.") not in flat
        and not key.removeprefix("model.").startswith(_NOT_IN_CHECKPOINTS)
    ]
    if missing:
        shown = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        raise PermafrostError(
            f"the checkpoint does not fit the model; {len(missing)} tensors missing: {shown}",
            where=f"{where}: {weights.path}",
            remedy=f"use the file that torchgeo publishes as {weights}",
        )
