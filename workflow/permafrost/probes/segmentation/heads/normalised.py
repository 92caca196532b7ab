"""Batch normalisation and an activation in one step, for training on a CPU.

Equals ``BatchNorm2d`` followed by the activation. In torch each takes several passes over a large map, and the
statistics are slow. Here both process blocks that fit into the CPU cache, and only the input is kept.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from permafrost.probes.dense.layers import check_batch, mean_and_variance, track

# pixels of a block
BLOCK = 1024
ACTIVATIONS = {"relu": functional.relu, "silu": functional.silu}


class NormalisedActivation(nn.BatchNorm2d):
    """``activation(batch_norm(x))``; the parameters are those of the normalisation.

    Parameters
    ----------
    activation : ``relu``, ``silu``, or None for the normalisation alone.
    """

    def __init__(self, channels: int, activation: str | None = None) -> None:
        super().__init__(channels)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        check_batch(self, x)
        plain = x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        if not (plain and self.training):
            x = super().forward(x)
            return x if self.activation is None else ACTIVATIONS[self.activation](x)
        with torch.no_grad():
            mean, variance = mean_and_variance(x)
        track(self, mean, variance, x.numel() // x.shape[1])
        spread = torch.rsqrt(variance + self.eps)
        return _Normalise.apply(x, self.weight, self.bias, mean, spread, self.activation)


class _Normalise(torch.autograd.Function):
    """The batch's statistics are constant inputs, and their part of the gradient is added manually."""

    @staticmethod
    def forward(ctx, x, weight, bias, mean, spread, activation):
        ctx.save_for_backward(x, weight, bias, mean, spread)
        ctx.activation = activation
        flat = _flat(x)
        out = torch.empty_like(flat)
        scale = weight * spread
        shift = bias - mean * scale
        for block, result in zip(flat.split(BLOCK), out.split(BLOCK), strict=True):
            torch.addcmul(shift, block, scale, out=result)
            if activation is not None:
                ACTIVATIONS[activation](result, inplace=True)
        return _unflat(out, x.shape)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, mean, spread = ctx.saved_tensors
        flat, slopes = _flat(x), _flat(gradient)
        scale = weight * spread
        shift = bias - mean * scale
        back = torch.empty_like(flat)
        to_bias, to_weight = torch.zeros_like(bias), torch.zeros_like(weight)
        blocks = zip(flat.split(BLOCK), slopes.split(BLOCK), back.split(BLOCK), strict=True)
        for block, slope, result in blocks:
            result.copy_(_before_activation(ctx.activation, slope, block, scale, shift))
            to_bias += result.sum(dim=0)
            to_weight += ((block - mean) * spread).mul_(result).sum(dim=0)
        # the part of the gradient through the batch's variance and mean
        along = -scale * spread * to_weight / len(flat)
        constant = -scale * to_bias / len(flat) - mean * along
        for block, result in zip(flat.split(BLOCK), back.split(BLOCK), strict=True):
            result.mul_(scale).addcmul_(block, along).add_(constant)
        return _unflat(back, x.shape), to_weight, to_bias, None, None, None


def _before_activation(activation, slope, block, scale, shift) -> torch.Tensor:
    if activation is None:
        return slope
    value = torch.addcmul(shift, block, scale)
    if activation == "relu":
        return slope * (value > 0)
    share = torch.sigmoid(value)
    # the derivative of x sigmoid(x)
    return value.mul_(1 - share).add_(1).mul_(share).mul_(slope)


def _flat(x: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) -> (B H W, C): a view if channels are last in memory."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _unflat(flat: torch.Tensor, shape) -> torch.Tensor:
    batch, channels, height, width = shape
    return flat.view(batch, height, width, channels).permute(0, 3, 1, 2)
