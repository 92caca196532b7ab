"""What every kind of backbone builds: a module, what it is fed, and how its output is read; random weights."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.outputs.layers import Dense, choose_layers, to_map
from permafrost.backbones.outputs.pooling import pool_output
from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from torch import Tensor, dtype, nn

    from permafrost.data.store.card import Card


#: what a module may be told of images, as keywords: ``place`` (B, 2) float32, longitude and latitude in degrees;
#: ``dates`` (B, 2) int64, of all dates at once (B, T, 2), year and day of the year from 1; ``ground_distance_m`` (B,)
#: float32, metres on the ground between the pixels of images as they are fed
METADATA = ("place", "dates", "ground_distance_m")


@dataclass(frozen=True)
class Resources:
    """What a kind may use while it builds.

    Attributes
    ----------
    where : how errors name the backbone.
    card : the dataset's card.
    train_count : number of images in the train split.
    train_image : position -> tensor (C, H, W) on the CPU, exactly as the backbone is fed; cheapest when asked
        for in rising order.
    weights_folder : where published weights are looked for, and downloaded to, that no cache has.
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
    module : called with a float32 tensor (B, C, H, W), where it is fed all dates at once (B, T, C, H, W); returns
        anything `pool_output` understands.
    plan : how that tensor is made.
    pooling, prefix_tokens, layout : how the output is read, see `pool_output`.
    weights_sha256 : digest of the weights file, None where there is none.
    notes : what was adapted on the way, for the record.
    packages : names of packages whose version matters.
    dense : describes the layers of the module; called only when maps are wanted.
    layers : layers whose maps are made, coarse to fine; none until `make_maps`.
    learnable : parameters that training may change, see `learnable_parameters`.
    takes : of `METADATA`, and of ``present`` beside all dates, those that the module is told as keywords. What is not
        known of all samples of a dataset is not told, and the module does what its authors do without it.
    needs : those that it cannot do without.
    bounds : smallest and largest ``ground_distance_m`` that it can be told.
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
    learnable: tuple[nn.Parameter, ...] = ()
    takes: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Number of parameters; random filters lie in buffers and are not counted."""
        held = {id(tensor): tensor for tensor in self.module.parameters()}
        return sum(tensor.numel() for tensor in held.values())

    def make_maps(self, wanted: Sequence[str] | None, kind: dtype) -> None:
        """From now on the forward pass also gives the maps, of type `kind`, of the layers `wanted` or default."""

        dense = Dense(self.module) if self.dense is None else self.dense()
        self.layers = choose_layers(dense, wanted, where=self.where)
        self.module = WithMaps(self.module, dense, self.layers, kind, where=self.where)

    def unfreeze(self) -> None:
        """From now on a forward pass outside of `no_grad` leaves gradients in the parameters `learnable`."""
        for parameter in self.learnable:
            parameter.requires_grad_(True)

    def features(self, batch: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K)."""
        return self.features_and_maps(batch)[0]

    def features_and_maps(self, batch: Tensor, **told: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(B, C, H, W) or (B, T, C, H, W) -> (B, K), and one map (B, C', H', W') for each of `layers`.

        Of what is `told` of the images, the module gets what it takes.
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
    """Those that the module left open to training; all that are floats where it froze every one of them.

    So what a model keeps fixed by design, such as position embeddings made of sines, stays fixed, and one that
    was frozen as a whole, for a benchmark of frozen backbones, can be trained nevertheless.
    """
    held = [p for p in module.parameters() if p.is_floating_point()]
    return tuple([p for p in held if p.requires_grad] or held)


@contextlib.contextmanager
def isolated_seed(seed: int) -> Iterator[None]:
    """Inside, torch, NumPy and Python draw from `seed`; afterwards their states are as before."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        # CPU generator only: models are built on the CPU, whatever device they run on
        with torch.random.fork_rng(devices=[]):
            torch.random.default_generator.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


class WithMaps(nn.Module):
    """A module that returns, beside its own output, the maps of some of its layers.

    Each map is converted and copied when its layer has just made it: what a later layer changes in place
    does not reach it, and no map is held in a wider type than it is kept in.

    Parameters
    ----------
    module : called as it would be without; `dense` says which of its layers are which.
    names : layers, in the order in which their maps are returned.
    dtype : type of the maps.
    where : how errors name the backbone.
    """

    def __init__(
        self,
        module: nn.Module,
        dense: Dense,
        names: Sequence[str],
        dtype: torch.dtype,
        *,
        where: str,
    ) -> None:
        super().__init__()
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
        """(B, C, H, W), or of all dates (B, T, C, H, W) -> output of the module, maps (B, C, H, W) by name."""
        self._caught = {}
        self._fed = (images.shape[0], *images.shape[-2:])
        output = self.module(images, **told)
        caught, self._caught = self._caught, {}
        unused = [name for name in self._names if name not in caught]
        if unused:
            raise PermafrostError(
                f"the forward pass does not call the layer {unused[0]!r}",
                where=f"{self._where}: layers",
                remedy="name a layer that it calls, such as one inside of it",
            )
        return output, [caught[name] for name in self._names]

    def _catcher(self, name: str, dense: Dense, dtype: torch.dtype):
        def catch(output) -> None:
            if name in self._caught:
                raise PermafrostError(
                    f"the forward pass calls the layer {name!r} more than once",
                    where=f"{self._where}: layers",
                    remedy="name a layer that it calls once",
                )
            found = to_map(output, name, dense, self._fed, where=self._where)
            self._caught[name] = found.to(dtype, memory_format=torch.contiguous_format, copy=True)

        return catch
