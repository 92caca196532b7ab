"""What every kind of backbone builds: a module, what it is fed, and how its output is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .contract import InputPlan
from .outputs import pool_output

if TYPE_CHECKING:
    from torch import Tensor, nn


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
    """

    where: str
    card: dict
    train_count: int
    train_image: Callable[[int], Tensor]


@dataclass
class Backbone:
    """A frozen backbone, ready for use.

    Attributes
    ----------
    module : called with a float32 tensor (B, C, H, W); returns anything `pool_output` understands.
    plan : how that tensor is made.
    pooling, prefix_tokens, layout : how the output is read, see `pool_output`.
    weights_sha256 : digest of the weights file, None where there is none.
    notes : what was adapted on the way, for the record.
    packages : names of packages whose version matters.
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

    @property
    def parameters(self) -> int:
        """Number of parameters and of random filters' weights."""
        held = {id(tensor): tensor for tensor in self.module.parameters()}
        return sum(tensor.numel() for tensor in held.values())

    def features(self, batch: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, K)."""
        return pool_output(
            self.module(batch),
            pooling=self.pooling,
            prefix_tokens=self.prefix_tokens,
            layout=self.layout,
            where=self.where,
        )
