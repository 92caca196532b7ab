"""Batches of input images of the backbone, or of the frozen backbone's outputs.

Both have the order of `dense.map_stream`, and come from memory if a split fits, else they are prefetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from permafrost.core.tasks import targets_of
from permafrost.data.store.image_store import ImageStore
from permafrost.features import reading
from permafrost.features.health import check_finite
from permafrost.features.running import Run, batch_outputs, fed_images, told_of, total
from permafrost.probes.dense.map_splits import Layer
from permafrost.probes.dense.map_stream import MapStream, Windows, torch_type
from permafrost.probes.fine_tune.augmentation import Augmentation
from permafrost.probes.fine_tune.image_splits import ImageSplit


@dataclass(frozen=True)
class TrainingBatch:
    """Samples in the order in which they are used, on the device of the run.

    ``rows`` (B,) their rows in the split; ``fed`` arguments of the model; ``target`` (B,) class
    ids or numbers, (B, L) labels, or (B, *working size) class ids.
    """

    rows: np.ndarray
    fed: tuple
    target: torch.Tensor

    @property
    def masks(self) -> torch.Tensor:
        return self.target


class _TargetStream(MapStream[TrainingBatch]):
    """A stream of rows with the targets of a split."""

    split: ImageSplit

    def __init__(self, split: ImageSplit, layers: list[Layer], **how) -> None:
        self._labels = _as_learned(split.labels, split.task)
        super().__init__(split, layers, masks=split.masked, **how)

    def _target(self, rows: np.ndarray, held) -> torch.Tensor:
        if self.masks:
            return held.arrays[-1].long()
        return self._labels[torch.from_numpy(rows)].to(self.device)

    def _masks(self, start: int, stop: int) -> Iterator[torch.Tensor]:
        if self.masks:
            masks = self.split.working_masks(start, stop)
            yield torch.from_numpy(masks.astype(torch_type(masks.dtype), copy=False))

    def _rows_as_held(self):
        shapes, dtypes = self._own()
        if self.masks:
            shapes.append(self.split.working_size)
            dtypes.append(getattr(torch, str(torch_type(self.split.mask_dtype))))
        return shapes, dtypes


class ImageStream(_TargetStream):
    """Images of a split, prepared as for extraction.

    Parameters
    ----------
    run : the backbone's run; defines the bands to read and their preparation.
    augmentation : augmentation of shuffled images; None: none. Images in order are never augmented.
    """

    holds = "images"

    def __init__(
        self, split: ImageSplit, run: Run, *, augmentation: Augmentation | None = None, **how
    ) -> None:
        self.run, self.augmentation = run, augmentation
        self._draws: np.random.Generator | None = None
        reader = reading.SampleReader(
            ImageStore(split.path), run.prepare.stored, telling=run.telling
        )
        self._told = reader.told
        _, *size = split.store.shape("images")[1:]
        layer = Layer("images", "images", len(run.prepare.stored), *size)
        super().__init__(split, [layer], **how)

    def shuffled(self, seed: int, epoch: int) -> Iterator[TrainingBatch]:
        if self.augmentation is None:
            yield from super().shuffled(seed, epoch)
            return
        # a separate random stream, so that augmentation does not change the order of samples
        self._draws = np.random.default_rng([seed, epoch, 1])
        try:
            yield from super().shuffled(seed, epoch)
        finally:
            self._draws = None

    def stored_images(self, start: int, stop: int) -> reading.Batch:
        """Rows [start, stop) as stored, with the bands of the model's input."""
        pixels = self.split.store.read("images", start, stop)[:, self.run.prepare.stored]
        return self._as_stored(np.arange(start, stop), torch.from_numpy(pixels))

    def _own(self):
        (layer,) = self.layers
        stored = np.dtype(self.split.store.attributes["arrays"]["images"][1])
        shape = (layer.channels, layer.height, layer.width)
        return [shape], [getattr(torch, str(torch_type(stored)))]

    def _stored(self, start: int, stop: int) -> Iterator[torch.Tensor]:
        pixels = self.split.store.read("images", start, stop)[:, self.run.prepare.stored]
        yield torch.from_numpy(pixels.astype(torch_type(pixels.dtype), copy=False))
        yield from self._masks(start, stop)

    @torch.no_grad()
    def _batch(self, rows: np.ndarray, held) -> TrainingBatch:
        stored, target = self._as_stored(rows, held.arrays[0]), self._target(rows, held)
        if self._draws is None:
            return TrainingBatch(
                rows, (fed_images(self.run, stored), told_of(self.run, stored)), target
            )
        change = self.augmentation.drawn(self._draws, len(rows))
        images = change.cropped(stored, self.run)
        images, target = change.turned(images, target if self.masks else None, target)
        return TrainingBatch(rows, (images, told_of(self.run, change.told(stored))), target)

    def _as_stored(self, rows: np.ndarray, pixels: torch.Tensor) -> reading.Batch:
        sizes = self.split.sizes[rows]
        told = {name: values[rows] for name, values in self._told.items()}
        return reading.Batch(int(rows[0]), pixels, sizes[:, 0], sizes[:, 1], told=told)


class FrozenStream(_TargetStream):
    """Features and maps of the frozen backbone for the images of a split.

    Parameters
    ----------
    images : the stream of the images.
    shapes : shapes of the features (K,) and of each map (C, H, W).
    """

    holds = "features"

    def __init__(self, images: ImageStream, shapes: list[tuple[int, ...]], **how) -> None:
        self.images, self.made = images, shapes
        super().__init__(images.split, images.layers, **how)

    def _own(self):
        features, *maps = self.made
        shapes = [features, *((height, width, channels) for channels, height, width in maps)]
        return shapes, [torch.float32] * len(shapes)

    def _stored(self, start: int, stop: int) -> Iterator[torch.Tensor]:
        parts = [
            batch_outputs(
                self.images.run, self.images.stored_images(a, min(a + self.batch_size, stop))
            )
            for a in range(start, stop, self.batch_size)
        ]
        for values in zip(*([features, *maps] for features, maps in parts), strict=True):
            made = torch.cat(values)
            self._check(made, start)
            yield made if made.ndim == 2 else made.permute(0, 2, 3, 1)
        yield from self._masks(start, stop)

    def _batch(self, rows: np.ndarray, held) -> TrainingBatch:
        features, *maps = held.arrays[: len(self.made)]
        # (B, H, W, C) in memory, viewed as (B, C, H, W)
        return TrainingBatch(
            rows, (features, [x.permute(0, 3, 1, 2) for x in maps]), self._target(rows, held)
        )

    def _check(self, made: torch.Tensor, start: int) -> None:
        if not bool(torch.isfinite(total(made))):
            check_finite(
                made.flatten(1).cpu().numpy(),
                start,
                self.split.samples["sample_id"],
                where=self.images.run.backbone.where,
                remedy="look for NaN in the dataset's pixels, and for a normalisation "
                "that the weights were not made for",
            )


def share_windows(frozen: FrozenStream, images: ImageStream) -> None:
    """Give both streams the same order of samples: that of the one with smaller windows."""
    fewer: Windows = min(frozen.windows, images.windows, key=lambda one: one.blocks_per_window)
    frozen.windows = images.windows = fewer


def _as_learned(labels: np.ndarray | None, task: str) -> torch.Tensor | None:
    if labels is None:
        return None
    # losses of multi-label targets and numbers need floats
    return torch.from_numpy(labels.astype(targets_of(task).learned))
