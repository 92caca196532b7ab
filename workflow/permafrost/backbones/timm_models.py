"""Models of timm: random, with timm's pretrained weights, or with weights from a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import timm
from timm.models import get_deprecated_models, get_pretrained_cfg, is_model
from torch import nn

from permafrost.backbones.backbone import Backbone, Resources, isolated_seed
from permafrost.backbones.entry import Pooled, Selected
from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.timm_maps import timm_dense
from permafrost.backbones.weights.checkpoint import check_finite, load_file_into
from permafrost.backbones.weights.published import Published, at_address, obtain, on_hub
from permafrost.core.errors import PermafrostError, first_line, look_up, near_names
from permafrost.core.options import LeftOut, Text


@dataclass(frozen=True, kw_only=True)
class TimmWeights(Selected):
    """Source of the weights."""

    RULES = {
        "if": {"required": ["source"], "properties": {"source": {"const": "file"}}},
        "then": {"required": ["path"]},
        "dependentRequired": {"drop": ["path"], "prefix": ["path"]},
    }

    source: Literal["random", "pretrained", "file"]
    """Random by `seed`, timm's pretrained weights (downloaded once), or a file."""
    path: LeftOut[Text] = None
    """A .safetensors file, or a state dict that torch.load reads with weights_only=True."""


@dataclass(frozen=True, kw_only=True)
class TimmOptions(Pooled):
    """A model of timm."""

    model: Text
    """Name of the model, with the tag of its weights if there are several (resnet50.a1_in1k)."""
    weights: TimmWeights
    """Source of the weights."""
    options: dict = field(default_factory=dict)
    """Further arguments of timm.create_model."""


class Features(nn.Module):
    """A timm model without pooling and head: returns its last normalized tokens or maps."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model.forward_features(images)


def wants(options: TimmOptions, where: str) -> dict:
    """Fields of `InputContract`: statistics of the weights; z-scores for random weights."""
    config = _config(options.model, where)
    trained = weights_source(options.weights, where) != "random"
    return {
        "normalization": "weights" if trained else "dataset",
        "unit": "unit_interval",
        "mean": tuple(config.mean),
        "std": tuple(config.std),
    }


def build(options: TimmOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build a model of timm.

    Raises
    ------
    PermafrostError : timm lacks the model or weights, or options or weights do not fit it.
    """
    where, source = resources.where, weights_source(options.weights, resources.where)
    notes: dict[str, Any]
    notes, digest, found = {}, None, None
    weights = published(options, where)
    if weights is not None:
        found, digest = obtain(weights, resources.weights_folder, where=where)
    with isolated_seed(options.seed):
        model = _create(options, plan, found, where=where)
    if source == "file":
        notes, digest = load_file_into(
            model,
            options.weights.path,
            drop=options.weights.drop,
            prefix=options.weights.prefix,
            ignore=_names(model, "classifier"),
            first_convs=_names(model, "first_conv"),
            where=where,
        )
    else:
        check_finite(model.state_dict(), where=where)
        if source == "pretrained" and len(plan) != 3:
            notes["input_convolution"] = f"adapted from 3 to {len(plan)} channels"
    notes |= _interpolated(options, plan, trained=source != "random")
    return Backbone(
        **pooled(model, options.pooling),
        plan=plan,
        where=where,
        weights_sha256=digest,
        notes=notes,
        packages=("torch", "timm"),
    )


def _interpolated(options: TimmOptions, plan: InputPlan, *, trained: bool) -> dict:
    """A note if trained position embeddings are interpolated to another size; else empty."""
    config, fed = _config(options.model, options.model), options.options.get("img_size", plan.side)
    native = config.input_size[-1]
    if not (trained and config.fixed_input_size) or fed == native:
        return {}
    return {
        "positions": f"position embeddings interpolated from images of {native} pixels"
        f" to {fed or 'the size of each image'}"
    }


def published(options: TimmOptions, where: str) -> Published | None:
    """The pretrained weights of an entry, searched like timm's loader does; None if it uses others.

    Raises
    ------
    PermafrostError : timm has no pretrained weights for the model.
    """
    if weights_source(options.weights, where) != "pretrained":
        return None
    config = _config(options.model, where)
    name = ".".join(filter(None, (config.architecture, config.tag)))
    if config.hf_hub_id:
        given = config.hf_hub_filename or "pytorch_model.bin"
        safe = {"pytorch_model.bin": "model.safetensors"}.get(given, f"{given[:-4]}.safetensors")
        if given == "open_clip_pytorch_model.bin":
            safe = "open_clip_model.safetensors"
        return on_hub(name, config.hf_hub_id, (safe, given) if given.endswith(".bin") else (given,))
    if not config.url:
        raise PermafrostError(
            f"timm has no pretrained weights for {options.model}",
            where=where,
            remedy="use weights: {source: random} or {source: file, path: …}",
        )
    return at_address(name, config.url)


def pooled(model: nn.Module, pooling: str | None) -> dict:
    """Fields of `Backbone` for a timm model: with its own pooling if `pooling` is None, else without.

    The model declares its tokens and layout by ``num_prefix_tokens`` and ``output_fmt``.
    """

    def dense():
        return timm_dense(model)

    if pooling is None:
        return {"module": model, "dense": dense}
    layout = getattr(model, "output_fmt", "NCHW")
    return {
        "module": Features(model),
        "pooling": pooling,
        "prefix_tokens": int(getattr(model, "num_prefix_tokens", 0)),
        "layout": str(getattr(layout, "value", layout)),
        "dense": dense,
    }


def weights_source(weights: TimmWeights, where: str) -> str:
    """``random``, ``pretrained`` or ``file``; raises `PermafrostError` if `path` does not go with it."""
    source = weights.source
    if (source == "file") != (weights.path is not None):
        raise PermafrostError(
            f"weights: {weights} is not understood",
            where=where,
            remedy="write {source: random}, {source: pretrained} or {source: file, path: …}",
        )
    return source


def _config(name: str, where: str):
    """timm's configuration of the model's weights, which may not be downloaded yet."""
    if not is_model(name.partition(".")[0]):
        raise PermafrostError(
            f"timm {timm.__version__} has no model {name!r}, {near_names(name, timm.list_models())}",
            where=f"{where}: model",
        )
    known = timm.list_models(f"{name.partition('.')[0]}.*", pretrained=True)
    if "." in name:
        look_up(known, name, f"timm {timm.__version__} has no weights", where=f"{where}: model")
    config = get_pretrained_cfg(name)
    if config is None:
        today = get_deprecated_models().get(name)
        raise PermafrostError(
            f"{name!r} is a former name of a model of timm",
            where=f"{where}: model",
            remedy=f"write {today}" if today else "choose another model",
        )
    return config


def _create(chosen: TimmOptions, plan: InputPlan, weights: Path | None, *, where: str) -> nn.Module:
    """Create the model with the published `weights`, or with random weights if None."""
    name, options = chosen.model, dict(chosen.options)
    config = _config(name, where)
    fixed = config.fixed_input_size and plan.side and plan.side != config.input_size[-1]
    if fixed and "img_size" not in options:
        options["img_size"] = plan.side
    if weights is not None:
        # only .npz files need the model's own loader; files of the hub have timm's layout
        custom = config.custom_load if weights.suffix == ".npz" else False
        options["pretrained_cfg_overlay"] = {"file": str(weights), "custom_load": custom}
    try:
        return timm.create_model(
            name, pretrained=weights is not None, in_chans=len(plan), num_classes=0, **options
        )
    except (TypeError, ValueError, NotImplementedError, AssertionError) as error:
        raise PermafrostError(
            f"timm cannot build {name} ({first_line(error)})",
            where=where,
            remedy="correct `options`, which are passed to timm.create_model",
        ) from error
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300] or first_line(error)
        raise PermafrostError(
            f"timm cannot load the weights of {name} ({reason})",
            where=where,
        ) from error


def _names(model: nn.Module, key: str) -> tuple[str, ...]:
    value = model.pretrained_cfg.get(key) or ()
    return (value,) if isinstance(value, str) else tuple(value)
