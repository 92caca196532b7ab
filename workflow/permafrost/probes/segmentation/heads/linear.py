"""The linear head: a linear classifier per pixel of each layer, and their weighted sum."""

from __future__ import annotations

import torch
from torch import nn

from permafrost.probes.dense.layers import NormalisedProjection, sum_resized


class LinearHead(nn.Module):
    """Per layer BatchNorm2d and 1x1 convolution to classes, resized and summed with learned weights.

    A single layer has no weight. `hidden` and `sizes` are not used.
    """

    def __init__(self, channels: list[int], classes: int, hidden: int = 256, sizes=None) -> None:
        super().__init__()
        self.classifiers = nn.ModuleList(
            NormalisedProjection(count, classes, bias=True) for count in channels
        )
        self.weights = nn.Parameter(torch.ones(len(channels))) if len(channels) > 1 else None

    def forward(self, maps: list[torch.Tensor], size) -> torch.Tensor:
        logits = [classify(x) for classify, x in zip(self.classifiers, maps, strict=True)]
        if self.weights is not None:
            logits = [x * weight for x, weight in zip(logits, self.weights, strict=True)]
        return sum_resized(logits, size)
