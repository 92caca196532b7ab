"""The dpt head: the decoder of dense prediction transformers for segmentation (Ranftl et al. 2021).

As in the authors' code for segmentation, residual units have batch normalisation, and all resizing aligns
corners. Three differences do not change the function. The 1x1 convolution at the end of a fusion block
comes before its resizing, which commutes with it. So does most of the 3x3 convolution of the output before
the last resizing. The coarsest block lacks the unit for a map from above, which the authors'
code has but never uses.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.layers import (
    check_coarse_to_fine,
    check_spatial,
    resize,
    resize_logits,
)
from permafrost.probes.segmentation.heads.enlarged import convolve_enlarged
from permafrost.probes.segmentation.heads.normalised import NormalisedActivation

LAYERS = 4
# channels of the reassembled maps as a share of the backbone's, coarse to fine (as for ViT-B)
SHARES = (1, 2, 4, 8)


class DPTHead(nn.Module):
    """Reassemble four maps into a pyramid, fuse it from coarse to fine, classify.

    Maps of different sizes already form a pyramid and are not reassembled. Four maps of one size
    (vision transformers) are projected and resampled to 1/2, 1, 2 and 4 times their grid.
    """

    def __init__(self, channels: list[int], classes: int, hidden: int = 256, sizes=None) -> None:
        super().__init__()
        if len(channels) != LAYERS:
            raise PermafrostError(
                f"the head dpt takes exactly {LAYERS} layers, got {len(channels)}",
                remedy=f"name {LAYERS} layers, coarse to fine, in the backbone's entry or the probe,"
                " or choose another head",
            )
        if sizes is None:
            raise TypeError("the head dpt is built for the sizes of its maps")
        check_spatial(sizes, "dpt")
        check_coarse_to_fine(sizes, "dpt")
        widths = list(channels)
        self.reassemble = nn.ModuleList(nn.Identity() for _ in channels)
        if len(set(sizes)) == 1:
            widths = [max(1, c // share) for c, share in zip(channels, SHARES, strict=True)]
            self.reassemble = nn.ModuleList(
                nn.Sequential(nn.Conv2d(count, width, kernel_size=1), _resample(width, level))
                for level, (count, width) in enumerate(zip(channels, widths, strict=True))
            )
        self.project = nn.ModuleList(_convolution(width, hidden) for width in widths)
        self.fuse = nn.ModuleList(
            FusionBlock(hidden, from_above=level > 0) for level in range(LAYERS)
        )
        self.smooth = _convolution(hidden, hidden)
        self.output = nn.Sequential(
            NormalisedActivation(hidden, "relu"),
            nn.Dropout(0.1),
            nn.Conv2d(hidden, classes, kernel_size=1),
        )

    def forward(self, maps: list[torch.Tensor], size) -> torch.Tensor:
        levels = [
            project(reassemble(x))
            for project, reassemble, x in zip(self.project, self.reassemble, maps, strict=True)
        ]
        path = None
        for block, level in zip(self.fuse, levels, strict=True):
            if path is not None:
                path = resize(path, level.shape[-2:], align_corners=True)
            path = block(level, path)
        twice = [2 * length for length in path.shape[-2:]]
        path = convolve_enlarged(path, self.smooth, twice, align_corners=True)
        return resize_logits(self.output(path), size, align_corners=True)


class FusionBlock(nn.Module):
    """Adds a level to the path from the coarser level, and refines the sum; the caller enlarges it."""

    def __init__(self, hidden: int, *, from_above: bool) -> None:
        super().__init__()
        self.enter = ResidualUnit(hidden) if from_above else None
        self.refine = ResidualUnit(hidden)
        self.project = nn.Conv2d(hidden, hidden, kernel_size=1)

    def forward(self, level: torch.Tensor, path: torch.Tensor | None) -> torch.Tensor:
        if path is not None:
            level = path + self.enter(level)
        return self.project(self.refine(level))


class ResidualUnit(nn.Module):
    """ReLU, 3x3 convolution and BatchNorm2d, twice, added to the input."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(hidden, hidden), NormalisedActivation(hidden, "relu")
        self.conv2, self.norm2 = _convolution(hidden, hidden), NormalisedActivation(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm1(self.conv1(functional.relu(x)))
        return self.norm2(self.conv2(inner)) + x


def _convolution(channels: int, out: int) -> nn.Conv2d:
    return nn.Conv2d(channels, out, kernel_size=3, padding=1, bias=False)


def _resample(width: int, level: int) -> nn.Module:
    """Resampling to 1/2, 1, 2 or 4 times the grid, for `level` 0 to 3."""
    if level == 0:
        return nn.Conv2d(width, width, kernel_size=3, stride=2, padding=1)
    if level == 1:
        return nn.Identity()
    factor = 2 ** (level - 1)
    return nn.ConvTranspose2d(width, width, kernel_size=factor, stride=factor)
