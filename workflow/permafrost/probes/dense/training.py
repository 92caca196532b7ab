"""The training of a head at one learning rate, next to those at others on the same batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from permafrost.probes.dense.adamw import AdamW
from permafrost.probes.dense.choice import Chosen, TrainingOptions


@dataclass
class Training:
    """A head in training.

    Attributes
    ----------
    rate : the learning rate at which it starts.
    chosen : its best epoch so far, and its log.
    random : states of torch's generators, of the CPU and of the GPU if there is one, after its last step.
    """

    rate: float
    head: nn.Module
    optimiser: AdamW
    scaler: torch.amp.GradScaler
    device: torch.device
    random: list[torch.Tensor]
    chosen: Chosen = field(default_factory=Chosen)

    @classmethod
    def of(
        cls, rate: float, head: nn.Module, options: TrainingOptions, device: torch.device
    ) -> Training:
        """A training that begins with this head, and with torch's random numbers as they are."""
        optimiser = AdamW(head.parameters(), rate, options.weight_decay)
        scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "fp16")
        return cls(rate, head, optimiser, scaler, device, _random_states(device))

    def descend(self, loss: torch.Tensor) -> None:
        """One step of the optimiser."""
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Context in which torch draws random numbers as if no other training drew any."""
        cpu, *gpu = self.random
        torch.random.set_rng_state(cpu)
        for state in gpu:
            torch.cuda.set_rng_state(state, self.device)
        yield
        self.random = _random_states(self.device)


def _random_states(device: torch.device) -> list[torch.Tensor]:
    gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.random.get_rng_state(), *gpu]
