"""User-defined backbones: a function in a Python file or in an importable module.

``config/backbones/template.py`` describes the interface.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from torch import nn

from permafrost.backbones.backbone import METADATA, Backbone, Resources, isolated_seed
from permafrost.backbones.entry import Function, Seeded, WeightsFile
from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.layers import LAYER_LAYOUTS, Dense
from permafrost.backbones.outputs.pooling import LAYOUTS
from permafrost.backbones.weights.checkpoint import check_finite
from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.identity import file_digest
from permafrost.core.options import AnyDifferent, LeftOut, OrNull, Text
from permafrost.core.plugins import folders_of, importable, load_object

if TYPE_CHECKING:

    class _Told(TypedDict):
        takes: frozenset[str]
        needs: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class EntrypointOptions(Seeded):
    """Your own function."""

    entrypoint: Function
    """path/to/file.py:function or package.module:function; see config/backbones/template.py."""
    weights: OrNull[WeightsFile] = None
    """A file whose path is passed to the function as `weights`."""
    options: dict = field(default_factory=dict)
    """Further arguments of the function."""
    pooling: Literal["mean", "cls", "both"] = "mean"
    """How tokens are pooled to one vector."""
    files: LeftOut[AnyDifferent[Text]] = None
    """Further files that the backbone depends on; its jobs rerun if their content changes. Files that
    Python opens, and modules, need not be listed."""


def build(chosen: EntrypointOptions, plan: InputPlan, resources: Resources) -> Backbone:
    """Build a backbone by the user's function.

    Raises
    ------
    PermafrostError : the function cannot be loaded, fails, or returns something else than a module.
    """
    where = f"{resources.where}: {chosen.entrypoint}"
    function = load_function(chosen.entrypoint, where)
    options, weights = dict(chosen.options), None
    if chosen.weights is not None:
        options["weights"] = weights = _existing(chosen.weights.path, where)
    _check_options(function, options, where)
    with isolated_seed(chosen.seed), importable(*folders_of(chosen.entrypoint.rpartition(":")[0])):
        try:
            module = function(plan, **options)
        except PermafrostError:
            raise
        except Exception as error:
            raise PermafrostError(
                f"the function failed: {type(error).__name__}: {error}", where=where
            ) from error
    if not isinstance(module, nn.Module):
        raise PermafrostError(
            f"the function returned a {type(module).__name__}, not a torch.nn.Module",
            where=where,
            remedy="see the contract in config/backbones/template.py",
        )
    check_finite(module.state_dict(), where=where)
    layout = str(getattr(module, "layout", "NCHW"))
    if layout not in LAYOUTS:
        raise PermafrostError(
            f"the module declares layout {layout!r}", where=where, remedy="use NCHW or NHWC"
        )
    return Backbone(
        module,
        plan,
        resources.where,
        pooling=chosen.pooling,
        prefix_tokens=int(getattr(module, "num_prefix_tokens", 0)),
        layout=layout,
        weights_sha256=file_digest(weights) if weights is not None else None,
        dense=lambda: declared_dense(module, layout, where),
        **_told(module, together=plan.dates == "all"),
    )


def _told(module: nn.Module, *, together: bool) -> _Told:
    """Keywords that the module's forward pass accepts and needs; `together`: all dates are one input."""
    parameters = inspect.signature(module.forward).parameters
    known = {"present", *METADATA} if together else set(METADATA)
    takes = known & set(parameters)
    if together and any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        takes |= {"dates", "present"}
    needs = {
        name
        for name in takes & set(parameters)
        if parameters[name].default is inspect.Parameter.empty
    }
    return {"takes": frozenset(takes), "needs": frozenset(needs - {"present"})}


def load_function(entrypoint: str, where: str):
    """Load the function ``path/to/file.py:build`` or ``package.module:build``.

    Raises
    ------
    PermafrostError : it cannot be loaded or is not callable.
    """
    function = load_object(entrypoint, where)
    if not callable(function):
        raise PermafrostError(f"{entrypoint} is not a function", where=where)
    return function


def _existing(path: str, where: str) -> str:
    if not Path(path).is_file():
        raise PermafrostError(
            "the weights file does not exist",
            where=f"{where}: weights.path {path}",
            remedy="correct the path, or `data:` in the configuration",
        )
    return path


def _check_options(function, options: dict, where: str) -> None:
    """Raise `PermafrostError` for unknown options before the function is called."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = list(parameters)[1:]
    for key in options:
        if key not in known:
            raise PermafrostError(
                f"the function takes no option {key!r}, {near_names(key, known)}", where=where
            )


def declared_dense(module: nn.Module, layout: str, where: str) -> Dense:
    """Describe the layers by the module's attributes.

    These are ``layers`` (default layers, coarse to fine), ``layer_layouts`` (layout by layer),
    ``num_prefix_tokens`` and ``grid``.

    Raises
    ------
    PermafrostError : an attribute is invalid; names it.
    """
    layers = getattr(module, "layers", ())
    if isinstance(layers, nn.Module):
        # a submodule that happens to have this name
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
    """The grid as a function of (height, width) of the input; ``grid`` may also be (rows, columns)."""
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
