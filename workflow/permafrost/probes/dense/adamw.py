"""AdamW (Loshchilov & Hutter 2019) on a list of parameters.

On a CPU, equal to ``torch.optim.AdamW`` bit for bit. The first ``torch.optim`` optimiser imports torch's compiler,
which takes 4.5 CPU seconds (torch 2.15); short jobs that train a head on stored maps avoid this.
"""

from __future__ import annotations

import math

import torch

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class AdamW:
    """``step()`` updates the parameters by their gradients at ``learning_rate``.

    It has the attributes that ``torch.amp.GradScaler`` requires.
    """

    def __init__(self, parameters, learning_rate: float, weight_decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.param_groups = [{"params": self.parameters}]
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self._first = [torch.zeros_like(p) for p in self.parameters]
        self._second = [torch.zeros_like(p) for p in self.parameters]
        self._steps = 0

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self._steps += 1
        rate = self.learning_rate / (1 - BETA_1**self._steps)
        correction = (1 - BETA_2**self._steps) ** 0.5
        for p, first, second in zip(self.parameters, self._first, self._second, strict=True):
            if p.grad is None:
                continue
            p.mul_(1 - self.learning_rate * self.weight_decay)
            first.lerp_(p.grad, 1 - BETA_1)
            second.mul_(BETA_2).addcmul_(p.grad, p.grad, value=1 - BETA_2)
            p.addcdiv_(first, (second.sqrt() / correction).add_(EPSILON), value=-rate)


def scheduled_rate(schedule: str, start: float, end: float, epoch: int, epochs: int) -> float:
    """Learning rate of `epoch` (from 0): constant, or a half cosine from `start` towards `end`."""
    if schedule == "constant":
        return start

    return end + (start - end) * (1 + math.cos(math.pi * epoch / epochs)) / 2
