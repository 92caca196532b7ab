"""Layers of heads, arranged to avoid large intermediate maps.

Two identities save most of the time of small heads without changing parameters or the function:
a 1x1 convolution commutes with bilinear resizing (whose weights sum to 1), so channels are mixed
before a map is enlarged; and batch normalisation before a 1x1 convolution is merged into its weights.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.interpolate import bilinear_matrix

# pixels whose statistics are computed at once
BLOCK = 4096


def resize(x: torch.Tensor, size, *, align_corners: bool = False) -> torch.Tensor:
    """(B, C, *size) by bilinear interpolation; `x` itself if it has that size."""
    if tuple(x.shape[-2:]) == tuple(size):
        return x
    if x.requires_grad and x.device.type == "cuda":
        # on a GPU, interpolate sums its gradient in random order
        return resize_logits(x, size, align_corners=align_corners).to(x.dtype)
    return functional.interpolate(x, tuple(size), mode="bilinear", align_corners=align_corners)


def resize_logits(x: torch.Tensor, size, *, align_corners: bool = False) -> torch.Tensor:
    """`resize` for few channels, at least in float32."""
    return sum_resized([x], size, align_corners=align_corners)


def sum_resized(parts: list[torch.Tensor], size, *, align_corners: bool = False) -> torch.Tensor:
    """The sum of maps of few channels, each resized to `size`, at least in float32.

    Bilinear resizing is a product with a matrix on either side. The row products of all maps are combined in
    one product. This is faster than resizing and adding, above all in the backward pass, and deterministic.
    """
    size = (int(size[0]), int(size[1]))
    with torch.autocast(parts[0].device.type, enabled=False):
        whole, lines, rows = None, [], []
        for x in _added_by_size(parts):
            if x.shape[-2:] == size:
                whole = x
                continue
            columns = _weights(x, x.shape[-1], size[1], align_corners)
            lines.append(x.contiguous() @ columns.T)
            rows.append(_weights(x, x.shape[-2], size[0], align_corners))
        if not lines:
            return whole
        total = torch.cat(rows, dim=1) @ torch.cat(lines, dim=-2)
        return total if whole is None else total + whole


def _added_by_size(parts: list[torch.Tensor]):
    by_size: dict = {}
    for x in parts:
        x = x if x.dtype == torch.float64 else x.float()
        shape = tuple(x.shape[-2:])
        by_size[shape] = by_size[shape] + x if shape in by_size else x
    return by_size.values()


def _weights(like: torch.Tensor, source: int, target: int, align_corners: bool) -> torch.Tensor:
    weights = bilinear_matrix(source, target, align_corners)
    return torch.tensor(weights, dtype=like.dtype, device=like.device)


class MixedLevels(nn.Conv2d):
    """A 1x1 convolution over the concatenation of levels, without concatenating them.

    ``forward(levels, size)`` equals ``conv(cat([resize(level, size) for level in levels]))``.
    """

    def __init__(self, levels: int, channels: int, classes: int) -> None:
        super().__init__(levels * channels, classes, kernel_size=1)
        self.levels = levels

    def forward(self, levels: list[torch.Tensor], size) -> torch.Tensor:
        """Levels (B, C, H, W) -> (B, classes, *size)."""
        weights = self.weight.chunk(self.levels, dim=1)
        parts = [
            # resizing keeps a constant, so the bias is added to one level, before it
            functional.conv2d(level, weight, self.bias if i == 0 else None)
            for i, (level, weight) in enumerate(zip(levels, weights, strict=True))
        ]
        return sum_resized(parts, size)


class NormalisedProjection(nn.Module):
    """Batch normalisation, then a 1x1 convolution, in one product.

    The normalised map is not computed: its scale and shift are merged into the weights. In reduced precision
    the two steps are separate, since a shift much larger than the spread would lose precision.
    """

    def __init__(self, channels: int, out: int, *, bias: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, out, kernel_size=1, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, channels, H, W) -> (B, out, H, W)."""
        if torch.is_autocast_enabled(x.device.type):
            check_batch(self.norm, x)
            return self.conv(self.norm(x))
        weight, shift = self.folded(x)
        return functional.conv2d(x, weight[:, :, None, None], shift)

    def folded(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights (out, channels) and bias (out,) of the combined product; in training, call it once per batch."""
        mean, variance = self._statistics(x)
        scale = self.norm.weight * torch.rsqrt(variance + self.norm.eps)
        weight = self.conv.weight.flatten(1)
        shift = weight @ (self.norm.bias - mean * scale)
        if self.conv.bias is not None:
            shift = shift + self.conv.bias
        return weight * scale, shift

    def _statistics(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Training: mean and biased variance of the batch, also added to the running ones; else the running ones."""
        norm = self.norm
        if not self.training:
            return norm.running_mean, norm.running_var
        check_batch(norm, x)
        mean, variance = mean_and_variance(x)
        track(norm, mean, variance, x.numel() // x.shape[1])
        return mean, variance


def mean_and_variance(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(C,) mean and biased variance of each channel of (B, C, H, W).

    Two passes, the second in blocks that fit into the CPU cache: as exact as ``torch.var_mean``, and ten
    times as fast on a CPU.
    """
    flat = x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
    mean = flat.mean(dim=0)
    squares = [(block - mean).square().sum(dim=0) for block in flat.split(BLOCK)]
    return mean, torch.stack(squares).sum(dim=0) / len(flat)


@torch.no_grad()
def track(norm: nn.BatchNorm2d, mean: torch.Tensor, variance: torch.Tensor, count: int) -> None:
    """Update the running statistics with a batch of `count` values per channel, as ``BatchNorm2d`` does."""
    norm.running_mean.lerp_(mean, norm.momentum)
    norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)
    norm.num_batches_tracked += 1


def check_batch(norm: nn.BatchNorm2d, x: torch.Tensor) -> None:
    """Refuse a batch with a single value per channel, which has no variance."""
    if norm.training and x.numel() == x.shape[1]:
        raise PermafrostError(
            "a batch holds a single value per channel, which cannot be normalised",
            remedy="give train more samples, or choose layers with spatial extent",
        )


def check_spatial(sizes, head: str) -> None:
    """Refuse maps of one pixel, from which no pyramid can be built."""
    flat = [i for i, (height, width) in enumerate(sizes) if height * width == 1]
    if flat:
        raise PermafrostError(
            f"the head {head} needs maps with spatial extent, but layer number"
            f" {', '.join(str(i + 1) for i in flat)} gives 1x1",
            remedy="choose other layers for this backbone, or head linear or conv_block",
        )


def check_coarse_to_fine(sizes, head: str) -> None:
    """Refuse maps whose size decreases along the list."""
    areas = [height * width for height, width in sizes]
    if areas != sorted(areas):
        shown = ", ".join(f"{height}x{width}" for height, width in sizes)
        raise PermafrostError(
            f"the head {head} takes layers from coarse to fine, but their maps are {shown}",
            remedy="list the layers with the smallest map first",
        )
