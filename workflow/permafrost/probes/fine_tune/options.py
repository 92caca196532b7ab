"""The options of `fine_tune`."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.probes.dense.choice import LossOptions


@dataclass(frozen=True)
class AugmentationOptions:
    """What may be done to training images."""

    flip: bool
    rotate: bool
    crop: list[float] | None


@dataclass(frozen=True)
class FineTuneOptions:
    """See ``fine_tune`` in the schema of the configuration."""

    epochs: int
    batch_size: int
    learning_rate: float | list[float]
    layer_decay: float
    head_learning_rate: float | list[float]
    head_epochs: int
    start: str
    weight_decay: float
    schedule: str
    warmup_epochs: float
    clip_norm: float | None
    batch_norm: str
    augmentation: AugmentationOptions
    select: str
    precision: str
    head: str
    layers: list[str] | None
    hidden: int
    loss: LossOptions
    resolution: str
    boundary: float | None
    pictures: int
