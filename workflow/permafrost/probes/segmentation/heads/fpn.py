"""The fpn head: a feature pyramid (Lin et al. 2017) over the layers, with one classifier for all levels."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from permafrost.probes.dense.layers import (
    MixedLevels,
    NormalisedProjection,
    check_coarse_to_fine,
    check_spatial,
    resize,
    resize_logits,
)
from permafrost.probes.segmentation.heads.enlarged import convolve_enlarged, pays
from permafrost.probes.segmentation.heads.normalised import NormalisedActivation

# a layer whose channels are at most this share of `hidden` is convolved in two parts
NARROW = 0.75


class FPNHead(nn.Module):
    """BatchNorm2d and lateral 1x1 convolutions, added from coarse to fine, a 3x3 convolution per level.

    One 1x1 convolution combines the levels at the size of the finest map; the logits are resized.
    """

    def __init__(self, channels: list[int], classes: int, hidden: int = 256, sizes=None) -> None:
        super().__init__()
        if sizes is not None:
            check_spatial(sizes, "fpn")
            check_coarse_to_fine(sizes, "fpn")
        self.laterals = nn.ModuleList(
            NormalisedProjection(count, hidden, bias=False) for count in channels
        )
        self.smoothers = nn.ModuleList(
            nn.Conv2d(hidden, hidden, kernel_size=3, padding=1, bias=False) for _ in channels
        )
        self.norms = nn.ModuleList(NormalisedActivation(hidden, "relu") for _ in channels)
        self.classify = MixedLevels(len(channels), hidden, classes)

    def forward(self, maps: list[torch.Tensor], size) -> torch.Tensor:
        level: torch.Tensor | None
        above: torch.Tensor | None
        smoothed, level = [], None
        for i, (lateral, smooth, x) in enumerate(
            zip(self.laterals, self.smoothers, maps, strict=True)
        ):
            above, shape = level, x.shape[-2:]
            narrow = x.shape[1] <= NARROW * smooth.in_channels
            if above is None or not (narrow and pays(above, shape)):
                level = lateral(x)
                level = level if above is None else level + resize(above, shape)
                smoothed.append(smooth(level))
                continue
            weight, shift = lateral.folded(x)
            part = _projected_and_convolved(x, weight, shift, smooth.weight)
            smoothed.append(part + convolve_enlarged(above, smooth, shape))
            if i + 1 < len(maps):
                level = functional.conv2d(x, weight[:, :, None, None], shift) + resize(above, shape)
        levels = [norm(x) for norm, x in zip(self.norms, smoothed, strict=True)]
        return resize_logits(self.classify(levels, levels[-1].shape[-2:]), size)


def _projected_and_convolved(x, weight, shift, kernel) -> torch.Tensor:
    """A 1x1 convolution and then a 3x3 one with zero padding, as one 3x3 convolution of fewer channels.

    The projected map is padded with zeros, so at the border some taps do not include the shift.
    """
    whole = torch.einsum("omrc,mi->oirc", kernel, weight)
    tap_shifts = torch.einsum("omrc,m->rco", kernel, shift)
    rows, columns = (_taps_inside(length, x) for length in x.shape[-2:])
    border = torch.einsum("hr,rco,wc->ohw", rows, tap_shifts, columns)
    return functional.conv2d(x, whole, padding=1) + border


def _taps_inside(length: int, like: torch.Tensor) -> torch.Tensor:
    """(length, 3): 1 if the tap of a 3x3 kernel is inside the map, for each position of a line."""
    inside = torch.ones(length, 3, dtype=like.dtype, device=like.device)
    inside[0, 0] = inside[-1, 2] = 0
    return inside
