"""How deep in a network its parameters lie, for learning rates that fall towards the input.

A model of timm says so itself (``group_matcher``: stem, then block by block), torchgeo's that are timm's
included. Any other module is read by names, in the order in which it registers its parameters, which is
taken for the order of the forward pass: a block is what stands before and at the first run of numbers in a
name (``layer1.0`` of ``layer1.0.conv.weight``, ``encoder.blocks.3`` of ``encoder.blocks.3.mlp.bias``), else the first
part of the name; parameters of the module itself (class tokens, position embeddings) belong to the first block.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Layers:
    """The layers of a module from input to output.

    Attributes
    ----------
    names : one for each.
    places : name of a parameter -> number of its layer.
    undecayed : names of parameters that the model itself exempts from weight decay.
    source : ``timm`` or ``names``.
    """

    names: tuple[str, ...]
    places: dict[str, int]
    undecayed: frozenset[str]
    source: str

    def __len__(self) -> int:
        return len(self.names)


def layers_of(module: nn.Module, learnable: Iterable[nn.Parameter]) -> Layers:
    """The layers of a module with parameters; only those that hold a `learnable` one are counted."""
    inner, prefix = _unwrapped(module)
    learned = {id(parameter) for parameter in learnable}
    held = dict(inner.named_parameters())
    names = [name for name in held if id(held[name]) in learned]
    if hasattr(inner, "group_matcher"):
        from timm.models import group_parameters

        found = group_parameters(inner, inner.group_matcher(coarse=False))
        groups, source = [found[number] for number in sorted(found)], "timm"
        groups = [[name for name in group if name in names] for group in groups]
    else:
        groups, source = _by_name(names), "names"
    groups = [group for group in groups if group]
    exempt = getattr(inner, "no_weight_decay", None)
    return Layers(
        tuple(_called(group) for group in groups),
        {prefix + name: number for number, group in enumerate(groups) for name in group},
        frozenset(prefix + name for name in (exempt() if callable(exempt) else ())),
        source,
    )


def _unwrapped(module: nn.Module) -> tuple[nn.Module, str]:
    """The module inside of those that do nothing but hold one, and its name."""
    prefix = ""
    while not hasattr(module, "group_matcher"):
        children = list(module.named_children())
        if len(children) != 1 or any(True for _ in module.parameters(recurse=False)):
            break
        name, module = children[0]
        prefix += f"{name}."
    return module, prefix


def _by_name(names: list[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    own = [name for name in names if "." not in name]
    for name in names:
        if "." in name:
            groups.setdefault(_block(name), []).append(name)
    found = list(groups.values())
    if own:
        found[:1] = [own + (found[0] if found else [])]
    return found


def _block(name: str) -> str:
    parts = name.split(".")[:-1]
    first = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if first is None:
        return parts[0] if parts else name
    stop = first
    while stop < len(parts) and parts[stop].isdigit():
        stop += 1
    return ".".join(parts[:stop])


def _called(names: list[str]) -> str:
    """The blocks that a layer consists of."""
    return ", ".join(dict.fromkeys(map(_block, names)))
