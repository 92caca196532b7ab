"""Training a segmentation head: a loss of logits and masks, judged by mean IoU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.stream import Batch
from permafrost.probes.dense.training import DenseTrainer, autocast
from permafrost.probes.segmentation.losses import Loss
from permafrost.probes.segmentation.scoring import confusion_per_image


@dataclass(frozen=True)
class Task:
    """What is learned."""

    classes: int
    ignore_index: int | None
    dead_classes: tuple[int, ...]


class MeanIou:
    """Mean IoU over what was added, at the working size."""

    def __init__(self, task: Task) -> None:
        self.task, self.confusion = task, 0

    def add(self, batch: Batch, logits: torch.Tensor) -> None:
        task = self.task
        counts = confusion_per_image(
            batch.masks, logits.argmax(dim=1), task.classes, task.ignore_index
        )
        self.confusion = self.confusion + counts.sum(dim=0).cpu().numpy()

    def value(self) -> float | None:
        from permafrost.metrics.segmentation import mean_iou

        score = float(mean_iou(np.asarray(self.confusion), dead_classes=self.task.dead_classes))
        return None if math.isnan(score) else score


class Trainer(DenseTrainer):
    """Trains heads for one task.

    Parameters
    ----------
    loss : of logits and masks.
    others : see `DenseTrainer`.
    """

    measure = "val_mean_iou"
    unmeasured = "no pixel that is scored"

    def __init__(self, build, train, val, *, task: Task, loss: Loss, **others) -> None:
        super().__init__(build, train, val, **others)
        self.task, self.loss = task, loss

    @property
    def recorded(self) -> dict:
        return {"loss": self.loss.described}

    def _forward(self, head: nn.Module, batch: Batch) -> torch.Tensor:
        with autocast(self.device, self.options["precision"]):
            return head(batch.maps, batch.masks.shape[-2:]).float()

    def _loss(self, output: torch.Tensor, batch: Batch, split: str) -> torch.Tensor:
        return self.loss(output, batch.masks)

    def _meter(self) -> MeanIou:
        return MeanIou(self.task)

    def _left_out(self, batch: Batch) -> bool:
        ignored = self.task.ignore_index
        return ignored is not None and bool((batch.masks == ignored).all())

    def _nothing_learned(self) -> PermafrostError:
        return PermafrostError(
            "every pixel of every train mask is ignored at the working size",
            where=self.where,
            remedy="check ignore_index in the dataset's entry, or use a larger input size",
        )

    def _blame_loss(self) -> tuple[str, str]:
        return (
            f"{self.loss.name} gave it for finite logits",
            "use a smaller learning_rate, or check the arguments of the loss (weights of 0)",
        )
