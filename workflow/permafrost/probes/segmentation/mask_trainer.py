"""Training a segmentation head: a loss of logits and masks, judged by the task's primary metric."""

from __future__ import annotations

import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import task_of
from permafrost.metrics.tasks import primary_metric
from permafrost.probes.dense.head_trainer import HeadTrainer, autocast
from permafrost.probes.dense.map_stream import MapBatch
from permafrost.probes.dense.mask_scoring import MaskScore, MaskTask
from permafrost.probes.segmentation.losses import Loss


class MaskTrainer(HeadTrainer):
    """Trains heads for one task.

    Parameters
    ----------
    loss : of logits and masks.
    others : see `HeadTrainer`.
    """

    def __init__(self, build, train, val, *, task: MaskTask, loss: Loss, **others) -> None:
        super().__init__(build, train, val, **others)
        self.task, self.loss = task, loss
        self.measure = f"val_{primary_metric(task.name)}"
        of_pairs = task_of(task.name).of_pairs
        self.unmeasured = "no changed pixel" if of_pairs else "no pixel that is scored"

    @property
    def recorded(self) -> dict:
        return {"loss": self.loss.described}

    def _forward(self, head: nn.Module, batch: MapBatch) -> torch.Tensor:
        with autocast(self.device, self.options.precision):
            return head(batch.fed(), batch.masks.shape[-2:]).float()

    def _loss(self, output: torch.Tensor, batch: MapBatch, split: str) -> torch.Tensor:
        return self.loss(output, batch.masks)

    def _meter(self) -> MaskScore:
        return MaskScore(self.task)

    def _left_out(self, batch: MapBatch) -> bool:
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
