"""Training a head on the maps of frozen layers: AdamW, learning rates and epochs chosen on validation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.progress import progress

from .adamw import AdamW, scheduled_rate
from .losses import Loss
from .scoring import confusion_per_image
from .stream import Batch, MapStream

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Task:
    """What is learned, and how runs are called in errors."""

    classes: int
    ignore_index: int | None
    dead_classes: tuple[int, ...]
    where: str


@dataclass(frozen=True)
class Fitted:
    """The chosen head, in evaluation mode, and the record of how it was found."""

    head: nn.Module
    settings: dict
    gates: list[str]


@dataclass
class _Chosen:
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


class Trainer:
    """Trains heads for one task.

    Parameters
    ----------
    build : makes a head with fresh parameters from torch's global generator.
    train, val : streams of the splits; `val` may be without samples if nothing is chosen on it.
    loss : of logits and masks.
    options : of the probe, all keys.
    seed : of parameters, order of samples and dropout.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        train: MapStream,
        val: MapStream,
        *,
        task: Task,
        loss: Loss,
        options: dict,
        seed: int,
        device: torch.device,
    ) -> None:
        self.build, self.train, self.val = build, train, val
        self.task, self.loss, self.options = task, loss, options
        self.seed, self.device = seed, device
        self.rates = _rates(options, task.where)
        self.chooses = len(self.rates) > 1 or options["select"] == "best"
        if self.chooses and not len(val.split):
            raise self._nothing_to_choose_on("no sample")
        if options["precision"] == "fp16" and device.type != "cuda":
            raise PermafrostError(
                f"precision fp16 needs a GPU, this run is on {device.type}",
                where=task.where,
                remedy="use precision fp32 or bf16",
            )

    def fit(self) -> Fitted:
        """Train once per learning rate and keep the best.

        Raises
        ------
        PermafrostError : a loss that is NaN or infinite; nothing to learn from, or to choose on.
        """
        best, grid = None, []
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            for rate in self.rates:
                run = self._run(rate)
                grid.append({"learning_rate": rate, "val_mean_iou": run.value})
                best = run if best is None or best.beaten_by(run.value) else best
            torch.manual_seed(self.seed)
            head = self._fresh()
        head.load_state_dict(best.state)
        settings = {
            "learning_rate": best.rate,
            "epoch": best.epoch,
            "epochs_log": best.log,
            "grid": grid,
            "loss": self.loss.described,
            "precision": self.options["precision"],
            "parameters": sum(p.numel() for p in head.parameters()),
        }
        return Fitted(head.eval(), settings, self._gates(best))

    def _fresh(self) -> nn.Module:
        return self.build().to(self.device, memory_format=torch.channels_last)

    def _gates(self, best: _Chosen) -> list[str]:
        ordered = sorted(self.rates)
        edge = len(ordered) > 2 and best.rate in (ordered[0], ordered[-1])
        return ["best_learning_rate_on_edge"] if edge else []

    def _run(self, rate: float) -> _Chosen:
        """One training that starts at the learning rate `rate`."""
        options, best = self.options, _Chosen()
        # the same start for every learning rate
        torch.manual_seed(self.seed)
        head = self._fresh()
        optimiser = AdamW(head.parameters(), rate, options["weight_decay"])
        scaler = torch.amp.GradScaler(self.device.type, enabled=options["precision"] == "fp16")
        epochs = options["epochs"]
        label = f"{self.task.where}, learning rate {rate:g}"
        for epoch in progress(range(epochs), label=label, unit="epoch"):
            optimiser.learning_rate = scheduled_rate(
                options["schedule"], rate, options["min_learning_rate"], epoch, epochs
            )
            train_loss = self._epoch(head, optimiser, scaler, epoch)
            val_loss, value = self._validate(head, epoch)
            if value is None and self.chooses:
                raise self._nothing_to_choose_on("no pixel that is scored")
            best.log.append(
                {
                    "epoch": epoch + 1,
                    "learning_rate": optimiser.learning_rate,
                    "train_loss": train_loss,
                    "val_loss": val_loss,
                    "val_mean_iou": value,
                }
            )
            if options["select"] == "best":
                best.offer(value, head, rate, epoch + 1)
        if options["select"] == "last":
            best.offer(value, head, rate, epochs)
        return best

    def _epoch(self, head: nn.Module, optimiser: AdamW, scaler, epoch: int) -> float:
        """Train once over the split; the mean loss per sample."""
        head.train()
        total, seen = 0.0, 0
        for number, batch in enumerate(self.train.shuffled(self.seed, epoch)):
            if self._all_ignored(batch):
                continue
            with self._naming():
                logits = self._logits(head, batch)
                loss = self.loss(logits, batch.masks)
                value = float(loss.detach())
                if not math.isfinite(value):
                    raise self._diverged(
                        value, f"epoch {epoch + 1}, batch {number + 1}", batch, logits
                    )
                optimiser.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimiser)
                scaler.update()
            total, seen = total + value * len(batch.rows), seen + len(batch.rows)
        if not seen:
            raise PermafrostError(
                "every pixel of every train mask is ignored at the working size",
                where=self.task.where,
                remedy="check ignore_index in the dataset's entry, or use a larger input size",
            )
        return total / seen

    @torch.no_grad()
    def _validate(self, head: nn.Module, epoch: int) -> tuple[float | None, float | None]:
        """Loss per sample and mean IoU of the validation split at the working size."""
        from permafrost.metrics.segmentation import mean_iou

        head.eval()
        task, total, seen, confusion = self.task, 0.0, 0, 0
        for number, batch in enumerate(self.val.in_order()):
            if self._all_ignored(batch):
                continue
            with self._naming():
                logits = self._logits(head, batch)
                value = float(self.loss(logits, batch.masks))
                if not math.isfinite(value):
                    place = f"epoch {epoch + 1}, validation batch {number + 1}"
                    raise self._diverged(value, place, batch, logits)
                counts = confusion_per_image(
                    batch.masks, logits.argmax(dim=1), task.classes, task.ignore_index
                )
            confusion = confusion + counts.sum(dim=0).cpu().numpy()
            total, seen = total + value * len(batch.rows), seen + len(batch.rows)
        if not seen:
            return None, None
        score = float(mean_iou(np.asarray(confusion), dead_classes=task.dead_classes))
        return total / seen, None if math.isnan(score) else score

    def _logits(self, head: nn.Module, batch: Batch) -> torch.Tensor:
        with autocast(self.device, self.options["precision"]):
            return head(batch.maps, batch.masks.shape[-2:]).float()

    def _all_ignored(self, batch: Batch) -> bool:
        ignored = self.task.ignore_index
        return ignored is not None and bool((batch.masks == ignored).all())

    def _nothing_to_choose_on(self, what: str) -> PermafrostError:
        return PermafrostError(
            f"the learning rate or the epoch is to be chosen on validation, which has {what}",
            where=self.task.where,
            remedy="give one learning_rate and select: last, or a dataset with validation",
        )

    def _diverged(
        self, value: float, place: str, batch: Batch, logits: torch.Tensor
    ) -> PermafrostError:
        cause, remedy = self._cause(batch, logits)
        return PermafrostError(
            f"the loss became {value} in {place}: {cause}", where=self.task.where, remedy=remedy
        )

    def _cause(self, batch: Batch, logits: torch.Tensor) -> tuple[str, str]:
        for layer, x in zip(self.train.layers, batch.maps, strict=True):
            bad = ~torch.isfinite(x).flatten(1).all(dim=1)
            if bad.any():
                row = int(batch.rows[int(bad.nonzero()[0, 0])])
                return (
                    f"the map of layer {layer.name} holds NaN or infinity (row {row})",
                    "look at the backbone's weights and normalisation, then extract again",
                )
        if not torch.isfinite(logits).all():
            return (
                "the head's output is not finite",
                "use a smaller learning_rate, or precision fp32",
            )
        return (
            f"{self.loss.name} gave it for finite logits",
            "use a smaller learning_rate, or check the arguments of the loss (weights of 0)",
        )

    @contextlib.contextmanager
    def _naming(self):
        """Say which run, where the library's own errors do not, and what a full GPU needs."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise PermafrostError(
                "the GPU has not enough memory for a training step",
                where=self.task.where,
                remedy="use a smaller batch_size or hidden, or precision bf16",
            ) from error
        except PermafrostError as error:
            if error.where is not None:
                raise
            raise PermafrostError(
                error.problem, where=self.task.where, remedy=error.remedy
            ) from error


def autocast(device: torch.device, precision: str):
    """The head's forward pass in `precision`."""
    kind = PRECISIONS[precision]
    return torch.autocast(device.type, dtype=kind or torch.bfloat16, enabled=kind is not None)


def _rates(options: dict, where: str) -> list[float]:
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
