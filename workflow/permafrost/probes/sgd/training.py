"""Stochastic gradient descent with momentum, from the splits of a backbone to predictions.

The learning rate has a cosine schedule over epochs. Steps equal those of ``torch.optim.SGD`` with
``torch.optim.lr_scheduler.CosineAnnealingLR``, but without the seconds of importing torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.row_file import RowFile
from permafrost.core.tasks import targets_of
from permafrost.probes.embeddings.arithmetic import (
    centre_and_scale,
    scale_gates,
    scaled,
    varies,
)
from permafrost.probes.embeddings.features import Features, check_splits, class_gates
from permafrost.probes.embeddings.predictions import Prediction

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

SCORING_ROWS = 8192


@dataclass(frozen=True)
class DescentSchedule:
    """Settings of the training.

    Attributes
    ----------
    rates : initial learning rates; one for each head of a model, or one for all.
    momentum, weight_decay : as in ``torch.optim.SGD``.
    """

    rates: tuple[float, ...]
    epochs: int
    batch_size: int
    momentum: float
    weight_decay: float


def train(
    model,
    rows: np.ndarray | RowFile,
    labels: np.ndarray,
    schedule: DescentSchedule,
    orders: Iterable,
) -> None:
    """Train `model` in place.

    Parameters
    ----------
    model : has ``parameters`` and ``gradients``, lists of arrays that end in the columns of all
        heads, and ``backward(rows, labels)``, which fills the latter.
    rows : (N, d) float32, an array or a `RowFile`.
    labels : (N, …) targets of the model's loss.
    orders : for each epoch a permutation of the N rows; the last batch of an epoch may be smaller.
    """
    velocities = [np.zeros_like(p) for p in model.parameters]
    batch = np.empty((min(schedule.batch_size, len(rows)), rows.shape[1]), np.float32)
    for epoch, order in zip(range(schedule.epochs), orders, strict=False):
        share = (1 + math.cos(math.pi * epoch / schedule.epochs)) / 2
        steps = [_per_column(share, schedule.rates, p.shape[-1]) for p in model.parameters]
        for start in range(0, len(order), schedule.batch_size):
            chosen = order[start : start + schedule.batch_size]
            if isinstance(rows, RowFile):
                some = rows[chosen]
            else:
                some = np.take(rows, chosen, axis=0, out=batch[: len(chosen)], mode="clip")
            model.backward(some, labels[chosen])
            _descend(model, velocities, steps, schedule)


def shuffled(generator: np.random.Generator, count: int):
    """Yield endless permutations of `count` rows."""
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


class FittedModel:
    """A model trained on the train split, with the scaling of its features.

    Parameters
    ----------
    build : makes the model from (generator, number of features, number of classes, task).
    standardize : divide features by their standard deviation on train; they are always centred.

    Raises
    ------
    PermafrostError : no samples to train on or to predict; NaN or infinite features.
    """

    def __init__(
        self,
        splits: dict[str, Features],
        build: Callable,
        schedule: DescentSchedule,
        *,
        standardize: bool,
        seed: int,
        where: str,
    ) -> None:
        check_splits(splits, where=where)
        known = splits["train"]
        self.splits, self.task = splits, known.task
        self.mean, self.scale = centre_and_scale(known.embeddings, standardize)
        self.rescaled = scale_gates(self.scale, standardize)
        generator = np.random.default_rng(seed)
        width = known.embeddings.shape[1]
        self.model = build(generator, width, len(known.classes), known.task)
        labels = known.labels.astype(known.targets.learned, copy=False)
        # diverged rates are detected afterwards by their weights
        with np.errstate(over="ignore", invalid="ignore"):
            train(
                self.model,
                scaled(known.embeddings, self.mean, self.scale),
                labels,
                schedule,
                shuffled(generator, len(known.embeddings)),
            )

    def scores(self, split: str) -> np.ndarray:
        """`scores_of` for the features of a split."""
        return self.scores_of(self.splits[split].embeddings)

    def scores_of(self, features: np.ndarray | RowFile) -> np.ndarray:
        """(N, d) features -> (H, N, K) float32 probabilities of each head; NaN for diverged heads."""
        parts = [
            self._scores(features[start : start + SCORING_ROWS])
            for start in range(0, max(len(features), 1), SCORING_ROWS)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _scores(self, features: np.ndarray) -> np.ndarray:
        rows = scaled(features, self.mean, self.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            logits = self.model.logits(rows)
            heads = map(cast("Labels", targets_of(self.task)).probabilities, logits.swapaxes(0, 1))
        return np.stack(list(heads))

    def prediction(self, scores: np.ndarray, settings: dict, gates: list[str]) -> Prediction:
        """The prediction from one head's (N, K) scores of the test split."""
        known = self.splits["train"]
        if not varies(known.embeddings):
            gates = [*gates, "collapsed_features"]
        gates = [*gates, *class_gates(known.labels, known.task, len(known.classes))]
        return Prediction(cast("Labels", known.targets).answers(scores), scores, settings, gates)
