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


def rates_of(options: dict, where: str) -> list[float]:
    """The learning rates to try, one or several.

    Raises
    ------
    PermafrostError : a schedule that would raise one of them.
    """
    rates = options["learning_rate"]
    rates = [float(rate) for rate in (rates if isinstance(rates, list) else [rates])]
    if options["schedule"] == "cosine" and min(rates) < options["min_learning_rate"]:
        raise PermafrostError(
            f"the learning rate {min(rates):g} is below min_learning_rate"
            f" {options['min_learning_rate']:g}, so that the cosine would raise it",
            where=where,
            remedy="lower min_learning_rate, or use schedule: constant",
        )
    return rates


def check_warmup(options: dict, where: str) -> None:
    """Refuse a warm-up that is longer than the training."""
    if options["warmup_epochs"] > options["epochs"]:
        raise PermafrostError(
            f"a warm-up of {options['warmup_epochs']:g} of {options['epochs']} epochs",
            where=f"{where}: warmup_epochs",
            remedy="make it shorter, or train for more epochs",
        )
