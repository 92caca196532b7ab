"""Stochastic gradient descent with momentum, its learning rate falling by a cosine from epoch to epoch.

The same steps as ``torch.optim.SGD`` under ``torch.optim.lr_scheduler.CosineAnnealingLR``, without
the seconds that importing torch takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DescentSchedule:
    """How to train.

    Attributes
    ----------
    rates : learning rates at the start; one for each head of a model, or one for all.
    momentum, weight_decay : as those of ``torch.optim.SGD``.
    """

    rates: tuple[float, ...]
    epochs: int
    batch_size: int
    momentum: float
    weight_decay: float


def train(
    model, rows: np.ndarray, labels: np.ndarray, schedule: DescentSchedule, orders: Iterable
) -> None:
    """Train `model` in place.

    Parameters
    ----------
    model : has ``parameters`` and ``gradients``, lists of arrays that end in the columns of all
        heads, and ``backward(rows, labels)``, which fills the latter.
    rows : (N, d) float32.
    labels : (N, …) what the model's loss asks for.
    orders : for each epoch a permutation of the N rows; the last batch of an epoch may be smaller.
    """
    velocities = [np.zeros_like(p) for p in model.parameters]
    batch = np.empty((min(schedule.batch_size, len(rows)), rows.shape[1]), np.float32)
    for epoch, order in zip(range(schedule.epochs), orders, strict=False):
        share = (1 + math.cos(math.pi * epoch / schedule.epochs)) / 2
        steps = [_per_column(share, schedule.rates, p.shape[-1]) for p in model.parameters]
        for start in range(0, len(order), schedule.batch_size):
            chosen = order[start : start + schedule.batch_size]
            some = np.take(rows, chosen, axis=0, out=batch[: len(chosen)], mode="clip")
            model.backward(some, labels[chosen])
            _descend(model, velocities, steps, schedule)


def shuffled(generator: np.random.Generator, count: int):
    """Permutations of `count` rows without end."""
    while True:
        yield generator.permutation(count)


def _per_column(share: float, rates, width: int) -> np.ndarray:
    return np.repeat(np.float32(share) * np.asarray(rates, np.float32), width // len(rates))


def _descend(model, velocities, steps, schedule: DescentSchedule) -> None:
    for value, gradient, velocity, step in zip(
        model.parameters, model.gradients, velocities, steps, strict=True
    ):
        if schedule.weight_decay:
            gradient += np.float32(schedule.weight_decay) * value
        velocity *= np.float32(schedule.momentum)
        velocity += gradient
        np.multiply(velocity, step, out=gradient)
        value -= gradient
