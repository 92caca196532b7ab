"""Recognise the timm architecture of a weights file by the names and shapes of its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from permafrost.backbones.weights.checkpoint import read_state_dict


class Recognised(NamedTuple):
    """An architecture that matches a file, and the number of input channels."""

    model: str
    channels: int


def recognised(file: Path, models: Iterable[str]) -> list[Recognised]:
    """The architectures among timm's `models` that match the file, apart from a classifier, in order.

    Raises
    ------
    PermafrostError : the file cannot be read safely, or does not contain a state dict.
    """
    state, _ = read_state_dict(file, where="draft")
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    found = ((model, _channels(shapes, model)) for model in models)
    return [Recognised(model, channels) for model, channels in found if channels is not None]


def _channels(shapes: dict[str, tuple[int, ...]], model: str) -> int | None:
    """Number of input channels if the shapes match the model, else None."""
    import timm

    # tensors without values, since only names and shapes are needed
    with torch.device("meta"):
        try:
            network = timm.create_model(model, pretrained=False, num_classes=0)
        except Exception:
            # some constructors need values
            return None
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    heads = network.pretrained_cfg.get("classifier") or ()
    heads = tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads))
    if any(name not in wanted and not name.startswith(heads) for name in shapes):
        return None
    channels = 3
    for name, shape in wanted.items():
        there = shapes.get(name, ())
        if there == shape:
            continue
        if len(shape) != 4 or shape[1] != 3 or (there[:1], there[2:]) != (shape[:1], shape[2:]):
            return None
        channels = there[1]
    return channels
