"""A 3x3 convolution of an enlarged map, computed mostly before the map is enlarged.

Most of the cost of a convolution is mixing channels, which commutes with resizing, as that does not mix channels.
With U the resizing of lines, S the shift by one pixel (with zeros at the border) and z_rc the map
after the 1x1 convolution with the kernel's tap (r, c)::

    conv(U x U^T) = sum over r, c of (S_r U) z_rc (S_c U)^T

So nine taps are mixed at the size of the small map (a quarter of the work if it doubles), and
two narrow banded matrices do the rest, in blocks of output rows and columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import nn

from permafrost.probes.dense.interpolate import bilinear_matrix
from permafrost.probes.dense.layers import resize

# output rows, or columns, of a block
BLOCK = 32
# least enlargement in area for which this is faster
WORTH = 3


def convolve_enlarged(
    x: torch.Tensor, conv: nn.Conv2d, size, *, align_corners: bool = False
) -> torch.Tensor:
    """``conv(resize(x, size))`` for a 3x3 convolution with zero padding and no bias."""
    if not pays(x, size):
        return conv(resize(x, size, align_corners=align_corners))
    return _Enlarged.apply(x, conv.weight, (int(size[0]), int(size[1])), align_corners)


def pays(x: torch.Tensor, size) -> bool:
    """Whether this is faster, given the enlargement and the device of `x`."""
    plain = x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    return plain and int(size[0]) * int(size[1]) >= WORTH * x.shape[-2] * x.shape[-1]


class _Band(NamedTuple):
    """Output lines [start, stop) as a product: weights (stop - start, taps (last - first)).

    The columns of ``weights`` are ordered by tap, then line, or by line, then tap.
    """

    start: int
    stop: int
    first: int
    last: int
    weights: torch.Tensor


@lru_cache(maxsize=64)
def _bands(
    source: int, target: int, align_corners: bool, tap_first: bool, dtype: torch.dtype
) -> tuple[_Band, ...]:
    enlarge = torch.tensor(bilinear_matrix(source, target, align_corners), dtype=dtype)
    taps = torch.zeros(3, target, source, dtype=dtype)
    for tap in range(3):
        low, high = max(0, 1 - tap), min(target, target + 1 - tap)
        taps[tap, low:high] = enlarge[low + tap - 1 : high + tap - 1]
    bands = []
    for start in range(0, target, BLOCK):
        stop = min(start + BLOCK, target)
        part = taps[:, start:stop]
        used = part.ne(0).any(dim=(0, 1)).nonzero()[:, 0]
        first, last = int(used[0]), int(used[-1]) + 1
        part = part[:, :, first:last].permute(1, 0, 2) if tap_first else part[:, :, first:last]
        part = part if tap_first else part.permute(1, 2, 0)
        bands.append(_Band(start, stop, first, last, part.flatten(1).contiguous()))
    return tuple(bands)


class _Enlarged(torch.autograd.Function):
    """A manual gradient, since automatic differentiation would keep all intermediate results."""

    @staticmethod
    def forward(ctx, x, weight, size, align_corners):
        lines = x.permute(0, 2, 3, 1).contiguous()
        ctx.save_for_backward(lines, weight)
        ctx.size, ctx.align_corners = size, align_corners
        taps = _taps(weight)
        out = lines.new_empty((len(lines), *size, weight.shape[0]))
        rows, columns = _both_bands(lines, size, align_corners)
        for image, result in zip(lines, out, strict=True):
            for band in rows:
                mixed = _mixed(image[band.first : band.last], taps)
                tall = _product(band.weights, mixed, (image.shape[1], 3, -1))
                for side in columns:
                    part = tall[:, side.first : side.last].flatten(1, 2)
                    result[band.start : band.stop, side.start : side.stop] = side.weights @ part
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx, gradient):
        lines, weight = ctx.saved_tensors
        gradient = gradient.permute(0, 2, 3, 1).contiguous()
        taps = _taps(weight)
        rows, columns = _both_bands(lines, ctx.size, ctx.align_corners)
        to_lines, to_taps = torch.zeros_like(lines), torch.zeros_like(taps)
        channels, out = lines.shape[-1], weight.shape[0]
        for image, slope, result in zip(lines, gradient, to_lines, strict=True):
            for band in rows:
                count = band.stop - band.start
                tall = lines.new_zeros((count, image.shape[1], 3, out))
                for side in columns:
                    part = side.weights.T @ slope[band.start : band.stop, side.start : side.stop]
                    tall[:, side.first : side.last] += part.view(count, -1, 3, out)
                mixed = (band.weights.T @ tall.view(count, -1)).view(3, -1, 3 * out)
                small = image[band.first : band.last].reshape(-1, channels)
                back = result[band.first : band.last].view(-1, channels)
                for tap in range(3):
                    back.addmm_(mixed[tap], taps[tap].T)
                    to_taps[tap].addmm_(small.T, mixed[tap])
        to_weight = to_taps.view(3, channels, 3, out).permute(3, 1, 0, 2)
        return to_lines.permute(0, 3, 1, 2), to_weight, None, None


def _taps(weight: torch.Tensor) -> torch.Tensor:
    """(out, in, 3, 3) -> (3 rows, in, 3 columns x out)."""
    out, channels = weight.shape[:2]
    return weight.permute(2, 1, 3, 0).reshape(3, channels, 3 * out)


def _mixed(lines: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """(n, w, in) -> (3 n, w x 3 x out): all taps, grouped by kernel row."""
    flat = lines.reshape(-1, lines.shape[-1])
    mixed = torch.stack([flat @ tap for tap in taps])
    return mixed.view(3 * len(lines), -1)


def _product(weights: torch.Tensor, mixed: torch.Tensor, shape) -> torch.Tensor:
    return (weights @ mixed).view(len(weights), *shape)


def _both_bands(lines: torch.Tensor, size, align_corners: bool):
    kind = lines.dtype
    rows = _bands(lines.shape[1], size[0], align_corners, True, kind)
    return rows, _bands(lines.shape[2], size[1], align_corners, False, kind)
