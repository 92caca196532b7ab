"""The layers of torchgeo's own models; those that are timm's are described by `timm_layers`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from permafrost.backbones.layers import Dense, blocks_of, evenly_spaced, patch_grid


def plain_dense(model: nn.Module, layers: Sequence[str]) -> Dense:
    """Convolutional networks: every layer returns (B, C, H, W)."""
    return Dense(model, tuple(layers))


def swin_dense(model: nn.Module, features: str, *, last: int) -> Dense:
    """torchvision's Swin transformers, whose stages, every other one of `features`, return (B, H, W, C)."""
    return Dense(
        model, tuple(f"{features}.{index}" for index in range(last, -1, -2)), layout="NHWC"
    )


def transformer_dense(model: nn.Module, patch: int) -> Dense:
    """DOFA and Copernicus-FM: plain transformers with a class token.

    Their patch embedding is a convolution whose kernel is its stride, with one pixel of padding.
    """
    return Dense(
        model,
        blocks_of(len(model.blocks)),
        prefix_tokens=1,
        grid=patch_grid((patch, patch), padding=1),
    )


def croma_dense(model: nn.Module) -> Dense:
    """CROMA's optical encoder. No module of it returns what a block makes, since the sums are taken outside.

    So block i, named ``s2_encoder.transformer.layers.i``, is what the attention of the next one is given, and
    the last block what the final norm is given.
    """
    stem = "s2_encoder.transformer"
    depth, patch = len(model.s2_encoder.transformer.layers), model.s2_encoder.patch_size
    names = [f"{stem}.layers.{index}" for index in range(depth)]
    given_to = {name: f"{after}.0" for name, after in zip(names, names[1:], strict=False)}
    return Dense(
        model,
        tuple(names[index] for index in evenly_spaced(depth)),
        grid=patch_grid((patch, patch)),
        given_to={**given_to, names[-1]: f"{stem}.norm_out"},
    )
