"""The conv_block head: projects layers to one width, combines and classifies them."""

from __future__ import annotations

import torch
from torch import nn

from permafrost.probes.dense.layers import MixedLevels, resize_logits
from permafrost.probes.segmentation.heads.normalised import NormalisedActivation

# maps are combined on a grid with sides of at least this many pixels
SMALLEST = 16


class ConvBlockHead(nn.Module):
    """Per layer 1x1 convolution, BatchNorm2d and SiLU; then one 1x1 convolution over all layers.

    The layers are combined at the size of the largest map (at least 16x16), and the logits are resized.
    """

    def __init__(self, channels: list[int], classes: int, hidden: int = 256, sizes=None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(count, hidden, kernel_size=1, bias=False),
                NormalisedActivation(hidden, "silu"),
            )
            for count in channels
        )
        self.classify = MixedLevels(len(channels), hidden, classes)

    def forward(self, maps: list[torch.Tensor], size) -> torch.Tensor:
        levels = [block(x) for block, x in zip(self.blocks, maps, strict=True)]
        common = [max(SMALLEST, *(x.shape[axis] for x in maps)) for axis in (-2, -1)]
        return resize_logits(self.classify(levels, common), size)
