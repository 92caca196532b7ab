"""A model of TerraTorch, how it is called, and how its outputs become an embedding and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

#: what a module is told of its images, see `permafrost.backbones.backbone.METADATA`
type Told = Mapping[str, torch.Tensor]


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
