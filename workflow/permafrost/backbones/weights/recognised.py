"""Which architecture of timm a weights file is of, by the names and shapes of its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from permafrost.backbones.weights.checkpoint import read_state_dict


class Recognised(NamedTuple):
    """An architecture whose tensors are those of a file, and the channels that its first convolution takes."""

    model: str
    channels: int


def recognised(file: Path, models: Iterable[str]) -> list[Recognised]:
    """The architectures, of timm's names `models`, that the file fits but for a classifier, in the order given.

    Raises
    ------
    PermafrostError : the file cannot be read safely, or holds no state dict.
    """
    state, _ = read_state_dict(file, where="draft")
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    found = ((model, _channels(shapes, model)) for model in models)
    return [Recognised(model, channels) for model, channels in found if channels is not None]


def _channels(shapes: dict[str, tuple[int, ...]], model: str) -> int | None:
    """Channels of the first convolution where the shapes are those of the model, else None."""
    import timm

    # tensors without values: only their names and shapes are wanted
    with torch.device("meta"):
        try:
            network = timm.create_model(model, pretrained=False, num_classes=0)
        except Exception:
            # some constructors compute with values
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
