"""What is chosen on validation: learning rates and epochs. Light: the plan checks the options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError

if TYPE_CHECKING:
    from torch import nn


@dataclass
class Chosen:
    """What one training is judged by: its last epoch or its best one, and the log of all of them."""

    value: float | None = None
    state: dict | None = None
    rate: float = 0.0
    epoch: int = 0
    log: list[dict] = field(default_factory=list)

    def offer(self, value: float | None, head: nn.Module, rate: float, epoch: int) -> None:
        """Take the head where it is better; the first of equals stays."""
        if self.state is not None and not self.beaten_by(value):
            return
        self.value, self.rate, self.epoch = value, rate, epoch
        self.state = {name: x.detach().clone() for name, x in head.state_dict().items()}

    def beaten_by(self, value: float | None) -> bool:
        return value is not None and (self.value is None or value > self.value)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of probes that train a head; see ``segmentation`` in the schema of the configuration."""

    epochs: int
    batch_size: int
    learning_rate: float | list[float]
    weight_decay: float
    schedule: str
    min_learning_rate: float
    select: str
    precision: str


@dataclass(frozen=True)
class LossOptions:
    """A loss of a segmentation head by importable name, and its arguments."""

    name: str
    arguments: dict


def rates_of(learning_rate: float | list[float]) -> list[float]:
    """The learning rates to try, one or more."""
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
    """Refuse a warm-up that is longer than the training."""
    if warmup > epochs:
        raise PermafrostError(
            f"a warm-up of {warmup:g} of {epochs} epochs",
            where=f"{where}: warmup_epochs",
            remedy="make it shorter, or train for more epochs",
        )
