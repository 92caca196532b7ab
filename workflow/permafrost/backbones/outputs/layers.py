"""Layers of a backbone that give feature maps, and conversion of their outputs to (B, C, H, W).

============================ =====================================================================
output of a layer            map
============================ =====================================================================
``(B, C)``                   ``(B, C, 1, 1)``
``(B, L, C)`` tokens         patch tokens on the model's grid, row by row, without prefix tokens
``(B, C, H, W)``             unchanged; ``(B, H, W, C)`` is permuted if the model declares NHWC
anything else                error
============================ =====================================================================

The model declares the number of prefix tokens, the grid and the layout. Sizes serve only as checks;
the layout is never guessed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from permafrost.backbones.outputs.depth import nearest_block
from permafrost.core.errors import PermafrostError, look_up

if TYPE_CHECKING:
    from torch import Tensor, nn

LAYER_LAYOUTS = ("NCHW", "NHWC", "tokens")
_HAND = "name layers under `layers:` of the entry, coarse to fine"


@dataclass(frozen=True)
class Dense:
    """How to get feature maps from the layers of a model.

    Attributes
    ----------
    model : the module whose submodules are the layers, by name.
    layers : default layers, coarse to fine.
    layout : ``NCHW`` or ``NHWC`` of layer outputs with four dimensions.
    layouts : layer to its own layout.
    prefix_tokens : number of class and register tokens before the patch tokens.
    grid : (height, width) of the input -> (rows, columns) of the patch tokens; None if undeclared.
    channels : layer to its declared number of channels.
    given_to : layer -> module whose input is the layer's map, if no module returns it.
    make : creates the named layers, for models that create them on demand.
    blocks : all blocks or stages, first to last, for features by depth; None: the default layers,
        last to first.
    missing : why there are no default layers.
    """

    model: nn.Module
    layers: tuple[str, ...] = ()
    layout: str = "NCHW"
    layouts: Mapping[str, str] = field(default_factory=dict)
    prefix_tokens: int = 0
    grid: Callable[[int, int], tuple[int, int]] | None = None
    channels: Mapping[str, int] = field(default_factory=dict)
    given_to: Mapping[str, str] = field(default_factory=dict)
    make: Callable[[Sequence[str]], None] | None = None
    blocks: tuple[str, ...] | None = None
    missing: str = "nothing is known about its layers"


def choose_layers(dense: Dense, wanted: Sequence[str] | None, *, where: str) -> tuple[str, ...]:
    """The layers to hook, coarse to fine: those wanted, else the model's defaults.

    Raises
    ------
    PermafrostError : there are no default layers, or a name is unknown or repeated.
    """
    names = tuple(wanted or dense.layers)
    if not names:
        raise PermafrostError(
            f"the backbone has no default layers for dense maps ({dense.missing})",
            where=where,
            remedy=f"{_HAND}; it has {_some_layers(dense.model)}",
        )
    if len(set(names)) < len(names):
        raise PermafrostError(f"layers: {', '.join(names)} names a layer twice", where=where)
    if dense.make is not None:
        dense.make(names)
    known = {name for name, _ in dense.model.named_modules() if name} | set(dense.given_to)
    for name in names:
        look_up(known, name, "the backbone has no layer", where=f"{where}: layers")
    return names


def choose_blocks(dense: Dense, depths: Sequence[float] | None) -> dict[str, tuple[int, int]]:
    """The blocks nearest to `depths` (None: all), first to last: name -> (number from 1, number of all).

    Empty if nothing is known about the model's blocks.
    """
    names = dense.layers[::-1] if dense.blocks is None else dense.blocks
    count = len(names)
    wanted = None if depths is None else {nearest_block(one, count) for one in depths}
    return {
        name: (number, count)
        for number, name in enumerate(names, start=1)
        if wanted is None or number in wanted
    }


def to_map(output, name: str, dense: Dense, fed: Sequence[int], *, where: str) -> Tensor:
    """Convert the output of layer `name` to (B, C, H, W); a view if possible.

    Parameters
    ----------
    fed : (B, height, width) of the input batch.

    Raises
    ------
    PermafrostError : the output has another shape or number of channels than declared.
    """
    place = f"{where}: layer {name}"
    if not hasattr(output, "ndim"):
        raise PermafrostError(
            f"the layer returned a {_told(output)}, not a tensor",
            where=place,
            remedy="name a layer inside or after it that returns one tensor",
        )
    shape, layout = tuple(output.shape), dense.layouts.get(name)
    if output.ndim not in (2, 3, 4) or shape[0] != fed[0] or not output.is_floating_point():
        raise PermafrostError(
            f"the layer returned {output.dtype} of shape {shape}, not features of {fed[0]} images",
            where=place,
            remedy="name a layer that returns (B, C), tokens (B, L, C) or maps (B, C, H, W)",
        )
    if layout is not None and output.ndim != 2 and (layout == "tokens") != (output.ndim == 3):
        raise PermafrostError(
            f"the layer is declared {layout}, but returned a tensor of shape {shape}",
            where=place,
            remedy="correct layer_layouts of the module",
        )
    if output.ndim == 2:
        found = output[:, :, None, None]
    elif output.ndim == 3:
        found = _on_grid(output, dense, fed, place)
    else:
        found = output.permute(0, 3, 1, 2) if (layout or dense.layout) == "NHWC" else output
        if layout is None:
            _check_proportions(found, shape, dense, fed, place)
    declared = dense.channels.get(name)
    if declared is not None and found.shape[1] != declared:
        raise PermafrostError(
            f"the layer returned a tensor of shape {shape}, and the model declares {declared} channels",
            where=place,
            remedy="name a layer with another kind of output",
        )
    return found


def evenly_spaced(count: int, wanted: int = 4) -> list[int]:
    """Index of the last block in each of `wanted` equal parts of `count` blocks, in descending order."""
    parts = min(count, wanted)
    return [-(-count * part // parts) - 1 for part in range(parts, 0, -1)]


def blocks_of(depth: int, prefix: str = "blocks") -> tuple[str, ...]:
    """Names of four evenly spaced blocks of a plain transformer, the last block first."""
    return tuple(f"{prefix}.{index}" for index in evenly_spaced(depth))


def patch_grid(size: Sequence[int], padding: int = 0) -> Callable[[int, int], tuple[int, int]]:
    """Grid function of a patch embedding with kernel = stride = `size` (rows, columns)."""

    def grid(height: int, width: int) -> tuple[int, int]:
        return (height + 2 * padding) // size[0], (width + 2 * padding) // size[1]

    return grid


def _on_grid(tokens: Tensor, dense: Dense, fed: Sequence[int], place: str) -> Tensor:
    if dense.grid is None:
        raise PermafrostError(
            f"the layer returned tokens of shape {tuple(tokens.shape)}, but the model does not"
            " define their grid",
            where=place,
            remedy="name layers that return maps (of models of timm also intermediates.0, intermediates.1, …), or"
            " wrap the model in an entry point that declares num_prefix_tokens and grid (config/backbones/template.py)",
        )
    rows, columns = dense.grid(*fed[1:])
    if tokens.shape[1] != dense.prefix_tokens + rows * columns:
        raise PermafrostError(
            f"the layer returned {tokens.shape[1]} tokens for images of {fed[1]} x {fed[2]} pixels; the"
            f" model declares {dense.prefix_tokens} prefix tokens and a grid of {rows} x {columns}",
            where=place,
            remedy="name layers whose tokens are the model's patches",
        )
    patches = tokens[:, dense.prefix_tokens :]
    return patches.transpose(1, 2).unflatten(2, (rows, columns))


def _check_proportions(found: Tensor, shape, dense: Dense, fed: Sequence[int], place: str) -> None:
    """Check that a map has the image's aspect ratio to within a cell; detects most wrong layouts."""
    (rows, columns), (height, width) = found.shape[2:], fed[1:]
    slack = 0 if height == width else height + width
    if abs(rows * width - columns * height) > slack:
        raise PermafrostError(
            f"the layer returned a tensor of shape {shape}, which is not a map of images of {height} x {width}"
            f" pixels in the layout of the model, {dense.layout}",
            where=place,
            remedy="name a layer whose output has this layout (of the defaults: "
            f"{', '.join(dense.layers) or 'none'}), or declare layer_layouts in an entry point",
        )


def _told(output) -> str:
    inner = f" of {len(output)}" if isinstance(output, list | tuple | dict) else ""
    return f"{type(output).__name__}{inner}"


def _some_layers(model: nn.Module) -> str:
    names = [name for name, _ in model.named_modules() if name.count(".") < 2 and name]
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "") if names else "no layers"
