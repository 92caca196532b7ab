"""Backbones of TerraTorch by their registered names: random, with its own weights, or with weights from a file.

Runs in the environment `terratorch` (envs/terratorch.lock). What a model returns is read in one form: TerraTorch gives a
list of outputs, of which the last is the embedding and all can be layers, ``outputs.N`` by their place in the list.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import nn

from permafrost.backbones.backbone import Backbone, Resources, isolated_seed
from permafrost.backbones.checkpoint import check_finite, load_into, read_state_dict
from permafrost.backbones.contract import InputPlan
from permafrost.backbones.layers import Dense
from permafrost.backbones.terratorch_families import (
    Family,
    chosen_modalities,
    family_of,
    fed_bands,
    wanted,
)
from permafrost.core.errors import PermafrostError, first_line

type Told = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class TerratorchOptions:
    """Options of a backbone of TerraTorch.

    Attributes
    ----------
    weights : ``pretrained``, TerraTorch's own; ``{source: file, path}``; None for random ones from the seed.
    modalities : those that the model is fed, or their bands by modality; None for the model's usual one.
    frames : dates that a model of series sees at once, evenly spread over those that there are.
    options : further arguments of TerraTorch's constructor.
    """

    model: str
    seed: int
    options: dict
    frames: int
    weights: str | dict[str, str] | None = None
    modalities: list[str] | dict[str, list[str] | None] | None = None
    pooling: str | None = None


@dataclass(frozen=True)
class Built:
    """A model of TerraTorch and how it is called.

    Attributes
    ----------
    model : as its constructor returned it.
    call : (model, images, told) -> outputs of the model, the embedding last.
    place : state dict as published -> state dict of `model`.
    finish : what is done to the model once its weights are in.
    heads : tensors of checkpoints that `model` has no use for.
    layers : places in the outputs of the default layers, coarse to fine.
    grid : (rows, columns) of tokens for (height, width) fed; None where outputs are maps.
    frames : dates whose tokens follow each other.
    prefix_tokens, layout : of the outputs.
    takes : see `Backbone`.
    """

    model: nn.Module
    call: Callable[[nn.Module, torch.Tensor, Told], Sequence[torch.Tensor]]
    outputs: int
    place: Callable[[dict], dict] = lambda state: state
    finish: Callable[[], object] = lambda: None
    heads: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    grid: Callable[[int, int], tuple[int, int]] | None = None
    frames: int = 1
    prefix_tokens: int = 0
    layout: str = "NCHW"
    takes: frozenset[str] = frozenset()
    notes: dict = field(default_factory=dict)


class Outputs(nn.Module):
    """A model whose outputs pass by modules ``outputs.N``, from which layers are read.

    Of tokens, maps of all dates lie one after the other in the channels, as TerraTorch's decoders take them.
    """

    def __init__(self, built: Built) -> None:
        super().__init__()
        self.model = built.model
        self.taps = nn.Module()
        self.taps.outputs = nn.ModuleList(nn.Identity() for _ in range(built.outputs))
        self._call, self._grid = built.call, built.grid
        self._prefix, self._frames = built.prefix_tokens, built.frames

    def forward(self, images: torch.Tensor, **told: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W), of all dates (B, T, C, H, W) -> the last output: tokens (B, L, K) or maps."""
        outputs = self._call(self.model, images, told)
        for tap, output in zip(self.taps.outputs, outputs, strict=True):
            tap(self._map(output, images.shape[-2:]))
        return outputs[-1]

    def _map(self, output: torch.Tensor, fed: Sequence[int]) -> torch.Tensor:
        if self._grid is None:
            return output
        rows, columns = self._grid(*fed)
        tokens = output[:, self._prefix :].unflatten(1, (self._frames, rows, columns))
        return tokens.permute(0, 1, 4, 2, 3).flatten(1, 2)


def wants(options: TerratorchOptions, where: str) -> dict:
    """What the model was trained with; z-scores of all bands where that is not known."""
    family = family_of(options.model, where)
    if family.weights is None:
        return wanted(asdict(options), where)
    from permafrost.backbones.torchgeo_weights import contract_of, find_weights

    return contract_of(find_weights(family.weights, where)[0], where)


def build(options: TerratorchOptions, plan: InputPlan, resources: Resources) -> Backbone:
    where = resources.where
    family = family_of(options.model, where)
    _check_frames(options, family, plan, where)
    chosen = chosen_modalities(family, options.modalities, where)
    fed = fed_bands(family, chosen, plan, where) if chosen else {}
    _import_terratorch(where)
    from permafrost.backbones.terratorch_building import BUILDERS

    with isolated_seed(options.seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            built = BUILDERS[family.kind](options, family, plan, fed, where)
        except (TypeError, ValueError, KeyError, AssertionError, NotImplementedError) as error:
            raise PermafrostError(
                f"TerraTorch cannot build {options.model} ({first_line(error)})",
                where=where,
                remedy="correct `options`, which are passed to its constructor",
            ) from error
        digest = _load(options, family, built, where)
        built.finish()
    check_finite(built.model.state_dict(), where=where)
    module = Outputs(built)
    return Backbone(
        module,
        plan,
        where,
        pooling=options.pooling or "mean",
        prefix_tokens=built.prefix_tokens,
        layout=built.layout,
        weights_sha256=digest,
        notes={"model": options.model, **built.notes, **_left_out(chosen, fed)},
        packages=("torch", "terratorch", "torchgeo", "timm"),
        dense=lambda: Dense(
            module.taps,
            tuple(f"outputs.{place}" for place in built.layers),
            layout=built.layout,
        ),
        takes=built.takes,
    )


def _check_frames(options: TerratorchOptions, family: Family, plan: InputPlan, where: str) -> None:
    if options.frames > 1 and family.kind != "prithvi":
        raise PermafrostError(
            f"frames: {options.frames}, and {options.model} sees one date at a time",
            where=where,
            remedy="leave frames out",
        )
    if (options.frames > 1) != (plan.dates == "all"):
        raise PermafrostError(
            f"frames: {options.frames} with input.dates: {plan.dates}",
            where=where,
            remedy="give both frames, of at least 2, and input: {dates: all}; or neither of them",
        )


def _left_out(chosen: Mapping[str, Sequence[str]], fed: Mapping[str, Mapping[str, int]]) -> dict:
    """What was used, and what was absent, for the record."""
    if not chosen:
        return {}
    absent = {
        key: [name for name in names if name not in fed.get(key, {})]
        for key, names in chosen.items()
    }
    absent = {key: names for key, names in absent.items() if names}
    return {
        "modalities": {key: list(names) for key, names in fed.items()},
        **({"left_out": absent} if absent else {}),
    }


def _import_terratorch(where: str) -> None:
    """TerraTorch, without the changes to torch's precision and environment that importing parts of it makes."""
    precision, kept = torch.get_float32_matmul_precision(), dict(os.environ)
    try:
        import terratorch.models.backbones
        import terratorch.models.backbones.clay_v15.model
    except ImportError as error:
        raise PermafrostError(
            f"TerraTorch cannot be imported ({first_line(error)})",
            where=where,
            remedy="write `environment: terratorch` in the entry",
        ) from error
    finally:
        torch.set_float32_matmul_precision(precision)
        for key in set(os.environ) - set(kept):
            del os.environ[key]


def _load(options: TerratorchOptions, family: Family, built: Built, where: str) -> str | None:
    """Put the weights into the model, all of them or an error; their digest."""
    from permafrost.backbones.terratorch_building import published_file

    if options.weights is None:
        return None
    path = (
        published_file(options.model, family, where)
        if options.weights == "pretrained"
        else options.weights["path"]
    )
    state, digest = read_state_dict(path, where=where)
    load_into(built.model, built.place(state), ignore=built.heads, where=f"{where}: {path}")
    return digest
