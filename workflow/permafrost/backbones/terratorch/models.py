"""Backbones of TerraTorch, by registered name: with random or published weights, or those of a file.

Runs in the environment `terratorch` (envs/terratorch.lock). TerraTorch's models return a list of
outputs. The last is the embedding, and each can serve as layer ``outputs.N``, where N is its index.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import torch

from permafrost.backbones.backbone import Backbone, Resources, isolated_seed
from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.layers import Dense
from permafrost.backbones.terratorch.families import (
    Family,
    TerratorchOptions,
    chosen_modalities,
    family_of,
    fed_bands,
    wanted,
)
from permafrost.backbones.terratorch.outputs import Built, Outputs
from permafrost.backbones.weights.checkpoint import check_finite, load_into, read_state_dict
from permafrost.core.errors import PermafrostError, first_line


def wants(options: TerratorchOptions, where: str) -> dict:
    """Fields of `InputContract` as in training; z-scores of all bands if that is unknown."""
    family = family_of(options.model, where)
    if family.weights is None:
        return wanted(asdict(options), where)
    from permafrost.backbones.torchgeo.weights import contract_of, find_weights

    return contract_of(find_weights(family.weights, where)[0], where)


def build(options: TerratorchOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build a model of TerraTorch.

    Raises
    ------
    PermafrostError : TerraTorch is missing, or options, weights or bands do not fit the model.
    """
    where = resources.where
    family = family_of(options.model, where)
    _check_frames(options, family, plan, where)
    chosen = chosen_modalities(family, options.modalities, where)
    fed = fed_bands(family, chosen, plan, where) if chosen else {}
    _import_terratorch(where)
    from permafrost.backbones.terratorch.building import BUILDERS

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
            blocks=tuple(f"outputs.{place}" for place in range(built.outputs)),
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
    """Notes on modalities that are used and bands that are missing."""
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
    """Import TerraTorch, and undo its changes to torch's precision and to environment variables."""
    precision, kept = torch.get_float32_matmul_precision(), dict(os.environ)
    try:
        importlib.import_module("terratorch.models.backbones.clay_v15.model")
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
    """Load the weights into the model, or raise if they do not fit; returns their SHA-256."""
    from permafrost.backbones.terratorch.building import published_file

    if options.weights is None:
        return None
    path = (
        published_file(options.model, family, where)
        if options.weights == "pretrained"
        else options.weights.path
    )
    state, digest = read_state_dict(path, where=where)
    load_into(built.model, built.place(state), ignore=built.heads, where=f"{where}: {path}")
    return digest
