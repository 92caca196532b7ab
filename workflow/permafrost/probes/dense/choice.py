"""Choice of learning rates and epochs on validation. Light to import: the plan checks the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Interval

from permafrost.core.errors import PermafrostError
from permafrost.core.options import AtLeast0, Different, Options, Positive
from permafrost.features.kept_layers import KeptLayers
from permafrost.probes.options import Rates

if TYPE_CHECKING:
    from torch import nn


@dataclass
class Chosen:
    """The chosen epoch of a training, the last or the best, and the log of all epochs."""

    value: float | None = None
    state: dict | None = None
    rate: float = 0.0
    epoch: int = 0
    log: list[dict] = field(default_factory=list)

    def offer(self, value: float | None, head: nn.Module, rate: float, epoch: int) -> None:
        """Keep a copy of the head if it is better; ties keep the first."""
        if self.state is not None and not self.beaten_by(value):
            return
        self.value, self.rate, self.epoch = value, rate, epoch
        self.state = {name: x.detach().clone() for name, x in head.state_dict().items()}

    def beaten_by(self, value: float | None) -> bool:
        """Whether a validation value is better than the kept one."""
        return value is not None and (self.value is None or value > self.value)


Layers = Different[str] | None
#: pixels of the patches of probes that read one layer and name none
STRIDE = 16


def kept_layers(options: Mapping[str, Any]) -> KeptLayers | None:
    """The layers that a probe with these options reads; None: all."""
    if "layer" in options:
        name = options["layer"]
        return KeptLayers(strides=(STRIDE,)) if name is None else KeptLayers((name,))
    names = options.get("layers")
    return None if names is None else KeptLayers(tuple(names))


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """Options of probes that train a head."""

    epochs: Positive
    """Passes over the training samples."""
    batch_size: Positive
    """Samples per training step."""
    learning_rate: Rates = 1e-3
    """Learning rate of AdamW. Of a list, the best on validation is used (by mean IoU, for change by F1, for objects
    by AP)."""
    weight_decay: AtLeast0
    """Weight decay of AdamW."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Schedule of the learning rate over epochs."""
    min_learning_rate: AtLeast0 = 1e-6
    """Final learning rate of cosine."""
    select: Literal["last", "best"] = "last"
    """The epoch that is scored: the last, or the best on validation."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of the head's forward pass; fp16 needs a GPU."""


@dataclass(frozen=True, kw_only=True)
class Pictured(Options):
    """Options of probes whose predictions are shown in the report."""

    pictures: Annotated[int, Interval(ge=0, le=40)] = 4
    """Test images drawn at random whose predictions are shown in the report."""


@dataclass(frozen=True, kw_only=True)
class OfPixels(Pictured):
    """Options of probes of masks or rasters of numbers."""

    resolution: Literal["native", "working"] = "native"
    """Resolution of the scored pixels: of the original mask or raster, or as resized with the images."""


@dataclass(frozen=True, kw_only=True)
class OfMasks(OfPixels):
    """Options of probes of masks."""

    boundary: Annotated[float, Interval(gt=0, lt=1)] | None = None
    """Width of the band of boundary IoU as a share of the image diagonal (0.02 is usual); null omits it.
    Numbers per pixel have no boundaries."""


@dataclass(frozen=True, kw_only=True)
class Kept(Options):
    """Options of probes that can write their masks."""

    masks: Literal["none", "zarr", "geotiff"] = "none"
    """Also write the predicted masks, or rasters of numbers, of the test split to results/masks."""


def rates_of(learning_rate: float | list[float]) -> list[float]:
    """The learning rates to try, as a list."""
    rates = learning_rate if isinstance(learning_rate, list) else [learning_rate]
    return [float(rate) for rate in rates]


def check_schedule(rates: list[float], schedule: str, lowest: float, where: str) -> None:
    """Refuse a schedule that would raise one of the learning rates."""
    if schedule == "cosine" and min(rates) < lowest:
        raise PermafrostError(
            f"the learning rate {min(rates):g} is below min_learning_rate {lowest:g},"
            " so that the cosine would raise it",
            where=where,
            remedy="lower min_learning_rate, or use schedule: constant",
        )


def check_warmup(warmup: float, epochs: int, where: str) -> None:
    """Refuse a warm-up longer than the training."""
    if warmup > epochs:
        raise PermafrostError(
            f"a warm-up of {warmup:g} of {epochs} epochs",
            where=f"{where}: warmup_epochs",
            remedy="make it shorter, or train for more epochs",
        )
