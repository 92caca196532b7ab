"""Train a model with AdamW, warm-up and cosine per step; choose learning rate and epoch on validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from permafrost.core.errors import PermafrostError
from permafrost.core.progress import progress
from permafrost.probes.dense.choice import Chosen
from permafrost.probes.dense.head_trainer import all_finite
from permafrost.probes.dense.map_stream import batch_sizes
from permafrost.probes.fine_tune.options import FineTuneOptions


class Diverged(Exception):
    """A loss or gradient is not finite; the message says where."""


@dataclass(frozen=True)
class RateSchedule:
    """The learning rate of every step as a share of the full one.

    Attributes
    ----------
    kind : ``cosine``, a half cosine that ends at 0 after the last step, or ``constant``.
    warmup : number of the `epochs` over which it rises in equal steps.
    """

    kind: str
    epochs: int
    warmup: float

    def share(self, step: int, steps: int) -> float:
        """The share at `step` (from 0, counted over all epochs) if an epoch has `steps` steps."""
        rising, total = self.warmup * steps, self.epochs * steps
        if step < rising:
            return (step + 1) / (rising + 1)
        if self.kind == "constant":
            return 1.0
        return (1 + math.cos(math.pi * (step - rising) / (total - rising))) / 2


@dataclass
class BestTraining:
    """The best of all trainings: its rate, epoch and log, and the results of all rates."""

    best: Chosen
    grid: list[dict]
    gates: list[str] = field(default_factory=list)

    @property
    def settings(self) -> dict:
        best = self.best
        return {"epoch": best.epoch, "epochs_log": best.log, "grid": self.grid}


@dataclass(frozen=True)
class Start:
    """A model and the initial state of its training.

    Attributes
    ----------
    model : called with a batch's ``fed``; has ``groups``, see `models`.
    restart : resets it to its initial state; random parts are drawn from torch's global generator.
    groups : rate -> parameter groups of the optimiser: ``params``, ``full`` (the largest learning rate)
        and ``weight_decay``.
    """

    model: Any
    restart: Callable[[], None]
    groups: Callable[[float], list[dict]]


class FineTuneTrainer:
    """Trains one model at each learning rate from the same initial state.

    Parameters
    ----------
    start : the model.
    streams : ``train`` and ``val``; `val` may be empty if nothing is chosen on it.
    task : see `tasks`.
    options : choice of the epoch, and the largest norm of all gradients.
    seed : seed of the head, the order of samples and augmentation.
    """

    def __init__(
        self,
        start: Start,
        streams: dict,
        task,
        schedule: RateSchedule,
        options: FineTuneOptions,
        *,
        seed: int,
        where: str,
    ) -> None:
        self.model, self.restart, self.groups = start.model, start.restart, start.groups
        self.train, self.val, self.task = streams["train"], streams["val"], task
        self.schedule, self.select, self.clip = schedule, options.select, options.clip_norm
        self.seed, self.where = seed, where

    def fit(self, rates: list[float]) -> BestTraining:
        """Train once per learning rate; the model ends in the best state, in evaluation mode.

        Raises
        ------
        PermafrostError : every rate diverged; nothing to learn from, or to choose on.
        """
        self._choosing = len(rates) > 1 or self.select == "best"
        if self._choosing and not len(self.val.split):
            raise self._nothing_to_choose_on("no sample")
        best, grid, gates, why = None, [], [], ""
        device = self.train.device
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            for rate in rates:
                try:
                    run = self._run(rate)
                except Diverged as diverged:
                    why = str(diverged)
                    grid.append({"learning_rate": rate, self.task.measure: None})
                    gates.append(f"learning_rate_diverged:{rate:g}")
                    continue
                grid.append({"learning_rate": rate, self.task.measure: run.value})
                best = run if best is None or best.beaten_by(run.value) else best
        if best is None:
            raise PermafrostError(
                f"training diverged: {why}",
                where=self.where,
                remedy="use a smaller learning_rate (or head_learning_rate), clip gradients, or precision fp32",
            )
        self.model.load_state_dict(best.state)
        self.model.eval()
        ordered = sorted(rates)
        if len(rates) > 2 and best.rate in (ordered[0], ordered[-1]):
            gates.append("best_learning_rate_on_edge")
        return BestTraining(best, grid, gates)

    def _run(self, rate: float) -> Chosen:
        best, epochs = Chosen(), self.schedule.epochs
        # the same start for every learning rate
        torch.manual_seed(self.seed)
        self.restart()
        optimiser = torch.optim.AdamW(self.groups(rate))
        label = f"{self.where}, learning rate {rate:g}"
        for epoch in progress(range(epochs), label=label, unit="epoch"):
            train_loss, share = self._epoch(optimiser, epoch)
            val_loss, value = self._validate(epoch)
            if value is None and self._choosing:
                raise self._nothing_to_choose_on(f"no {self.task.measure.removeprefix('val_')}")
            best.log.append(
                {
                    "epoch": epoch + 1,
                    "learning_rate": rate * share,
                    "train_loss": train_loss,
                    "val_loss": val_loss,
                    self.task.measure: value,
                }
            )
            if self.select == "best":
                best.offer(value, self.model, rate, epoch + 1)
        if self.select == "last":
            best.offer(value, self.model, rate, epochs)
        return best

    def _epoch(self, optimiser: torch.optim.Optimizer, epoch: int) -> tuple[float, float]:
        """Train once over the split; the mean loss per sample, and the share of the learning rate at the end."""
        self.model.train()
        steps = len(batch_sizes(len(self.train.split), self.train.batch_size))
        total, seen, share = 0.0, 0, 0.0
        for number, batch in enumerate(self.train.shuffled(self.seed, epoch)):
            share = self.schedule.share(epoch * steps + number, steps)
            for group in optimiser.param_groups:
                group["lr"] = group["full"] * share
            loss = self.step(optimiser, batch, f"epoch {epoch + 1}, batch {number + 1}")
            if loss is not None:
                total, seen = total + loss * len(batch.rows), seen + len(batch.rows)
        if not seen:
            raise PermafrostError(
                "every pixel of every train mask is ignored at the working size",
                where=self.where,
                remedy="check ignore_index in the dataset's entry, or use a larger input size",
            )
        return total / seen, share

    def step(self, optimiser: torch.optim.Optimizer, batch, place: str) -> float | None:
        """Train on one batch; returns its loss, or None if it has nothing to learn."""
        try:
            loss = self.task.loss(self.model(*batch.fed), batch)
            if loss is None:
                return None
            value = float(loss.detach())
            if not math.isfinite(value):
                raise Diverged(f"the loss became {value} in {place}")
            optimiser.zero_grad()
            loss.backward()
            if self.clip is not None:
                parameters = [p for group in optimiser.param_groups for p in group["params"]]
                torch.nn.utils.clip_grad_norm_(parameters, self.clip)
            optimiser.step()
        except torch.OutOfMemoryError as error:
            raise self._out_of_memory() from error
        except PermafrostError as error:
            if isinstance(error.__cause__, torch.OutOfMemoryError):
                raise self._out_of_memory() from error
            if error.where is None:
                raise PermafrostError(
                    error.problem, where=self.where, remedy=error.remedy
                ) from error
            raise
        return value

    @torch.no_grad()
    def _validate(self, epoch: int) -> tuple[float | None, float | None]:
        """Mean loss per sample and the task's metric on the validation split."""
        self.model.eval()
        meter, total, seen = self.task.meter(), 0.0, 0
        for batch in self.val.in_order():
            output = self.model(*batch.fed)
            loss = self.task.loss(output, batch)
            if loss is None:
                continue
            if not (math.isfinite(float(loss)) and all_finite(output)):
                raise Diverged(f"validation after epoch {epoch + 1} is not finite")
            meter.add(batch, output)
            total, seen = total + float(loss) * len(batch.rows), seen + len(batch.rows)
        return (total / seen, meter.value()) if seen else (None, None)

    def _nothing_to_choose_on(self, what: str) -> PermafrostError:
        return PermafrostError(
            f"the learning rate or the epoch is chosen on validation, which has {what}",
            where=self.where,
            remedy="give one learning_rate and head_learning_rate and select: last, or a dataset with validation",
        )

    def _out_of_memory(self) -> PermafrostError:
        return PermafrostError(
            "the GPU has not enough memory for a training step",
            where=self.where,
            remedy="use a smaller batch_size of the probe, a smaller input.size, or precision bf16",
        )
