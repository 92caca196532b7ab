"""The segmentation probe: feature stores with maps in, test predictions of a trained head out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.memory import keep_freed_memory
from permafrost.core.options import AtLeast0, Positive
from permafrost.core.tasks import targets_of
from permafrost.features.devices import choose_device, exact_numerics
from permafrost.metrics.tasks import primary_metric
from permafrost.probes.dense.choice import Kept, OfMasks, TrainingOptions
from permafrost.probes.dense.head_trainer import FittedHead, HeadTrainer, autocast
from permafrost.probes.dense.ltae import head_over_dates
from permafrost.probes.dense.map_splits import (
    Layer,
    MaskSplit,
    date_positions,
    mask_gates,
    open_splits,
)
from permafrost.probes.dense.map_stream import MapBatch, MapStream
from permafrost.probes.dense.mask_scoring import MaskScore, MaskTask, score_batches
from permafrost.probes.dense.tables import MaskRows, Outcome, rows_to_fill
from permafrost.probes.job import ProbeJob
from permafrost.probes.segmentation.heads import build_head
from permafrost.probes.segmentation.losses import Loss
from permafrost.probes.segmentation.options import Head


@dataclass(frozen=True, kw_only=True)
class SegmentationOptions(OfMasks, Kept, Head, TrainingOptions):
    """A head trained on the maps of the frozen layers."""

    epochs: Positive = 10
    batch_size: Positive = 64
    """Images per training step."""
    weight_decay: AtLeast0 = 0.0


def run_segmentation(job: ProbeJob[SegmentationOptions]) -> None:
    """Train the head on train, choose on validation, and write the test predictions.

    Raises
    ------
    PermafrostError : anything that the user can fix; no partial output remains.
    """
    keep_freed_memory()
    splits, options = open_splits(MaskSplit, job), job.options
    device = choose_device(job.device)
    layers = splits["train"].choose_layers(options.layers, where=job.where)
    gates = mask_gates(splits)
    with exact_numerics():
        positions, meaning = date_positions(splits)
        fitted = _trainer(job, splits, layers, device, positions).fit()
        with rows_to_fill(MaskRows, job, splits["test"]) as rows:
            how = {"batch_size": options.batch_size, "positions": positions.get("test")}
            score(fitted, rows, layers, device=device, **how)
            settings = {
                "head": options.head,
                "layers": [layer.name for layer in layers],
                "working_size": list(splits["train"].working_size),
                **fitted.settings,
                **meaning,
            }
            outcome = Outcome(layers, settings, [*gates, *fitted.gates])
            rows.write(job, splits, outcome, head=options.head)


def _trainer(
    job: ProbeJob[SegmentationOptions],
    splits: dict[str, MaskSplit],
    layers: list[Layer],
    device: torch.device,
    positions: dict[str, np.ndarray],
) -> MaskTrainer:
    options, train = job.options, splits["train"]
    names = ", ".join(layer.name for layer in layers)
    channels = [layer.channels for layer in layers]
    ltae = job.over_dates.ltae if positions else None

    def head_of(channels: list[int]):
        return build_head(
            options.head,
            channels,
            len(train.classes),
            hidden=options.hidden,
            sizes=[layer.size for layer in layers],
            where=f"{job.where}, head {options.head}, layers {names}",
        )

    def build():
        return head_over_dates(head_of, channels, ltae)

    with torch.random.fork_rng(devices=[]):
        build()  # refuses maps that do not fit the head before any map is read
    loss = Loss.of(options.loss, train, device, job.where)
    how = {"batch_size": options.batch_size, "device": device, "budget": job.memory}
    how["scratch"] = job.output.parent if options.epochs > 1 else None
    return MaskTrainer(
        build,
        *(
            MapStream(splits[name], layers, positions=positions.get(name), **how)
            for name in ("train", "val")
        ),
        task=MaskTask.of(train),
        loss=loss,
        options=options,
        where=job.where,
        seed=job.derived_seed,
        device=device,
        memory=job.memory,
    )


@torch.no_grad()
def score(
    fitted: FittedHead,
    rows: MaskRows,
    layers: list[Layer],
    *,
    device: torch.device,
    batch_size: int,
    positions: np.ndarray | None = None,
) -> None:
    """Predict every test image and add it to `rows`; logits are resized directly to the scored size."""
    how = {"batch_size": batch_size, "device": device, "positions": positions}
    stream: MapStream[MapBatch] = MapStream(rows.test, layers, keep=False, masks=False, **how)

    def predict(batch: MapBatch, part: slice, size) -> torch.Tensor:
        with autocast(device, fitted.settings["precision"]):
            return fitted.head(batch.fed(part), size).float()

    score_batches(rows, stream.in_order(), predict)


class MaskTrainer(HeadTrainer[MapBatch]):
    """Trains segmentation heads.

    Parameters
    ----------
    loss : loss of logits and masks.
    others : see `HeadTrainer`.
    """

    def __init__(self, build, train, val, *, task: MaskTask, loss: Loss, **others) -> None:
        super().__init__(build, train, val, **others)
        self.task, self.loss = task, loss
        self.measure = f"val_{primary_metric(task.name)}"
        of_pairs = targets_of(task.name).of_pairs
        self.unmeasured = "no changed pixel" if of_pairs else "no pixel that is scored"

    @property
    def recorded(self) -> dict:
        return {"loss": self.loss.described}

    def _forward(self, head: nn.Module, batch: MapBatch) -> torch.Tensor:
        with autocast(self.device, self.options.precision):
            return head(batch.fed(), batch.masks.shape[-2:]).float()

    def _loss(self, output: torch.Tensor, batch: MapBatch, split: str) -> torch.Tensor:
        return self.loss(output, batch.masks, scored=True)

    def _meter(self) -> MaskScore:
        return MaskScore(self.task)

    def _left_out(self, batch: MapBatch) -> bool:
        return not batch.scored

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
