"""Read an image store in batches, prefetched by threads, in order."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import torch

from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore
from permafrost.features.metadata import Telling


@dataclass(frozen=True)
class Batch:
    """Consecutive samples.

    In time series, every date is an image; the dates of a sample follow each other.

    Attributes
    ----------
    start : position of the first sample among those read.
    pixels : (n, bands, H, W) stored values of n images, padded to one size.
    heights, widths : (n,) sizes of the images without padding, in pixels.
    further : pixels of each further modality, which have one size.
    dates : (samples,) number of images of each sample; None for single images.
    told : metadata of each sample, see `metadata.Telling.of`.
    """

    start: int
    pixels: torch.Tensor
    heights: np.ndarray
    widths: np.ndarray
    further: tuple[torch.Tensor, ...] = ()
    dates: np.ndarray | None = None
    told: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.heights if self.dates is None else self.dates)

    def same_sizes(self) -> Iterator[tuple[np.ndarray | None, tuple[torch.Tensor, ...]]]:
        """Group the images by size: (positions, pixels of each modality without padding).

        Positions are None if all images have one size.
        """
        sizes = np.stack([self.heights, self.widths], axis=1)
        kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
        for i, (height, width) in enumerate(kinds):
            parts = (self.pixels[:, :, :height, :width], *self.further)
            if len(kinds) == 1:
                yield None, parts
            else:
                where = np.flatnonzero(kind.reshape(-1) == i)
                yield where, tuple(part[torch.from_numpy(where)] for part in parts)


def read_batches(
    store: ImageStore,
    bands: list[int],
    *,
    batch_size: int,
    workers: int,
    rows: np.ndarray | None = None,
    telling: Telling | None = None,
) -> Iterator[Batch]:
    """Iterate over the samples of a store in order, prefetched by `workers` threads.

    Parameters
    ----------
    bands : positions in the card of the bands to read; those of a modality are consecutive.
    batch_size : images per batch. For time series: as many samples as fit, at least one.
    rows : ascending positions of the samples to read; None: all.
    telling : metadata to add to the batches.
    """
    reader = SampleReader(store, bands, telling=telling)
    step = store.store.chunk_rows("images")
    every = np.arange(len(store)) if rows is None else rows
    starts = np.unique(every // step * step).tolist()

    def read(start: int) -> list[torch.Tensor]:
        chosen = every[np.searchsorted(every, start) : np.searchsorted(every, start + step)]
        read = reader.stored(start, min(start + step, len(store)))
        whole = len(chosen) == len(read[0])
        return [torch.from_numpy(one if whole else one[chosen - start]) for one in read]

    size = max(1, batch_size // reader.most_dates)
    for start, stored in _rebatch(ahead(read, starts, workers), size):
        yield reader.batch(start, every[start : start + len(stored[0])], stored)


class SampleReader:
    """Reads the input bands of a backbone from all modalities, and builds batches.

    Parameters
    ----------
    store : image store of a split.
    bands : positions of the bands in the card.
    telling : metadata to add to the batches.

    Raises
    ------
    PermafrostError : the modalities of the bands differ in their numbers of dates.
    """

    def __init__(
        self, store: ImageStore, bands: list[int], *, telling: Telling | None = None
    ) -> None:
        self._store, self._telling = store, telling or Telling()
        self.modalities = [one for one in store.modalities if set(one.bands) & set(bands)]
        # if all input channels are constant, images are read only for their number and size
        self.modalities = self.modalities or store.modalities[:1]
        self._bands = [
            [position - one.bands.start for position in bands if position in one.bands]
            for one in self.modalities
        ]
        self._series = [one for one in self.modalities if one.dates is not None]
        self._counts = store.date_counts(self._series[0] if self._series else self.modalities[0])
        for other in self._series[1:]:
            if (store.date_counts(other) != self._counts).any():
                raise PermafrostError(
                    f"the series of {self._series[0].name} and {other.name} differ in their numbers of dates,"
                    " so their images cannot be fed together",
                    where=store.path,
                    remedy="name bands of one of them under input.bands of the backbone, or select them in"
                    " the dataset's entry",
                )
        self.heights, self.widths = store.sizes(self.modalities[0])

    @property
    def samples(self) -> pa.Table:
        """Sample table of the store."""
        return self._store.samples

    @property
    def dates(self) -> str | None:
        """Column of the sample table with the dates of the images; None for single images."""
        return self._series[0].dates if self._series else None

    @property
    def most_dates(self) -> int:
        """Largest number of images of a sample; 1 for single images."""
        return self._store.store.shape(self._series[0].array)[1] if self._series else 1

    @functools.cached_property
    def told(self) -> dict[str, np.ndarray]:
        """Metadata of every sample of the store, see `metadata.Telling.of`."""
        return self._telling.of(self)

    @property
    def counts(self) -> np.ndarray:
        """(N,) number of images of each sample."""
        return self._counts

    def stored(self, start: int, stop: int) -> list[np.ndarray]:
        """Samples [start, stop) of each modality: (n, bands, H, W), with dates (n, T, bands, H, W)."""
        read = []
        for one, bands in zip(self.modalities, self._bands, strict=True):
            pixels = self._store.store.read(one.array, start, stop)
            every = bands == list(range(pixels.shape[-3]))
            read.append(pixels if every else pixels[..., bands, :, :])
        return read

    def batch(self, start: int, rows: np.ndarray, stored: Sequence[torch.Tensor]) -> Batch:
        """Build a batch from the samples at `rows` of the store, read by `stored`."""
        heights, widths = self.heights[rows], self.widths[rows]
        told = {name: values[rows] for name, values in self.told.items()}
        if not self._series:
            return Batch(start, stored[0], heights, widths, tuple(stored[1:]), told=told)
        counts = self._counts[rows]
        there = torch.from_numpy(np.arange(self.most_dates) < counts[:, None])
        repeats = torch.from_numpy(counts)
        first, *further = (
            # a modality without dates repeats its image for every date of the sample
            pixels[there] if one.dates is not None else pixels.repeat_interleave(repeats, dim=0)
            for one, pixels in zip(self.modalities, stored, strict=True)
        )
        return Batch(
            start,
            first,
            np.repeat(heights, counts),
            np.repeat(widths, counts),
            tuple(further),
            counts,
            told,
        )


def ahead(function, arguments, workers: int) -> Iterator:
    """``map(function, arguments)`` by threads, with at most ``workers + 1`` pending results."""
    with ThreadPoolExecutor(workers, thread_name_prefix="reader") as pool:
        pending: deque = deque()
        try:
            for argument in arguments:
                pending.append(pool.submit(function, argument))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _rebatch(chunks, size: int) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """Regroup chunks (lists of tensors) into batches of `size`; the last may be smaller."""
    start, held, count = 0, [], 0
    for chunk in chunks:
        held.append(chunk)
        count += len(chunk[0])
        while count >= size:
            joined = (
                held[0]
                if len(held) == 1
                else [torch.cat(parts) for parts in zip(*held, strict=True)]
            )
            yield start, [part[:size] for part in joined]
            start, count = start + size, count - size
            held = [[part[size:] for part in joined]] if count else []
    if count:
        yield start, held[0] if len(held) == 1 else [torch.cat(p) for p in zip(*held, strict=True)]
