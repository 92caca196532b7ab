"""Layers of timm's models for feature maps, by hooks or by timm's ``forward_intermediates``."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from torch import Tensor, nn

from permafrost.backbones.outputs.layers import Dense, evenly_spaced
from permafrost.core.errors import PermafrostError

#: classes whose layers return tuples, lists, or tokens in special orders or on undeclared grids
_TIMM_LAYS_OUT = frozenset(
    [
        "Cait",
        "CoaT",
        "ConVit",
        "CrossVit",
        "DeepseekVitClassifier",
        "EfficientFormer",
        "EfficientViM",
        "Gemma4VitClassifier",
        "Hiera",
        "HighResolutionNet",
        "Levit",
        "LevitDistilled",
        "MultiScaleVit",
        "NaFlexVit",
        "PoolingVisionTransformer",
        "Qwen3VitClassifier",
        "SelecSls",
        "TNT",
        "Twins",
        "VOLO",
        "Xcit",
    ]
)
_LAYER = re.compile(r"intermediates\.(0|[1-9][0-9]{0,3})")


def timm_dense(model: nn.Module) -> Dense:
    """Layers by ``feature_info``: the last four stages, or four blocks of a plain transformer.

    Tokens are arranged by ``num_prefix_tokens`` and the grid of the patch embedding for the input
    size. For models that do not declare these, layers are named ``intermediates.N``: map N of
    timm's ``forward_intermediates``, numbered as in ``feature_info``. Blocks are all of
    ``feature_info``.
    """
    listed = getattr(model, "feature_info", None)
    listed = listed if isinstance(listed, list) else []
    laid_out = type(model).__name__ in _TIMM_LAYS_OUT
    info = [
        {**entry, "module": f"intermediates.{index}"} if laid_out else entry
        for index, entry in enumerate(listed)
        if laid_out or _named(model, entry)
    ]
    plain = len({entry["reduction"] for entry in info}) == 1
    chosen = [info[i] for i in evenly_spaced(len(info))] if plain else info[:-5:-1]
    layout = "NCHW" if laid_out else getattr(model, "output_fmt", "NCHW")
    layout = str(getattr(layout, "value", layout))
    # SAM's blocks return (B, H, W, C), its neck (B, C, H, W)
    apart = type(model).__name__ == "VisionTransformerSAM"
    return Dense(
        model,
        layers=tuple(entry["module"] for entry in chosen),
        layout=layout,
        layouts={entry["module"]: "NHWC" for entry in info} if apart else {},
        prefix_tokens=int(getattr(model, "num_prefix_tokens", 0)),
        grid=_grid(model) if plain and not laid_out else None,
        channels={entry["module"]: entry["num_chs"] for entry in info},
        make=functools.partial(_take_intermediates, model, len(listed)),
        blocks=tuple(entry["module"] for entry in info),
        missing=f"timm's {type(model).__name__} does not describe its stages",
    )


def _take_intermediates(model: nn.Module, count: int, names: Sequence[str]) -> None:
    """Replace ``forward_features`` so that the maps of timm pass through layers ``intermediates.N``."""
    matches = {name: _LAYER.fullmatch(name) for name in names}
    wanted = sorted(int(match[1]) for match in matches.values() if match)
    if not wanted:
        return
    if wanted[-1] >= count or not hasattr(model, "forward_intermediates"):
        raise PermafrostError(
            f"timm takes {count} intermediate maps of {type(model).__name__}, not one of number {wanted[-1]}",
            where="layers",
            remedy=f"name intermediates.0 to intermediates.{count - 1}",
        )
    model.intermediates = nn.ModuleDict({str(index): nn.Identity() for index in wanted})

    def forward_features(images: Tensor, **told):
        final, maps = model.forward_intermediates(images, indices=wanted, output_fmt="NCHW", **told)
        for index, values in zip(wanted, maps, strict=True):
            model.intermediates[str(index)](values)
        return final

    model.forward_features = forward_features


def _named(model: nn.Module, entry: dict) -> bool:
    # TResNet gives its stem no name
    names = {name for name, _ in model.named_modules() if name}
    return entry.get("module") in names


def _grid(model: nn.Module):
    """Function from (height, width) of the input to (rows, columns) of patch tokens; None if unknown."""
    # mixers name the patch embedding `stem`
    embed = getattr(model, "patch_embed", None) or getattr(model, "stem", None)
    if hasattr(embed, "dynamic_feat_size"):
        return lambda height, width: tuple(embed.dynamic_feat_size((height, width)))
    size = getattr(embed, "grid_size", None)
    return None if size is None else lambda height, width: tuple(size)
