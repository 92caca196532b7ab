"""Train a head on the maps of frozen layers by AdamW; choose learning rate and epoch on validation."""

from __future__ import annotations

import contextlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.progress import progress
from permafrost.probes.dense.adamw import scheduled_rate
from permafrost.probes.dense.choice import Chosen, TrainingOptions, check_schedule, rates_of
from permafrost.probes.dense.map_stream import MapStream, allowed_bytes
from permafrost.probes.dense.training import Training

if TYPE_CHECKING:
    import numpy as np

    class Rows(Protocol):
        """The fields of every batch: rows of the split (B,), and maps by layer."""

        @property
        def rows(self) -> np.ndarray: ...

        @property
        def maps(self) -> Sequence[torch.Tensor]: ...


# what a training keeps of every parameter: value, gradient, two moments of AdamW, and value of the best epoch
COPIES = 5
PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class FittedHead:
    """The chosen head, in evaluation mode, and the record of its training."""

    head: nn.Module
    settings: dict
    gates: list[str]


class HeadTrainer[Batch: Rows](ABC):
    """Trains heads; subclasses define output, loss and validation metric.

    Parameters
    ----------
    build : makes a head with fresh parameters from torch's global generator.
    train, val : streams of the splits; `val` may be empty if nothing is chosen on it.
    where : name of the run in error messages.
    seed : seed of parameters, order of samples and dropout.
    memory : bytes that the heads of several learning rates may fill together; None: a share of the free memory. It
        changes no result.
    """

    #: name of the validation metric in the record; and what validation lacks if it cannot be computed
    measure: str
    unmeasured: str

    def __init__(
        self,
        build: Callable[[], nn.Module],
        train: MapStream,
        val: MapStream,
        *,
        options: TrainingOptions,
        where: str,
        seed: int,
        device: torch.device,
        memory: int | None = None,
    ) -> None:
        self.build, self.train, self.val = build, train, val
        self.options, self.where = options, where
        self.seed, self.device, self.memory = seed, device, memory
        self.rates = rates_of(options.learning_rate)
        check_schedule(self.rates, options.schedule, options.min_learning_rate, where)
        self.chooses = len(self.rates) > 1 or options.select == "best"
        if self.chooses and not len(val.split):
            raise self._nothing_to_choose_on("no sample")
        if options.precision == "fp16" and device.type != "cuda":
            raise PermafrostError(
                f"precision fp16 needs a GPU, this run is on {device.type}",
                where=where,
                remedy="use precision fp32 or bf16",
            )

    @abstractmethod
    def _forward(self, head: nn.Module, batch: Batch):
        """The head's output for a batch, one float32 tensor or a sequence of them."""

    @abstractmethod
    def _loss(self, output, batch: Batch, split: str) -> torch.Tensor:
        """The loss of an output, a scalar; `split` is ``train`` or ``val``."""

    @abstractmethod
    def _meter(self):
        """An object with ``add(batch, output)`` and ``value()``, which returns `measure` or None."""

    @abstractmethod
    def _nothing_learned(self) -> PermafrostError:
        """The error if every batch of train was left out."""

    @abstractmethod
    def _blame_loss(self) -> tuple[str, str]:
        """Cause and remedy of a loss that is not finite although the output is."""

    def _left_out(self, batch: Batch) -> bool:
        """Whether a batch has nothing to learn from or to evaluate."""
        return False

    @property
    def recorded(self) -> dict:
        """Additional entries of the recorded settings."""
        return {}

    def fit(self) -> FittedHead:
        """Train once per learning rate and keep the best.

        Trainings of several rates share every batch that is read. As many train at once as their heads fit into
        `memory`; each gives the same head as if it were the only one.

        Raises
        ------
        PermafrostError : a loss that is NaN or infinite; nothing to learn from, or to choose on.
        """
        best, grid = None, []
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            for rates in itertools.batched(self.rates, self._at_once()):
                for run in self._runs(rates):
                    grid.append({"learning_rate": run.rate, self.measure: run.value})
                    best = run if best is None or best.beaten_by(run.value) else best
            torch.manual_seed(self.seed)
            head = self._fresh()
        head.load_state_dict(best.state)
        settings = {
            "learning_rate": best.rate,
            "epoch": best.epoch,
            "epochs_log": best.log,
            "grid": grid,
            **self.recorded,
            "precision": self.options.precision,
            "parameters": sum(p.numel() for p in head.parameters()),
        }
        return FittedHead(head.eval(), settings, self._gates(best))

    def _fresh(self) -> nn.Module:
        return self.build().to(self.device, memory_format=torch.channels_last)

    def _gates(self, best: Chosen) -> list[str]:
        ordered = sorted(self.rates)
        edge = len(ordered) > 2 and best.rate in (ordered[0], ordered[-1])
        return ["best_learning_rate_on_edge"] if edge else []

    def _at_once(self) -> int:
        """Number of learning rates whose heads, with all that their training keeps, fit into `memory`."""
        if len(self.rates) == 1:
            return 1
        needed = COPIES * sum(p.numel() * p.element_size() for p in self.build().parameters())
        allowed, _ = allowed_bytes(self.device, self.memory)
        return min(len(self.rates), max(1, allowed // max(1, needed)))

    def _runs(self, rates: Sequence[float]) -> list[Chosen]:
        """One training per learning rate, which starts at it; all of them see a batch before the next is read."""
        options, trainings = self.options, [self._started(rate) for rate in rates]
        named = f"learning rate{'s' * (len(rates) > 1)} {', '.join(f'{rate:g}' for rate in rates)}"
        epochs = range(options.epochs)
        for epoch in progress(epochs, label=f"{self.where}, {named}", unit="epoch"):
            for one in trainings:
                one.optimiser.learning_rate = scheduled_rate(
                    options.schedule, one.rate, options.min_learning_rate, epoch, options.epochs
                )
            losses = self._epoch(trainings, epoch)
            validated = self._validate(trainings, epoch)
            for one, loss, (val_loss, value) in zip(trainings, losses, validated, strict=True):
                if value is None and self.chooses:
                    raise self._nothing_to_choose_on(self.unmeasured)
                one.chosen.log.append(
                    {
                        "epoch": epoch + 1,
                        "learning_rate": one.optimiser.learning_rate,
                        "train_loss": loss,
                        "val_loss": val_loss,
                        self.measure: value,
                    }
                )
                if options.select == "best" or epoch + 1 == options.epochs:
                    one.chosen.offer(value, one.head, one.rate, epoch + 1)
        return [one.chosen for one in trainings]

    def _started(self, rate: float) -> Training:
        # the same start for every learning rate
        torch.manual_seed(self.seed)
        return Training.of(rate, self._fresh(), self.options, self.device)

    def _epoch(self, trainings: Sequence[Training], epoch: int) -> list[float]:
        """Train once over the split; the mean loss per sample of each training."""
        for one in trainings:
            one.head.train()
        # a loss that is read after its batch would make a GPU wait: all are read after the epoch
        steps: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in trainings]
        batches = []
        for number, batch in enumerate(self.train.shuffled(self.seed, epoch)):
            if self._left_out(batch):
                continue
            for one, taken in zip(trainings, steps, strict=True):
                with self._naming(), one.drawing():
                    taken.append(self._step(one, batch))
            batches.append((number, len(batch.rows)))
        if not batches:
            raise self._nothing_learned()
        return [
            self._mean_loss(one.rate, taken, batches, epoch)
            for one, taken in zip(trainings, steps, strict=True)
        ]

    def _step(self, training: Training, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """One step of a training: its loss, and the extremes of the output."""
        output = self._forward(training.head, batch)
        loss = self._loss(output, batch, "train")
        training.descend(loss)
        return loss.detach(), _extremes(output)

    def _mean_loss(self, rate: float, steps, batches, epoch: int) -> float:
        """The mean loss per sample of an epoch, of the `steps` of a training and (number, samples) of the batches."""
        total, values = 0.0, torch.stack([loss for loss, _ in steps]).tolist()
        for value, (_, output), (number, count) in zip(values, steps, batches, strict=True):
            if not math.isfinite(value):
                batch = next(itertools.islice(self.train.shuffled(self.seed, epoch), number, None))
                place = f"epoch {epoch + 1}, batch {number + 1}"
                raise self._diverged(value, rate, place, batch, output)
            total += value * count
        return total / sum(count for _, count in batches)

    @torch.no_grad()
    def _validate(
        self, trainings: Sequence[Training], epoch: int
    ) -> list[tuple[float | None, float | None]]:
        """Mean loss per sample and `measure` of the validation split, of each training."""
        for one in trainings:
            one.head.eval()
        meters, totals, seen = [self._meter() for _ in trainings], [0.0] * len(trainings), 0
        for number, batch in enumerate(self.val.in_order()):
            if self._left_out(batch):
                continue
            for place, (one, meter) in enumerate(zip(trainings, meters, strict=True)):
                with self._naming():
                    where = f"epoch {epoch + 1}, validation batch {number + 1}"
                    totals[place] += self._measured(one, meter, batch, where) * len(batch.rows)
            seen += len(batch.rows)
        if not seen:
            return [(None, None)] * len(trainings)
        return [(total / seen, meter.value()) for total, meter in zip(totals, meters, strict=True)]

    def _measured(self, training: Training, meter, batch: Batch, place: str) -> float:
        """Add a validation batch to the meter; its loss."""
        output = self._forward(training.head, batch)
        value = float(self._loss(output, batch, "val"))
        if not math.isfinite(value):
            raise self._diverged(value, training.rate, place, batch, output)
        meter.add(batch, output)
        return value

    def _nothing_to_choose_on(self, what: str) -> PermafrostError:
        return PermafrostError(
            f"the learning rate or the epoch is chosen on validation, which has {what}",
            where=self.where,
            remedy="give one learning_rate and select: last, or a dataset with validation",
        )

    def _diverged(
        self, value: float, rate: float, place: str, batch: Batch, output
    ) -> PermafrostError:
        cause, remedy = self._cause(batch, output)
        place += f" at learning rate {rate:g}" * (len(self.rates) > 1)
        return PermafrostError(
            f"the loss became {value} in {place}: {cause}", where=self.where, remedy=remedy
        )

    def _cause(self, batch: Batch, output) -> tuple[str, str]:
        for layer, x in zip(self.train.layers, batch.maps, strict=True):
            bad = ~torch.isfinite(x).flatten(1).all(dim=1)
            if bad.any():
                row = int(batch.rows[int(bad.nonzero()[0, 0])])
                return (
                    f"the map of layer {layer.name} holds NaN or infinity (row {row})",
                    "check the backbone's weights and normalisation, then extract again",
                )
        if not all_finite(output):
            return (
                "the head's output is not finite",
                "use a smaller learning_rate, or precision fp32",
            )
        return self._blame_loss()

    @contextlib.contextmanager
    def _naming(self):
        """Context that adds the name of the run to errors, and a remedy if GPU memory is full."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise PermafrostError(
                "the GPU has not enough memory for a training step",
                where=self.where,
                remedy="use a smaller batch_size or hidden, or precision bf16",
            ) from error
        except PermafrostError as error:
            if error.where is not None:
                raise
            raise PermafrostError(error.problem, where=self.where, remedy=error.remedy) from error


def all_finite(output) -> bool:
    """Whether a head's output, a tensor or a sequence of them, has neither NaN nor infinity."""
    parts = [output] if isinstance(output, torch.Tensor) else output
    return all(bool(torch.isfinite(x).all()) for x in parts if x is not None)


@torch.no_grad()
def _extremes(output) -> torch.Tensor:
    """Least and largest number of each part of a head's output, finite if all of it is."""
    parts = [output] if isinstance(output, torch.Tensor) else output
    return torch.stack([end for x in parts if x is not None for end in torch.aminmax(x)])


def autocast(device: torch.device, precision: str):
    """Context for the head's forward pass in `precision`."""
    kind = PRECISIONS[precision]
    return torch.autocast(device.type, dtype=kind or torch.bfloat16, enabled=kind is not None)
