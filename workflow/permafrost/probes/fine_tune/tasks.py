"""Loss, validation metric and predictions by the task of the dataset."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch.nn import functional

from permafrost.core.errors import PermafrostError
from permafrost.core.targets import ManyLabels, Number, OneClass, by_targets
from permafrost.metrics.regression import evaluate
from permafrost.probes.dense.mask_scoring import MaskScore, MaskTask
from permafrost.probes.embeddings.arithmetic import score_on_validation
from permafrost.probes.embeddings.features import Features
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.segmentation.losses import Loss

if TYPE_CHECKING:
    from permafrost.core import targets
    from permafrost.core.targets import Targets

FINE_TUNED, FROZEN = "fine-tuned", "frozen"


@dataclass(frozen=True)
class Answer:
    """A model's predictions of the test split.

    Attributes
    ----------
    name : name of the setting.
    output : result of the problem's ``answer``.
    settings : record of the training; JSON-able.
    gates : names of the failed sanity checks.
    """

    name: str
    output: Any
    settings: dict
    gates: list[str]

    @property
    def brief(self) -> dict:
        """The settings without logs and lists, which are in the settings of the ranked answer."""
        return {
            name: value
            for name, value in self.settings.items()
            if not isinstance(value, list | dict)
        }


class Labels:
    """Classes or multi-label: cross-entropy, or binary cross-entropy of each label."""

    def __init__(self, train: Features) -> None:
        self.task, self.targets, self.outputs = (
            train.task,
            cast("targets.Labels", train.targets),
            len(train.classes),
        )
        self.measure = f"val_{self.targets.validation}"

    def loss(self, output: torch.Tensor, batch) -> torch.Tensor:
        """The mean loss of logits (B, outputs)."""
        if self.targets.several:
            return functional.binary_cross_entropy_with_logits(output, batch.target)
        return functional.cross_entropy(output, batch.target)

    def meter(self) -> Collected:
        """Collects batches, and computes accuracy or micro-AP."""
        return Collected(self._value)

    def prediction(self, output: np.ndarray, settings: dict, gates: list[str]) -> Prediction:
        """The prediction from logits (N, outputs) of the test split."""
        scores = self.targets.probabilities(output)
        return Prediction(self.targets.answers(scores), scores, settings, gates)

    def answer(self, prediction: Prediction) -> np.ndarray:
        """The part of a prediction from which a setting's scores are computed."""
        return self.targets.scored(prediction.scores, prediction.prediction)

    def _value(self, output: np.ndarray, target: np.ndarray) -> float | None:
        scores = self.targets.probabilities(output)
        try:
            return score_on_validation(target, scores, self.targets.answers(scores), self.task)
        except PermafrostError:  # undefined, which matters only if something is chosen by it
            return None


class Numbers:
    """Numbers: mean squared error of targets standardised with train's statistics."""

    outputs, measure = 1, "val_r2"

    def __init__(self, train: Features) -> None:
        self.mean = float(train.labels.mean())
        self.scale = float(train.labels.std()) or 1.0

    def loss(self, output: torch.Tensor, batch) -> torch.Tensor:
        """The mean loss of standardised numbers (B, 1)."""
        return functional.mse_loss(output[:, 0], (batch.target - self.mean) / self.scale)

    def meter(self) -> Collected:
        """Collects batches, and computes R²."""
        return Collected(self._value)

    def prediction(self, output: np.ndarray, settings: dict, gates: list[str]) -> Prediction:
        """The prediction from standardised numbers (N, 1) of the test split."""
        return Prediction(self._numbers(output), None, settings, gates)

    def answer(self, prediction: Prediction) -> np.ndarray:
        return prediction.prediction

    def _numbers(self, output: np.ndarray) -> np.ndarray:
        return output[:, 0].astype(np.float64) * self.scale + self.mean

    def _value(self, output: np.ndarray, target: np.ndarray) -> float | None:
        score = evaluate(target, self._numbers(output))["r2"]
        return score if math.isfinite(score) else None


class Masks:
    """A class for every pixel: a loss without ignored pixels."""

    task, measure = "segmentation", "val_mean_iou"

    def __init__(self, loss: Loss, task: MaskTask) -> None:
        self._loss, self._task = loss, task

    def loss(self, output: torch.Tensor, batch) -> torch.Tensor | None:
        """The loss; None if every pixel of the batch is ignored."""
        return self._loss(output, batch.masks)

    def meter(self) -> MaskScore:
        """Collects batches, and computes the task's primary metric."""
        return MaskScore(self._task)


_LEARNED: dict[type[Targets], Callable[[Features], Labels | Numbers]]
_LEARNED = {OneClass: Labels, ManyLabels: Labels, Number: Numbers}


def learned_task(train: Features) -> Labels | Numbers:
    """The task object for the targets of a training split."""
    return by_targets(_LEARNED, train.targets)(train)


class Collected:
    """Collects outputs and targets, and computes the metric of all of them."""

    def __init__(self, judge) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray]]
        self._judge, self._parts = judge, []

    def add(self, batch, output: torch.Tensor) -> None:
        self._parts.append((output.float().cpu().numpy(), batch.target.cpu().numpy()))

    def value(self) -> float | None:
        if not self._parts:
            return None
        return self._judge(*(np.concatenate(parts) for parts in zip(*self._parts, strict=True)))
