"""Run a backbone on a device: batches of stored images to outputs on the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from permafrost.backbones.backbone import Backbone
from permafrost.core.errors import PermafrostError
from permafrost.features.devices import tf32
from permafrost.features.metadata import Telling
from permafrost.features.prepare import Preparer
from permafrost.features.reading import Batch
from permafrost.features.specification import Extraction

#: precision -> type of autocast; None: float32
PRECISIONS = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@contextlib.contextmanager
def arithmetic(precision: str, device: torch.device) -> Iterator[None]:
    """Context of a forward pass in this precision, inside `exact_numerics`."""
    kind = PRECISIONS[precision]
    with (
        tf32() if precision == "tf32" else contextlib.nullcontext(),
        torch.autocast(device.type, dtype=kind or torch.bfloat16, enabled=kind is not None),
    ):
        yield


@dataclass(frozen=True)
class Run:
    """A backbone on a device, with its settings.

    Attributes
    ----------
    precision : one of `PRECISIONS`.
    pad_to : batch size that smaller batches are padded to; None: no padding.
    dates : T, if all dates of a sample are input at once; None if every date is a separate image.
    telling : metadata that the backbone gets.
    """

    backbone: Backbone
    prepare: Preparer
    device: torch.device
    precision: str
    channels_last: bool
    pad_to: int | None
    dates: int | None = None
    telling: Telling = Telling()

    def outputs(
        self, images: torch.Tensor, **told: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Forward pass on the device.

        Parameters
        ----------
        images : (B, C, H, W) prepared. If all dates are input at once: (B, T, C, H, W) with the
            keyword ``present`` (B, T), or (B * T, C, H, W) for whole series of T dates.
        told : metadata, see `told_of`.

        Returns
        -------
        Features (B, K) float32, and the feature maps of the backbone's layers, or their means.

        Raises
        ------
        PermafrostError : the forward pass fails, or does not return one row of numbers per image.
        """
        if self.dates is not None and images.ndim == 4:
            images = images.reshape(-1, self.dates, *images.shape[1:])
            present = torch.ones(images.shape[:2], dtype=torch.bool, device=images.device)
            told = {**told, "present": present}
        count = len(images)
        # a smaller last batch would make torch compile the model again
        images = self._padded(images)
        told = {name: self._padded(one) for name, one in told.items()}
        with arithmetic(self.precision, self.device):
            features, maps = self._forward(images, told)
        self._check_rows(features, len(images))
        return features[:count].float(), [values[:count] for values in maps]

    def _padded(self, values: torch.Tensor) -> torch.Tensor:
        lacking = 0 if self.pad_to is None else self.pad_to - len(values)
        if lacking <= 0:
            return values
        return torch.cat([values, values[-1:].expand(lacking, *values.shape[1:])])

    def _forward(
        self, images: torch.Tensor, told: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        try:
            return self.backbone.features_and_maps(images, **told)
        except torch.OutOfMemoryError as error:
            raise PermafrostError(
                f"the GPU has not enough memory for a batch of shape {tuple(images.shape)}",
                where=self.backbone.where,
                remedy="reduce runtime.batch_size, in the configuration or in the backbone's entry",
            ) from error
        except PermafrostError:
            raise
        # a backbone can be user code, which may raise anything
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            raise PermafrostError(
                f"the forward pass failed on a batch of shape {tuple(images.shape)}: {reason}",
                where=self.backbone.where,
                remedy="check that the model supports input.size and input.bands",
            ) from error

    def _check_rows(self, features: torch.Tensor, count: int) -> None:
        """Raise `PermafrostError` unless there is one row of real numbers per image."""
        shape, problem = tuple(features.shape), None
        if len(features) != count:
            rows = "1 row" if len(features) == 1 else f"{len(features)} rows"
            problem = f"a batch of {count} images gave {rows} of features, in shape {shape}"
        elif not shape[1]:
            problem = f"the features hold no numbers at all, their shape is {shape}"
        elif features.is_complex():
            problem = f"the features are complex numbers, in shape {shape}"
        if problem is not None:
            raise PermafrostError(
                problem,
                where=self.backbone.where,
                remedy="return one row of real numbers per image: (B, K), tokens (B, T, K)"
                " or maps (B, C, H, W)",
            )


def set_up(
    backbone: Backbone,
    extraction: Extraction,
    device: torch.device,
    batch_size: int,
    dates: int = 1,
    telling: Telling | None = None,
) -> Run:
    """Move the backbone to the device and compile it if requested; do not wrap its module later.

    Parameters
    ----------
    batch_size : images per batch, for padding of compiled models.
    dates : largest number of dates of a sample, for backbones that get all of them at once.

    Raises
    ------
    PermafrostError : the precision is unknown, or not available on the device.
    """
    if extraction.precision not in PRECISIONS:
        raise PermafrostError(
            f"unknown precision {extraction.precision!r}, known: {', '.join(PRECISIONS)}",
            where=f"{backbone.where}: extraction",
        )
    precision = extraction.precision
    if precision == "fp16" and device.type == "cpu":
        raise PermafrostError(
            "precision: fp16 needs a GPU", where=backbone.where, remedy="use bf16 or fp32 on a CPU"
        )
    # channels_last: up to twice as fast for convolutions on a CPU or on tensor cores, else no slower
    together = backbone.plan.dates == "all"
    # torch supports channels_last only for weights of up to four dimensions
    single = not together and all(one.ndim < 5 for one in backbone.module.parameters())
    channels_last = single and (device.type == "cpu" or precision != "fp32")
    layout = torch.channels_last if channels_last else torch.contiguous_format
    backbone.module.to(device, memory_format=layout)
    if extraction.compile:
        backbone.module = torch.compile(backbone.module)
    return Run(
        backbone,
        Preparer(backbone.plan, device, channels_last=channels_last),
        device,
        precision,
        channels_last,
        pad_to=max(1, batch_size // (dates if together else 1)) if extraction.compile else None,
        dates=dates if together else None,
        telling=telling or Telling(),
    )


@torch.inference_mode()
def batch_outputs(
    run: Run, batch: Batch, *, where: str | None = None
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Features (n, K) float32 and feature maps of a batch of any image sizes, on the device.

    `where` names the images in errors; by default the backbone is named. Raises as `Run.outputs`.
    """
    with _naming(batch, where or run.backbone.where):
        return _batch_outputs(run, batch)


@contextlib.contextmanager
def _naming(batch: Batch, where: str) -> Iterator[None]:
    """Add the numbers of the images to errors."""
    try:
        yield
    except PermafrostError as error:
        noun = "images" if batch.dates is None else "series"
        images = f"{noun} {batch.start + 1} to {batch.start + len(batch)}"
        raise PermafrostError(
            error.problem, where=f"{where}, {images}", remedy=error.remedy
        ) from error


def _batch_outputs(run: Run, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
    if run.dates is not None:
        return _series_outputs(run, batch)
    told = told_of(run, batch)
    groups, order = _prepared(run, batch)
    if len(groups) == 1:
        return run.outputs(groups[0][1], **told)
    if run.prepare.plan.size is not None:
        return run.outputs(torch.cat([images for _, images in groups])[order], **told)
    # native sizes differ, which excludes maps, not their means
    parts = [
        run.outputs(images, **{name: values[where] for name, values in told.items()})
        for where, images in groups
    ]
    return _joined(parts, order)


def _joined(
    parts: Sequence[tuple[torch.Tensor, list[torch.Tensor]]], order: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Outputs of several forward passes as those of one; `order` restores that of the batch."""
    features, layers = zip(*parts, strict=True)
    return (
        torch.cat(features)[order],
        [torch.cat(each)[order] for each in zip(*layers, strict=True)],
    )


def told_of(run: Run, batch: Batch) -> dict[str, torch.Tensor]:
    """Metadata of a batch on the device: per sample if all dates are input at once, else per image."""
    told, counts = dict(batch.told), batch.dates
    if run.dates is not None:
        if "dates" in told:
            days = np.zeros((len(batch), run.dates, 2), np.int64)
            days[:, : told["dates"].shape[1]] = told["dates"]
            told["dates"] = days
    elif counts is not None:
        there = np.arange(counts.max()) < counts[:, None]
        told = {
            name: values[:, : counts.max()][there]
            if name == "dates"
            else np.repeat(values, counts, axis=0)
            for name, values in told.items()
        }
    elif "dates" in told:
        told["dates"] = told["dates"][:, 0]
    # a blocking copy would wait for all queued work of the device
    return {
        name: torch.from_numpy(values).to(run.device, non_blocking=True)
        for name, values in told.items()
    }


def _series_outputs(run: Run, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Outputs of samples whose dates are input at once; missing dates are zeros."""
    counts = np.ones(len(batch), np.int64) if batch.dates is None else batch.dates
    sample = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(sample)) - np.repeat(np.cumsum(counts) - counts, counts)
    present = torch.from_numpy(np.arange(run.dates) < counts[:, None])
    present = present.to(run.device, non_blocking=True)
    told = {**told_of(run, batch), "present": present}
    if run.prepare.plan.size is not None:
        parts = [(np.arange(len(sample)), fed_images(run, batch))]
    else:
        parts = [
            (np.arange(len(sample)) if where is None else where, run.prepare(*pixels))
            for where, pixels in batch.same_sizes()
        ]
    made, samples = [], []
    for where, images in parts:
        here, row = np.unique(sample[where], return_inverse=True)
        series = images.new_zeros(len(here), run.dates, *images.shape[1:])
        series[torch.from_numpy(row), torch.from_numpy(place[where])] = images
        made.append(run.outputs(series, **{name: values[here] for name, values in told.items()}))
        samples.append(here)
    if len(made) == 1:
        return made[0]
    order = torch.from_numpy(np.argsort(np.concatenate(samples))).to(run.device)
    return _joined(made, order)


def fed_images(run: Run, batch: Batch) -> torch.Tensor:
    """Prepared images (n, C, H, W) of a batch on the device, in its order; they must get one size."""
    groups, order = _prepared(run, batch)
    images = [prepared for _, prepared in groups]
    return images[0] if len(images) == 1 else torch.cat(images)[order]


def _prepared(
    run: Run, batch: Batch
) -> tuple[list[tuple[np.ndarray | None, torch.Tensor]], torch.Tensor | None]:
    """(positions, prepared images) for each size, and the order that restores the batch.

    Positions and order are None if all images have one size.
    """
    groups = [(where, run.prepare(*parts)) for where, parts in batch.same_sizes()]
    if len(groups) == 1:
        return groups, None
    order = torch.from_numpy(np.argsort(np.concatenate([where for where, _ in groups])))
    return groups, order.to(run.device, non_blocking=True)


def moved(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Move the pixels of batches to the device; on a GPU, each copy overlaps with the previous batch."""
    if device.type == "cpu":
        yield from batches
        return
    gpu = torch.get_device_module(device)
    copies = gpu.Stream(device)
    waiting: tuple[Batch, Any] | None = None
    for batch in batches:
        with gpu.stream(copies):
            # pinned memory allows asynchronous copies
            pixels, *further = (
                one.pin_memory().to(device, non_blocking=True)
                for one in (batch.pixels, *batch.further)
            )
            copied = copies.record_event()
        if waiting is not None:
            yield _arrived(*waiting, gpu.current_stream(device))
        waiting = replace(batch, pixels=pixels, further=tuple(further)), copied
    if waiting is not None:
        yield _arrived(*waiting, gpu.current_stream(device))


def _arrived(batch: Batch, copied: Any, working: Any) -> Batch:
    """Let stream `working` wait for the copy, and keep the memory until the stream has used it."""
    working.wait_event(copied)
    for one in (batch.pixels, *batch.further):
        one.record_stream(working)
    return batch


@dataclass(frozen=True)
class Outputs:
    """Outputs of one batch on the host.

    Attributes
    ----------
    features : (n, K) float32 of n images (every date of a time series is an image).
    maps : (n, C, H, W) per layer, or (n, C) of features by depth.
    finite : whether each map is finite.
    dates : (samples,) number of images of each sample; None for single images.
    """

    features: np.ndarray
    maps: Sequence[np.ndarray] = ()
    finite: Sequence[bool] = ()
    dates: np.ndarray | None = None


def fetch(
    features: torch.Tensor, maps: Sequence[torch.Tensor], dates: np.ndarray | None = None
) -> Callable[[], Outputs]:
    """Start to copy outputs to the host; returns a function that waits and returns them as arrays."""
    tensors = [features, *maps, *map(total, maps)]
    wait = _copied(tensors) if features.device.type == "cuda" else lambda: tensors

    def outputs() -> Outputs:
        rows, *rest = (tensor.numpy() for tensor in wait())
        found, totals = rest[: len(maps)], rest[len(maps) :]
        return Outputs(rows, found, [bool(np.isfinite(value)) for value in totals], dates)

    return outputs


def total(values: torch.Tensor) -> torch.Tensor:
    """Sum of all values, finite if all are: one pass on the device instead of three on the host."""
    return values.sum(dtype=torch.float64 if values.dtype == torch.float32 else torch.float32)


def _copied(tensors: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
    hosts = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
    for host, one in zip(hosts, tensors, strict=True):
        host.copy_(one, non_blocking=True)
    done = torch.cuda.Event()
    done.record()

    def wait() -> list[torch.Tensor]:
        done.synchronize()
        return hosts

    return wait
