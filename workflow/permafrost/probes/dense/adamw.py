"""AdamW (Loshchilov & Hutter 2019) on a list of parameters.

As ``torch.optim.AdamW``, bit by bit on a CPU. The first one of torch imports its compiler: 4.5 CPU seconds
(torch 2.15), which every short job that trains a head on stored maps is spared.
"""

from __future__ import annotations

import math

import torch

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class AdamW:
    """``step()`` moves the parameters by their gradients at ``learning_rate``.

    It has the attribute that ``torch.amp.GradScaler`` asks for, so it can be used with one.
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
    """Learning rate of `epoch` (from 0): constant, or half a cosine from `start` towards `end`."""
    if schedule == "constant":
        return start

    return end + (start - end) * (1 + math.cos(math.pi * epoch / epochs)) / 2
