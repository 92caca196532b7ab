"""Build a backbone of any kind (see `kinds`) from its entry."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permafrost.backbones.backbone import Backbone, Resources, learnable_parameters
from permafrost.backbones.entry import Described
from permafrost.backbones.input.contract import (
    InputContract,
    InputPlan,
    input_contract,
    resolve_input,
)
from permafrost.backbones.kinds import KINDS
from permafrost.core.errors import look_up
from permafrost.core.option_models import read

if TYPE_CHECKING:
    from permafrost.backbones.located import Located
    from permafrost.backbones.weights.published import Published
    from permafrost.data.store.card import Card


_COMMON = ("input", "layers", "weights_folder")
#: keys of an entry that do not affect how the backbone is built
NOT_BUILT = (*(one.name for one in fields(Described)), "files")


@dataclass(frozen=True, kw_only=True)
class BackboneEntry:
    """The keys of a catalogue entry that affect how the backbone is built.

    Attributes
    ----------
    kind, options : kind of backbone (`KINDS`) and its options.
    input : fields of `InputContract` in the entry.
    layers : layers for feature maps, coarse to fine; None: the defaults of the family.
    weights_folder : for published weights; not part of the identity.
    """

    kind: str
    options: Any
    input: dict = field(default_factory=dict)
    layers: list[str] | None = None
    weights_folder: str | None = None


def read_entry(content: dict, *, where: str) -> BackboneEntry:
    """Read an entry from JSON data.

    Raises
    ------
    PermafrostError : a key is unknown, missing or of the wrong type.
    """
    values = {key: value for key, value in content.items() if key not in NOT_BUILT}
    kind = values.pop("kind", None)
    look_up(KINDS, kind, "unknown kind", where=where)
    KINDS[kind].check_model(where)
    common = {key: values.pop(key) for key in _COMMON if key in values}
    options: Any = read(KINDS[kind].options_class(), values, where=where)
    return BackboneEntry(kind=kind, options=options, **common)


def plan_input(entry: BackboneEntry, extraction: dict, card: Card, *, where: str) -> InputPlan:
    """Plan the input of a backbone for a dataset; errors as of `resolve_input`."""
    contract = contract_of(entry, extraction, where=where)
    return resolve_input(contract, card, where=f"{where} on {card.dataset}")


def contract_of(entry: BackboneEntry, extraction: dict, *, where: str) -> InputContract:
    """The input contract from the entry, its weights and the run's options."""
    kind = KINDS[entry.kind]
    own = kind.load().wants(entry.options, where) if kind.wants is None else kind.wants
    return input_contract(own, entry.input, extraction, where=where)


def build(entry: BackboneEntry, plan: InputPlan, resources: Resources) -> Backbone:
    """Build the backbone of an entry on the CPU, frozen and in evaluation mode.

    Raises
    ------
    PermafrostError : options or weights do not fit, or weights are missing, damaged or not finite.
    """
    if entry.weights_folder is not None:
        resources = replace(resources, weights_folder=Path(entry.weights_folder))
    backbone = KINDS[entry.kind].load().build(entry.options, plan, resources)
    backbone.module.eval()
    backbone.learnable = learnable_parameters(backbone.module)
    for parameter in backbone.module.parameters():
        parameter.requires_grad_(False)
    return backbone


def locate(entry: BackboneEntry, where: str) -> Located:
    """Build the backbone of an entry whose kind reads locations instead of pixels."""
    folder = Path(entry.weights_folder or Resources.weights_folder)
    return KINDS[entry.kind].load().locate(entry.options, where, weights_folder=folder)


def published_weights(entry: BackboneEntry, *, where: str) -> Published | None:
    """The published weights of an entry; None if it does not use any."""
    asked = getattr(KINDS[entry.kind].load(), "published", None)
    return None if asked is None else asked(entry.options, where)
