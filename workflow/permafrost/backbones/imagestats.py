"""Per-band statistics of an image: a baseline for learned features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from permafrost.backbones.backbone import Backbone, Resources
from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.windows import WindowStatistics, window_dense
from permafrost.core.options import LeftOut, Options

# window sizes of the feature maps, in pixels
_STRIDES = (32, 16, 8, 4)


@dataclass(frozen=True, kw_only=True)
class ImageStatisticsOptions(Options):
    """Statistics of pixels."""

    level: LeftOut[Literal[1, 2, 3]] = None
    """Handcrafted features as in torchgeo-bench: 1 has nine statistics of each band and spectral index, 2 adds
    texture, 3 adds structure. Default is mean, standard deviation, maximum and minimum of each band."""


class ImageStatistics(nn.Module):
    """Mean, standard deviation (n - 1), maximum and minimum of each channel, in this order.

    If feature maps are needed, layers that compute the same per window are added as submodules.
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, 4C)."""
        for windows in self.children():
            windows(images)
        spread = images.std(dim=(2, 3), correction=int(images.shape[2] * images.shape[3] > 1))
        return torch.cat(
            [images.mean(dim=(2, 3)), spread, images.amax(dim=(2, 3)), images.amin(dim=(2, 3))],
            dim=1,
        )


def build(options: ImageStatisticsOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build the baseline; it has no parameters. Handcrafted features have no maps."""
    if options.level is not None:
        from permafrost.backbones.handcrafted import Handcrafted, index_pairs

        return Backbone(
            Handcrafted(options.level, index_pairs(plan.channels)), plan, resources.where
        )
    module, where = ImageStatistics(), resources.where
    return Backbone(
        module,
        plan,
        where,
        dense=lambda: window_dense(module, _STRIDES, WindowStatistics, where),
    )
