"""Options of segmentation heads."""

from __future__ import annotations

from dataclasses import dataclass, field

from permafrost.core.options import Options, Positive
from permafrost.probes.dense.choice import Layers
from permafrost.probes.segmentation.heads import HeadName


@dataclass(frozen=True, kw_only=True)
class LossOptions(Options):
    """A loss by importable name, and its arguments."""

    name: str = "torch.nn.CrossEntropyLoss"
    arguments: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Head(Options):
    """Options of a segmentation head."""

    head: HeadName
    """The segmentation head; dpt needs exactly four layers, fpn needs maps larger than one pixel."""
    layers: Layers = None
    """Extracted layers to use, coarse to fine; null uses all of them."""
    hidden: Positive = 256
    """Channels inside conv_block, fpn and dpt."""
    loss: LossOptions = field(default_factory=LossOptions)
    """A loss by importable name, and its arguments."""
