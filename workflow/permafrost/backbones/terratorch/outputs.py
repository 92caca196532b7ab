"""Wrap a model of TerraTorch: call it, and convert its outputs to an embedding and feature maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

#: metadata of images, see `permafrost.backbones.backbone.METADATA`
type Told = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Built:
    """A model of TerraTorch with its interface.

    Attributes
    ----------
    model : returned by its constructor.
    call : (model, images, metadata) -> outputs of the model, the embedding last.
    outputs : number of outputs.
    place : published state dict -> state dict of `model`.
    finish : called after the weights are loaded.
    heads : prefixes of tensors in checkpoints that `model` does not use.
    layers : positions of the default layers among the outputs, coarse to fine.
    grid : (height, width) of the input -> (rows, columns) of tokens; None if outputs are maps.
    frames : number of dates whose tokens are concatenated.
    prefix_tokens, layout : of the outputs.
    takes, notes : see `Backbone`.
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
    """Calls a model and passes its outputs through modules ``outputs.N``, which serve as layers.

    Tokens become maps whose channels are those of all dates concatenated, as in TerraTorch's
    decoders.
    """

    def __init__(self, built: Built) -> None:
        super().__init__()
        self.model = built.model
        self.taps = nn.Module()
        self.taps.outputs = nn.ModuleList(nn.Identity() for _ in range(built.outputs))
        self._call, self._grid = built.call, built.grid
        self._prefix, self._frames = built.prefix_tokens, built.frames

    def forward(self, images: torch.Tensor, **told: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) or (B, T, C, H, W) -> the last output: tokens (B, L, K) or maps."""
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
