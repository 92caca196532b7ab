"""The layers of timm's models, from timm's own description of them."""

from __future__ import annotations

from torch import nn

from permafrost.backbones.layers import Dense, evenly_spaced


def timm_dense(model: nn.Module) -> Dense:
    """Layers by ``feature_info``: the last four stages, or four evenly spaced blocks of a plain transformer.

    Tokens are laid out by ``num_prefix_tokens`` and the patch embedding's own grid, for the size fed. Only
    models whose layers all have one resolution keep their tokens in the order of the grid; hierarchical ones
    (Hiera) may not.
    """
    listed = getattr(model, "feature_info", None)
    info = [entry for entry in listed if _named(model, entry)] if isinstance(listed, list) else []
    plain = len({entry["reduction"] for entry in info}) == 1
    chosen = [info[i] for i in evenly_spaced(len(info))] if plain else info[:-5:-1]
    layout = getattr(model, "output_fmt", "NCHW")
    layout = str(getattr(layout, "value", layout))
    return Dense(
        model,
        layers=tuple(entry["module"] for entry in chosen),
        layout=layout,
        prefix_tokens=int(getattr(model, "num_prefix_tokens", 0)),
        grid=_grid(model) if plain else None,
        channels={entry["module"]: entry["num_chs"] for entry in info},
        missing=f"timm's {type(model).__name__} does not describe its stages",
    )


def _named(model: nn.Module, entry: dict) -> bool:
    names = {name for name, _ in model.named_modules()}
    return entry.get("module") in names


def _grid(model: nn.Module):
    """(height, width) fed -> rows and columns of the patch tokens."""
    # the mixers call it their stem
    embed = getattr(model, "patch_embed", None) or getattr(model, "stem", None)
    if hasattr(embed, "dynamic_feat_size"):
        return lambda height, width: tuple(embed.dynamic_feat_size((height, width)))
    size = getattr(embed, "grid_size", None)
    return None if size is None else lambda height, width: tuple(size)
