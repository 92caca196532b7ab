"""Pool the output of a backbone to one vector per image.

============================ =====================================================================
``(B, K)``                   unchanged
``(B, T, K)`` tokens         mean of the patch tokens, the class token, or both concatenated
``(B, C, H, W)`` maps        mean over space; of ``(B, H, W, C)`` if the model declares NHWC
mapping                      the first of ``norm``, ``global_pool``, ``head.global_pool``
============================ =====================================================================

The model declares the number of prefix tokens (class token first, then registers) and the layout.
Neither is guessed from sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from torch import Tensor

MAPPING_KEYS = ("norm", "global_pool", "head.global_pool")
LAYOUTS = ("NCHW", "NHWC")


def pool_output(
    output,
    *,
    pooling: str = "mean",
    prefix_tokens: int = 0,
    layout: str = "NCHW",
    where: object = None,
) -> Tensor:
    """Pool to one vector per image.

    Parameters
    ----------
    output : output of the backbone, see the table above.
    pooling : ``mean``, ``cls`` or ``both``; the latter two need tokens.
    prefix_tokens : number of tokens before the patch tokens; the first is the class token.
    layout : ``NCHW`` or ``NHWC`` of maps.

    Returns
    -------
    Tensor (B, K) float.

    Raises
    ------
    PermafrostError : the output has none of these forms, or the pooling does not apply to it.
    """
    if isinstance(output, Mapping):
        output = _first_known(output, where)
    # `ndim` alone does not identify a tensor
    if not hasattr(output, "is_floating_point"):
        raise PermafrostError(
            f"the backbone returned a {type(output).__name__}, not a tensor or a mapping of tensors",
            where=where,
            remedy="return (B, K), tokens (B, T, K), maps (B, C, H, W), or a mapping that holds one",
        )
    if output.ndim == 2:
        return output
    if output.ndim == 3:
        return _pool_tokens(output, pooling, prefix_tokens, where)
    if output.ndim == 4:
        if pooling != "mean":
            raise PermafrostError(
                f"pooling: {pooling} needs tokens, but the backbone returned maps of shape"
                f" {tuple(output.shape)}",
                where=where,
                remedy="leave pooling out, or set it to mean",
            )
        return output.mean(dim=(1, 2) if layout == "NHWC" else (2, 3))
    raise PermafrostError(
        f"the backbone returned a tensor of shape {tuple(output.shape)}",
        where=where,
        remedy="return (B, K), tokens (B, T, K) or maps (B, C, H, W)",
    )


def _first_known(output: Mapping, where):
    for key in MAPPING_KEYS:
        if key in output:
            return output[key]
    raise PermafrostError(
        f"the backbone returned a mapping with {', '.join(map(str, output)) or 'nothing'}, none of"
        f" {', '.join(MAPPING_KEYS)}",
        where=where,
        remedy="return the embedding under one of these keys",
    )


def _pool_tokens(tokens, pooling: str, prefix_tokens: int, where):
    if prefix_tokens >= tokens.shape[1]:
        raise PermafrostError(
            f"the model declares {prefix_tokens} prefix tokens, but returned tokens of shape"
            f" {tuple(tokens.shape)}",
            where=where,
            remedy="correct num_prefix_tokens of the model",
        )
    if pooling != "mean" and prefix_tokens == 0:
        raise PermafrostError(
            f"pooling: {pooling} needs a class token, and the model declares none",
            where=where,
            remedy="use pooling: mean",
        )
    if pooling == "cls":
        return tokens[:, 0]
    mean = tokens[:, prefix_tokens:].mean(dim=1)
    if pooling == "mean":
        return mean
    import torch

    return torch.cat([tokens[:, 0], mean], dim=1)
