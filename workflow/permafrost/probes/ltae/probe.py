"""An L-TAE over the features of all dates of a series, with a linear layer; settings are chosen on validation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.core.options import AtLeast0, Positive
from permafrost.features.dates import LtaeOptions, positions_of
from permafrost.features.devices import choose_device, exact_numerics
from permafrost.probes.dense.choice import TrainingOptions
from permafrost.probes.dense.head_trainer import HeadTrainer, autocast
from permafrost.probes.dense.ltae import Ltae
from permafrost.probes.dense.map_stream import batch_sizes
from permafrost.probes.embeddings.arithmetic import centre_and_scale
from permafrost.probes.embeddings.features import (
    Features,
    check_splits,
    class_gates,
    read_features,
)
from permafrost.probes.fine_tune.tasks import Labels, Numbers, learned_task
from permafrost.probes.job import ProbeJob
from permafrost.probes.options import Rates


@dataclass(frozen=True, kw_only=True)
class LtaeProbeOptions(TrainingOptions):
    """A lightweight temporal attention encoder over the features of all dates of a series (standardised with train's
    statistics) and a linear layer, trained by AdamW. For datasets with dates: series.
    """

    encoder: LtaeOptions = field(default_factory=LtaeOptions)
    """Options of the encoder."""
    epochs: Positive = 50
    batch_size: Positive = 128
    """Series per training step."""
    learning_rate: Rates = field(default_factory=lambda: [3e-4, 1e-3, 3e-3])
    weight_decay: AtLeast0 = 0.01
    select: Literal["last", "best"] = "best"


@dataclass(frozen=True)
class SeriesBatch:
    """Samples on the device of the run.

    ``rows`` (B,) their rows in the split; ``values`` (B, T, K) float32; ``positions`` (B, T), see `Ltae.forward`;
    ``target`` (B,) class ids or numbers, (B, L) labels.
    """

    rows: np.ndarray
    values: torch.Tensor
    positions: torch.Tensor
    target: torch.Tensor
    # no maps of layers that could cause a loss that is not finite
    maps: tuple = ()


class SeriesStream:
    """Batches of one split in memory, with the interface of `MapStream`."""

    layers = ()

    def __init__(
        self, split: Features, positions: np.ndarray, *, batch_size: int, device: torch.device
    ) -> None:
        self.split, self._batch_size, self._device = split.embeddings, batch_size, device
        arrays = (split.embeddings, positions, split.labels.astype(split.targets.learned))
        self._arrays = [torch.from_numpy(np.ascontiguousarray(one)) for one in arrays]

    def shuffled(self, seed: int, epoch: int) -> Iterator[SeriesBatch]:
        return self._batches(np.random.default_rng([seed, epoch]).permutation(len(self.split)))

    def in_order(self) -> Iterator[SeriesBatch]:
        return self._batches(np.arange(len(self.split)))

    def _batches(self, rows: np.ndarray) -> Iterator[SeriesBatch]:
        start = 0
        for size in batch_sizes(len(rows), self._batch_size):
            chosen = rows[start : start + size]
            parts = (
                one[torch.from_numpy(chosen)].to(self._device, non_blocking=True)
                for one in self._arrays
            )
            yield SeriesBatch(chosen, *parts)
            start += size


class SeriesModel(nn.Module):
    """Standardise, encode, classify: (B, T, K) and positions (B, T) -> (B, outputs).

    Parameters
    ----------
    mean, scale : (K,) of the features of train's dates.
    encoder : see `Ltae`.
    """

    def __init__(
        self, mean: torch.Tensor, scale: torch.Tensor, encoder: Ltae, outputs: int
    ) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.encoder = encoder
        self.linear = nn.Linear(encoder.perceptron.out_features, outputs)

    def forward(self, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        standard = (values - self.mean) / self.scale
        return self.linear(self.encoder(standard[:, None], positions)[:, 0])


class SeriesTrainer(HeadTrainer[SeriesBatch]):
    """Trains series models for one task.

    Parameters
    ----------
    task : see `fine_tune.tasks`.
    others : see `HeadTrainer`.
    """

    def __init__(self, build, train, val, *, task: Labels | Numbers, **others) -> None:
        self.measure, self.task = task.measure, task
        self.unmeasured = "no sample with a label, or numbers that are all the same"
        super().__init__(build, train, val, **others)

    def _forward(self, head: SeriesModel, batch: SeriesBatch) -> torch.Tensor:
        with autocast(self.device, self.options.precision):
            return head(batch.values, batch.positions).float()

    def _loss(self, output: torch.Tensor, batch: SeriesBatch, split: str) -> torch.Tensor:
        return self.task.loss(output, batch)

    def _meter(self):
        return self.task.meter()

    def _nothing_learned(self) -> PermafrostError:
        return PermafrostError("train has no sample", where=self.where)

    def _blame_loss(self) -> tuple[str, str]:
        return "its targets are too large", "check the numbers of the dataset"

    @torch.no_grad()
    def answer(self, model: SeriesModel, test: SeriesStream) -> np.ndarray:
        """(N, outputs) of the test split."""
        output = np.concatenate(
            [self._forward(model, batch).cpu().numpy() for batch in test.in_order()]
        )
        if not np.isfinite(output).all():
            raise PermafrostError(
                "the trained model gives NaN or infinity for test samples",
                where=self.where,
                remedy="use a smaller learning_rate, or precision fp32",
            )
        return output


def run(job: ProbeJob[LtaeProbeOptions]) -> None:
    """Train on train, choose on validation, and write the test predictions.

    Raises
    ------
    PermafrostError : anything that the user can fix; no partial output remains.
    """
    splits, positions, meaning = _read(job)
    device, train = choose_device(job.device), splits["train"]
    task = learned_task(train)
    streams = {
        name: SeriesStream(split, positions[name], batch_size=job.options.batch_size, device=device)
        for name, split in splits.items()
    }
    known = train.embeddings[positions["train"] > 0]
    standard = centre_and_scale(known, standardize=True)
    mean, scale = (torch.from_numpy(one).float() for one in standard)

    def build() -> SeriesModel:
        encoder = Ltae(len(mean), job.options.encoder)
        return SeriesModel(mean, scale, encoder, task.outputs)

    trainer = SeriesTrainer(
        build,
        streams["train"],
        streams["val"],
        task=task,
        options=job.options,
        where=job.where,
        seed=job.derived_seed,
        device=device,
        memory=job.memory,
    )
    with exact_numerics():
        fitted = trainer.fit()
        output = trainer.answer(fitted.head, streams["test"])
    gates = [*fitted.gates]
    if not (known != known[0]).any():
        gates.append("collapsed_features")
    gates += class_gates(train.labels, train.task, len(train.classes))
    settings = {**fitted.settings, **meaning}
    task.prediction(output, settings, gates).write(job, splits)


def _read(job: ProbeJob) -> tuple[dict[str, Features], dict[str, np.ndarray], dict]:
    """Features (N, T, K) and positions (N, T) of each split, and the record of the latter."""
    splits = read_features(job.stores, expect=job.features, over=job.over_dates)
    check_splits(splits, where=job.where)
    if all(one.embeddings.ndim == 2 for one in splits.values()):
        # one vector per sample: the backbone's input was all dates at once, or single images
        splits = {
            name: replace(one, embeddings=one.embeddings[:, None]) for name, one in splits.items()
        }
        ones = {name: np.ones((len(one.labels), 1), np.int64) for name, one in splits.items()}
        return (
            splits,
            ones,
            {"positions": "one for each sample, whose dates were fed at once or are not fed"},
        )
    stored = {
        name: (one.samples, one.attributes, one.embeddings.shape[1]) for name, one in splits.items()
    }
    positions, meaning = positions_of(stored)
    return splits, positions, {"positions": meaning}
