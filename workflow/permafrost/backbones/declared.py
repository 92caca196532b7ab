"""The layers of a module of the user's own, by the attributes that it declares.

``layers`` (default layers, coarse to fine), ``layout`` and ``layer_layouts`` (layout by layer),
``num_prefix_tokens`` and ``grid``; see ``config/backbones/template.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from permafrost.backbones.layers import LAYER_LAYOUTS, Dense
from permafrost.core.errors import PermafrostError


def declared_dense(module: nn.Module, layout: str, where: str) -> Dense:
    """What the module declares; a declaration that cannot be meant is refused by name."""
    layers = getattr(module, "layers", ())
    if isinstance(layers, nn.Module):
        # a part of the network that happens to have this name
        layers = ()
    if isinstance(layers, str) or not isinstance(layers, Sequence):
        raise _refused("layers", layers, "a tuple of names, coarse to fine", where)
    if not all(isinstance(name, str) for name in layers):
        raise _refused("layers", layers, "a tuple of names, coarse to fine", where)
    layouts = getattr(module, "layer_layouts", {})
    known = f"a mapping of names to {', '.join(LAYER_LAYOUTS)}"
    if not isinstance(layouts, Mapping) or not set(layouts.values()) <= set(LAYER_LAYOUTS):
        raise _refused("layer_layouts", layouts, known, where)
    return Dense(
        module,
        tuple(layers),
        layout=layout,
        layouts=dict(layouts),
        prefix_tokens=int(getattr(module, "num_prefix_tokens", 0)),
        grid=_grid(module, where),
        missing="the module declares none in its attribute `layers`",
    )


def _grid(module: nn.Module, where: str):
    """``grid`` may be (rows, columns), or a function of the height and width fed."""
    grid = getattr(module, "grid", None)
    if grid is None or callable(grid):
        return grid
    try:
        rows, columns = (int(side) for side in grid)
    except (TypeError, ValueError):
        raise _refused(
            "grid", grid, "(rows, columns) or a function of (height, width)", where
        ) from None
    return lambda height, width: (rows, columns)


def _refused(name: str, value, wanted: str, where: str) -> PermafrostError:
    return PermafrostError(
        f"the module declares {name} = {value!r}", where=where, remedy=f"declare {wanted}"
    )
