"""Depth of parameters in a network, for learning rates that decrease towards the input.

Models of timm define it (``group_matcher``: stem, then block by block), including those in torchgeo. For
other modules, the names of parameters define blocks, and the order of registration is assumed to be
that of the forward pass. A block is the name up to the first numbers
(``layer1.0`` of ``layer1.0.conv.weight``, ``encoder.blocks.3`` of ``encoder.blocks.3.mlp.bias``), else the first
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
    names : name of each layer.
    places : name of a parameter -> index of its layer.
    undecayed : names of parameters that the model exempts from weight decay.
    source : definition of the layers, ``timm`` or ``names``.
    """

    names: tuple[str, ...]
    places: dict[str, int]
    undecayed: frozenset[str]
    source: str

    def __len__(self) -> int:
        return len(self.names)


def layers_of(module: nn.Module, learnable: Iterable[nn.Parameter]) -> Layers:
    """The layers of a module that have a `learnable` parameter."""
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
    """The module inside wrappers without other content, and its name."""
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
    """Name of a layer, from its blocks."""
    return ", ".join(dict.fromkeys(map(_block, names)))
