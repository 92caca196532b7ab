"""The kinds of backbones, and the one way to build a backbone from its entry."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from permafrost.backbones.backbone import Backbone, Resources, learnable_parameters
from permafrost.backbones.contract import InputPlan, input_contract, resolve_input
from permafrost.core.errors import PermafrostError, near_names

if TYPE_CHECKING:
    from permafrost.data.card import Card

#: kind -> module with ``OPTIONS`` (keys of an entry beside the common ones), ``wants(entry, where)``
#: (fields of `InputContract` that the kind or its weights bring along) and ``build(entry, plan, resources)``
KINDS = {
    "imagestats": "permafrost.backbones.imagestats",
    "rcf": "permafrost.backbones.rcf",
    "timm": "permafrost.backbones.timm_models",
    "torchgeo": "permafrost.backbones.torchgeo_models",
    "entrypoint": "permafrost.backbones.entrypoint",
}

#: keys that entries of every kind may have
COMMON = frozenset(
    {
        "kind",
        "title",
        "description",
        "licence",
        "citation",
        "url",
        "runtime",
        "input",
        "files",
        "layers",
    }
)


def plan_input(entry: dict, extraction: dict, card: Card, *, where: str) -> InputPlan:
    """How the tensor for this backbone is made from this dataset."""
    kind = _kind(entry, where)
    own = kind.wants(entry, where)
    contract = input_contract(own, entry.get("input") or {}, extraction, where=where)
    return resolve_input(contract, card, where=f"{where} on {card.dataset}")


def build(entry: dict, plan: InputPlan, resources: Resources) -> Backbone:
    """The backbone of an entry, in evaluation mode, on the CPU, with weights that were checked."""
    kind = _kind(entry, resources.where)
    backbone = kind.build(entry, plan, resources)
    backbone.module.eval()
    backbone.learnable = learnable_parameters(backbone.module)
    for parameter in backbone.module.parameters():
        parameter.requires_grad_(False)
    return backbone


def _kind(entry: dict, where: str):
    name = entry.get("kind")
    if name not in KINDS:
        raise PermafrostError(f"unknown kind {name!r}, {near_names(str(name), KINDS)}", where=where)
    kind = importlib.import_module(KINDS[name])
    for key in entry:
        if key not in COMMON | kind.OPTIONS:
            raise PermafrostError(
                f"unknown key {key!r} for kind {name}, {near_names(key, COMMON | kind.OPTIONS)}",
                where=where,
            )
    return kind
