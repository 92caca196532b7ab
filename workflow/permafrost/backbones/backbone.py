"""The backbone object that every kind builds: module, input plan, and reading of its output."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.layers import Dense, choose_blocks, choose_layers, to_map
from permafrost.backbones.outputs.pooling import pool_output
from permafrost.backbones.outputs.projected import Projection
from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from torch import Tensor, dtype, nn

    from permafrost.data.store.card import Card


#: metadata that a module can accept as keywords: ``place`` (B, 2) float32, longitude and latitude in
#: degrees; ``dates`` (B, 2) int64, or (B, T, 2) if all dates are input at once, year and day of the
#: year from 1; ``ground_distance_m`` (B,) float32, ground sampling distance of the input in metres
METADATA = ("place", "dates", "ground_distance_m")


@dataclass(frozen=True)
class Resources:
    """Resources for building a backbone.

    Attributes
    ----------
    where : the backbone's name in errors.
    card : dataset card.
    train_count : number of images in the train split.
    train_image : position -> prepared input image (C, H, W) on the CPU; fastest in ascending order.
    weights_folder : for published weights that no cache has: searched, and the target of downloads.
    """

    where: str
    card: Card
    train_count: int
    train_image: Callable[[int], Tensor]
    weights_folder: Path = Path("data/weights")


@dataclass
class Backbone:
    """A frozen backbone, ready for use.

    Attributes
    ----------
    module : called with float32 (B, C, H, W), or (B, T, C, H, W) if all dates are input at once;
        returns anything that `pool_output` supports.
    plan : how that tensor is computed.
    where : the backbone's name in errors.
    pooling, prefix_tokens, layout : how the output is read, see `pool_output`.
    weights_sha256 : SHA-256 of the weights file; None without one.
    notes : adaptations made while building, recorded in feature stores.
    packages : names of packages whose versions are recorded.
    dense : describes the layers of the module; called only if feature maps are needed.
    layers : layers whose maps are returned, coarse to fine, after `make_maps`; or whose mean
        features are returned, first to last, after `keep_depths`. Else empty.
    blocks : layer to the number of its block, from 1, and the number of all, after `keep_depths`.
    projections : layer to the projection of its maps; others keep their channels.
    left_out : layer without maps after `leave_out`, to its place among all, from 0, and (C, H, W) of its map.
    learnable : parameters that training may change, see `learnable_parameters`.
    takes : keywords that the module accepts, of `METADATA` and ``present`` (with all dates). Fields
        that are not known for all samples of a dataset are not passed; then the authors' default
        applies.
    needs : those of `takes` that it requires.
    bounds : field to its allowed (smallest, largest) value, for ``ground_distance_m``.
    """

    module: nn.Module
    plan: InputPlan
    where: str
    pooling: str = "mean"
    prefix_tokens: int = 0
    layout: str = "NCHW"
    weights_sha256: str | None = None
    notes: dict = field(default_factory=dict)
    packages: tuple[str, ...] = ("torch",)
    dense: Callable[[], Dense] | None = None
    layers: tuple[str, ...] = ()
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    projections: dict[str, Projection] = field(default_factory=dict)
    left_out: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    learnable: tuple[nn.Parameter, ...] = ()
    takes: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Number of parameters; buffers, such as random filters, do not count."""
        held = {id(tensor): tensor for tensor in self.module.parameters()}
        return sum(tensor.numel() for tensor in held.values())

    def make_maps(self, wanted: Sequence[str] | None, kind: dtype) -> None:
        """Let the forward pass also return feature maps.

        Parameters
        ----------
        wanted : names of layers, coarse to fine; None: the default layers.
        kind : type of the maps.

        Raises
        ------
        PermafrostError : a layer is unknown, or there are no default layers.
        """

        dense = Dense(self.module) if self.dense is None else self.dense()
        self.layers = choose_layers(dense, wanted, where=self.where)
        self.module = WithMaps(
            self.module,
            dense,
            self.layers,
            kind,
            where=self.where,
            projections=self.projections,
            left_out=self.left_out,
        )

    def leave_out(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Return no maps of some layers from now on: their names, and shapes (C, H, W)."""
        places = {name: place for place, name in enumerate(self.layers)}
        self.left_out.update({name: (places[name], shape) for name, shape in shapes.items()})
        self.layers = tuple(name for name in self.layers if name not in shapes)

    def keep_depths(self, depths: Sequence[float] | None, kind: dtype) -> None:
        """Let the forward pass also return the mean features of blocks: of patch tokens, or over space.

        A model without known blocks returns none, and a note says so.

        Parameters
        ----------
        depths : the blocks nearest to these shares of the depth; None: all blocks.
        kind : type of the features.
        """
        dense = Dense(self.module) if self.dense is None else self.dense()
        self.blocks = choose_blocks(dense, depths)
        if not self.blocks:
            self.notes["depths"] = f"no blocks are known ({dense.missing})"
            return
        self.layers = choose_layers(dense, tuple(self.blocks), where=self.where)
        self.module = WithMaps(
            self.module, dense, self.layers, kind, where=self.where, averaged=True
        )

    def unfreeze(self) -> None:
        """Enable gradients for the parameters `learnable`."""
        for parameter in self.learnable:
            parameter.requires_grad_(True)

    def features(self, batch: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K)."""
        return self.features_and_maps(batch)[0]

    def features_and_maps(self, batch: Tensor, **told: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(B, C, H, W) or (B, T, C, H, W) -> (B, K), and one map (B, C', H', W') for each of `layers`.

        After `keep_depths`, (B, C') in place of a map.
        Of the metadata `told`, the module gets the fields that it accepts.
        """
        output = self.module(batch, **{name: told[name] for name in self.takes if name in told})
        output, maps = output if self.layers else (output, [])
        pooled = pool_output(
            output,
            pooling=self.pooling,
            prefix_tokens=self.prefix_tokens,
            layout=self.layout,
            where=self.where,
        )
        return pooled, maps


def learnable_parameters(module: nn.Module) -> tuple[nn.Parameter, ...]:
    """The floating-point parameters that require gradients; all of them if none does.

    So parameters that are fixed by design, such as sinusoidal position embeddings, stay fixed, but
    a model whose authors froze all of it can still be fine-tuned.
    """
    held = [p for p in module.parameters() if p.is_floating_point()]
    return tuple([p for p in held if p.requires_grad] or held)


@contextlib.contextmanager
def isolated_seed(seed: int) -> Iterator[None]:
    """Context in which torch, NumPy and Python draw from `seed`; restores their states on exit."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        # CPU generator only, since models are built on the CPU for every device
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


class WithMaps(nn.Module):
    """Wraps a module so that it also returns the maps of some of its layers.

    Each map is converted and copied right after its layer, so that later in-place operations do not
    change it, and to save memory.

    Parameters
    ----------
    module : the wrapped module.
    dense : describes its layers.
    names : layers, in the order of the returned maps.
    dtype : type of the maps.
    where : the backbone's name in errors.
    averaged : whether to return the mean of each map over space, (B, C), computed in float32.
    projections : layer to the projection of its maps; it may be filled later.
    left_out : layers whose maps are not returned, by name; it may be filled later.
    """

    def __init__(
        self,
        module: nn.Module,
        dense: Dense,
        names: Sequence[str],
        dtype: torch.dtype,
        *,
        where: str,
        averaged: bool = False,
        projections: Mapping[str, Projection] = MappingProxyType({}),
        left_out: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self._left_out = left_out
        self._averaged, self._projections = averaged, projections
        self.module, self._names, self._where = module, tuple(names), where
        self._caught: dict[str, torch.Tensor] = {}
        self._fed = (0, 0, 0)
        modules = dict(dense.model.named_modules())
        for name in names:
            catch = self._catcher(name, dense, dtype)
            if name in dense.given_to:
                modules[dense.given_to[name]].register_forward_pre_hook(
                    lambda _, inputs, catch=catch: catch(inputs[0])
                )
            else:
                modules[name].register_forward_hook(
                    lambda _, inputs, output, catch=catch: catch(output)
                )

    def forward(self, images: torch.Tensor, **told: torch.Tensor):
        """(B, C, H, W) or (B, T, C, H, W) -> output of the module, list of maps (B, C, H, W).

        Raises
        ------
        PermafrostError : a layer is not called exactly once, or its output is not a map.
        """
        self._caught = {}
        self._fed = (images.shape[0], *images.shape[-2:])
        output = self.module(images, **told)
        caught, self._caught = self._caught, {}
        names = [name for name in self._names if name not in self._left_out]
        unused = [name for name in names if name not in caught]
        if unused:
            raise PermafrostError(
                f"the forward pass does not call the layer {unused[0]!r}",
                where=f"{self._where}: layers",
                remedy="name a layer that it calls, such as one inside of it",
            )
        return output, [caught[name] for name in names]

    def _catcher(self, name: str, dense: Dense, dtype: torch.dtype):
        def catch(output) -> None:
            if name in self._left_out:
                return
            if name in self._caught:
                raise PermafrostError(
                    f"the forward pass calls the layer {name!r} more than once",
                    where=f"{self._where}: layers",
                    remedy="name a layer that it calls once",
                )
            found = to_map(output, name, dense, self._fed, where=self._where)
            if self._averaged:
                found = found.mean(dim=(2, 3), dtype=torch.float32)
            elif name in self._projections:
                found = self._projections[name](found)
            self._caught[name] = found.to(dtype, memory_format=torch.contiguous_format, copy=True)

        return catch
