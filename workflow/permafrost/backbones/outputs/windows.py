"""Maps of the baselines: an image cut into square windows, one value of each feature per window.

A layer ``strideN`` has windows of N by N pixels from the upper left corner on; those at the right and the
lower edge end where the image ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import nn

from permafrost.backbones.outputs.layers import Dense
from permafrost.core.errors import PermafrostError, near_names


def window_dense(
    module: nn.Module, strides: Sequence[int], layer: Callable[[int], nn.Module], where: str
) -> Dense:
    """Layers ``strideN``, made by `layer` and added to the module when they are asked for."""
    defaults = tuple(f"stride{stride}" for stride in strides)

    def make(names: Sequence[str]) -> None:
        for name in names:
            match = re.fullmatch(r"stride([1-9][0-9]{0,4})", name)
            if match is None:
                raise PermafrostError(
                    f"the backbone has no layer {name!r}, {near_names(name, defaults)}",
                    where=f"{where}: layers",
                    remedy="its layers are called strideN, for windows of N pixels",
                )
            module.add_module(name, layer(int(match[1])))

    return Dense(module, defaults, make=make)


def window_sums(values: torch.Tensor, size: int) -> torch.Tensor:
    """(B, C, H, W) -> (B, C, ceil(H / size), ceil(W / size)), sums over windows."""
    return F.avg_pool2d(values, size, ceil_mode=True, divisor_override=1)


def window_counts(height: int, width: int, size: int, like: torch.Tensor) -> torch.Tensor:
    """(1, 1, rows, columns): pixels of the windows of an image."""
    return window_sums(like.new_ones(1, 1, height, width), size)


class WindowStatistics(nn.Module):
    """Mean, standard deviation (n - 1), maximum and minimum of each channel in each window."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, 4C, rows, columns)."""
        height, width = images.shape[2:]
        counts = window_counts(height, width, self.size, images)
        mean = window_sums(images, self.size) / counts
        # deviations first: the difference of large sums would have no digits left
        everywhere = mean.repeat_interleave(self.size, 2).repeat_interleave(self.size, 3)
        squares = window_sums((images - everywhere[:, :, :height, :width]).square(), self.size)
        spread = (squares / (counts - 1).clamp_min(1)).sqrt()
        top = F.max_pool2d(images, self.size, ceil_mode=True)
        bottom = -F.max_pool2d(-images, self.size, ceil_mode=True)
        return torch.cat([mean, spread, top, bottom], dim=1)


class WindowMeans(nn.Module):
    """Means over windows, from sums over smaller windows that divide them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, sums: torch.Tensor, counts: torch.Tensor, cell: int) -> torch.Tensor:
        """`sums` (B, C, …) and `counts` (1, 1, …) over windows of `cell` pixels -> (B, C, rows, columns)."""
        times = self.size // cell
        return window_sums(sums, times) / window_sums(counts, times)
