"""Decode records in parallel and yield them in order, a bounded number at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from permafrost.data.bands.statistics import BandStatistics
from permafrost.data.files.decode import UnreadableImage, check_size
from permafrost.data.files.failures import Failure
from permafrost.data.labels.targets import TargetStatistics
from permafrost.data.records import Decoded, Record, Source
from permafrost.data.store.cleaning import Cleaning
from permafrost.data.store.image_hashes import ImageHashes, hash_images

#: samples per task of a worker
BATCH = 16


@dataclass
class DecodedBatch:
    """Up to `BATCH` decoded images and their properties."""

    positions: list[int]
    decoded: list[Decoded] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    hashes: ImageHashes | None = None
    statistics: list[BandStatistics] | None = None
    """For each modality, as pieces."""
    pixel_counts: np.ndarray | int = 0
    """(K + 1,) labelled pixels of each class, then the ignored ones."""
    targets: list[TargetStatistics] = field(default_factory=list)
    """For each sample with a target raster."""


class Reader:
    """Decodes, cleans, hashes and measures batches of records in worker threads.

    Parameters
    ----------
    measure : whether to compute band statistics (train) or not (val, test).
    """

    def __init__(
        self, source: Source, records: Sequence[Record], cleaning: Cleaning, *, measure: bool
    ) -> None:
        self.source, self.records, self.cleaning = source, records, cleaning
        self.measure = measure

    def __call__(self, positions: list[int], first: int) -> DecodedBatch:
        """Decode the records at `positions`; `first` is the number of the first one in its split."""
        batch = DecodedBatch(positions)
        for position in positions:
            try:
                decoded = self.source.decode(position)
                record = self.records[position]
                if record.image_size is not None and record.image_id is None:
                    check_size(decoded.image.shape[-2:], record.image_size)
                batch.decoded.append(self.cleaning(decoded))
            except UnreadableImage as failure:
                batch.failures.append(Failure.of(self.records[position], failure))
        if not batch.failures:
            batch.hashes = hash_images([decoded.arrays for decoded in batch.decoded])
            if self.measure:
                batch.statistics = self._statistics(batch.decoded, first)
            batch.pixel_counts = self._pixel_counts(batch.decoded)
            rasters = [one.target for one in batch.decoded if one.target is not None]
            batch.targets = [TargetStatistics.of(raster) for raster in rasters]
        return batch

    def _statistics(self, decoded: list[Decoded], first: int) -> list[BandStatistics]:
        """Statistics of the bands of each modality."""
        found = []
        for number, expected in enumerate(self.cleaning.images):
            statistics = BandStatistics.piece(expected.bands, first)
            arrays = [one.arrays[number] for one in decoded]
            filled = [one.filled[number] for one in decoded]
            if all(gone is None for gone in filled) and len({a.shape for a in arrays}) == 1:
                statistics.add_alike(np.stack(arrays))
            else:
                for array, gone in zip(arrays, filled, strict=True):
                    statistics.add(array, gone)
            found.append(statistics)
        return found

    def _pixel_counts(self, decoded: list[Decoded]) -> np.ndarray:
        classes = self.cleaning.classes
        counts = np.zeros(classes + 1, np.int64)
        for one in decoded:
            if one.mask is not None:
                found = np.bincount(one.mask.ravel(), minlength=classes + 1)
                counts[:-1] += found[:classes]
                counts[-1] += found[classes:].sum()
        return counts


def read_chunks(
    read: Callable[[list[int], int], DecodedBatch],
    positions: Sequence[int],
    rows: int,
    workers: int,
    first: int = 0,
) -> Generator[list[DecodedBatch]]:
    """Yield the batches of each chunk of `rows` records, in order.

    Decoding runs ahead of the consumer by at most one chunk and two batches per worker.

    Parameters
    ----------
    read : called with positions and the number of the first one in its split.
    positions : of the records; the first one has the number `first`.
    """
    ahead = -(-rows // BATCH) + 2 * workers
    running: deque[tuple[int, Future]] = deque()
    executor = ThreadPoolExecutor(max_workers=max(1, workers))
    try:
        ready: list[DecodedBatch]
        current, ready = 0, []
        tasks = _tasks(positions, rows)
        following = next(tasks, None)
        while running or following is not None:
            if following is not None and len(running) < ahead:
                start, part = following
                running.append((start // rows, executor.submit(read, part, first + start)))
                following = next(tasks, None)
                continue
            number, future = running.popleft()
            if number != current:
                yield ready
                current, ready = number, []
            ready.append(future.result())
        if ready:
            yield ready
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _tasks(positions: Sequence[int], rows: int) -> Iterator[tuple[int, list[int]]]:
    """Batches that do not cross chunks: (index of the first position, positions)."""
    for chunk in range(0, len(positions), rows):
        for start in range(chunk, min(chunk + rows, len(positions)), BATCH):
            stop = min(start + BATCH, chunk + rows)
            yield start, [int(position) for position in positions[start:stop]]


def locate_all(
    source: Source, records: Sequence[Record], workers: int
) -> tuple[list[Record], list[Failure]]:
    """Records completed with lon and lat from the image files; and unreadable ones."""
    failures: list[Failure] = []

    def place(position: int) -> Record:
        record = records[position]
        try:
            known = record.lon is not None or record.unusable is not None
            return record if known else record.placed(*source.locate(position))
        except UnreadableImage as failure:
            failures.append(Failure.of(record, failure))
            return record

    with ThreadPoolExecutor(max_workers=max(1, workers)) as executor:
        placed = list(executor.map(place, range(len(records))))
    return placed, sorted(failures, key=lambda one: one.sample_id)
