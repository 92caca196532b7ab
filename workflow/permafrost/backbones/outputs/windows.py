"""Feature maps of the baselines: features of square windows of an image.

Layer ``strideN`` has windows of N x N pixels, starting at the upper left corner; windows at the
right and lower edge are cut off at the image border.
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
    """Layers ``strideN``, created by ``layer(N)`` and added to the module on demand."""
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

    return Dense(module, defaults, make=make, blocks=())


def window_sums(values: torch.Tensor, size: int) -> torch.Tensor:
    """Sums over windows: (B, C, H, W) -> (B, C, ceil(H / size), ceil(W / size))."""
    return F.avg_pool2d(values, size, ceil_mode=True, divisor_override=1)


def window_counts(height: int, width: int, size: int, like: torch.Tensor) -> torch.Tensor:
    """Number of pixels of each window of an image: (1, 1, rows, columns)."""
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
        # sum squared deviations, since a difference of large sums would lose precision
        everywhere = mean.repeat_interleave(self.size, 2).repeat_interleave(self.size, 3)
        squares = window_sums((images - everywhere[:, :, :height, :width]).square(), self.size)
        spread = (squares / (counts - 1).clamp_min(1)).sqrt()
        top = F.max_pool2d(images, self.size, ceil_mode=True)
        bottom = -F.max_pool2d(-images, self.size, ceil_mode=True)
        return torch.cat([mean, spread, top, bottom], dim=1)


class WindowMeans(nn.Module):
    """Means over windows, from sums over smaller windows (cells)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, sums: torch.Tensor, counts: torch.Tensor, cell: int) -> torch.Tensor:
        """`sums` (B, C, …) and `counts` (1, 1, …) over cells of `cell` pixels -> (B, C, rows, columns)."""
        times = self.size // cell
        return window_sums(sums, times) / window_sums(counts, times)
