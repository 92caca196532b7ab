"""Layers of detection heads."""

from __future__ import annotations

import torch
from torch import nn

MOST_GROUPS, GROUP = 32, 8


def tower(hidden: int, depth: int) -> nn.Sequential:
    """Layers of a depthwise 3x3 and a pointwise 1x1 convolution, group normalisation and ReLU."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False),
            nn.Conv2d(hidden, hidden, 1, bias=False),
            nn.GroupNorm(_groups(hidden), hidden),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


def enlarger(hidden: int) -> nn.Sequential:
    """A learned layer that doubles the size."""
    return nn.Sequential(
        nn.ConvTranspose2d(hidden, hidden, kernel_size=2, stride=2, bias=False),
        nn.GroupNorm(_groups(hidden), hidden),
        nn.ReLU(inplace=True),
    )


def _groups(hidden: int) -> int:
    """The largest number of equal groups of at least `GROUP` channels."""
    most = min(MOST_GROUPS, max(1, hidden // GROUP))
    return next(count for count in range(most, 0, -1) if hidden % count == 0)


def rows_of(x: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) -> (B, H W, C) float32."""
    return x.permute(0, 2, 3, 1).flatten(1, 2).float()
