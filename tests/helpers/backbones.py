"""Backbones of entries as a test writes them: validated and complete, as a job gets them."""

from __future__ import annotations

import copy

from permafrost.backbones import registry
from permafrost.backbones.backbone import Backbone, Resources
from permafrost.backbones.input.contract import InputPlan


def validated(entry: dict) -> dict:
    """A copy of the entry, validated and with its defaults."""
    from permafrost.plan.validation import validate

    entry = copy.deepcopy(entry)
    validate(entry, "backbone", where="entry of a test")
    return entry


def backbone_entry(entry: dict, *, where: str = "backbone x") -> registry.BackboneEntry:
    """The typed entry."""
    return registry.read_entry(validated(entry), where=where)


def plan_input(entry: dict, extraction: dict, card, *, where: str = "backbone x") -> InputPlan:
    """`registry.plan_input` of an entry as a test writes it."""
    return registry.plan_input(backbone_entry(entry, where=where), extraction, card, where=where)


def build(entry: dict, plan: InputPlan, resources: Resources) -> Backbone:
    """`registry.build` of an entry as a test writes it."""
    return registry.build(backbone_entry(entry, where=resources.where), plan, resources)
