"""Reading an image store ahead of the computation: decoded by threads, in order, within a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from permafrost.data.image_store import ImageStore


@dataclass(frozen=True)
class Batch:
    """Consecutive images of those read, `start` the first's place among them.

    ``pixels`` (n, bands, H, W) stored values; true sizes in `heights`, `widths`.
    """

    start: int
    pixels: torch.Tensor
    heights: np.ndarray
    widths: np.ndarray

    def __len__(self) -> int:
        return len(self.heights)

    def same_sizes(self) -> Iterator[tuple[np.ndarray | None, torch.Tensor]]:
        """(positions, images cropped to their true size) per size; positions None if there is one."""
        sizes = np.stack([self.heights, self.widths], axis=1)
        kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
        for i, (height, width) in enumerate(kinds):
            cropped = self.pixels[:, :, :height, :width]
            if len(kinds) == 1:
                yield None, cropped
            else:
                where = np.flatnonzero(kind.reshape(-1) == i)
                yield where, cropped[torch.from_numpy(where)]


def read_batches(
    store: ImageStore,
    bands: list[int],
    *,
    batch_size: int,
    workers: int,
    pin: bool = False,
    rows: np.ndarray | None = None,
) -> Iterator[Batch]:
    """The images of a store in order, `batch_size` at a time, decoded ahead by `workers` threads.

    Parameters
    ----------
    bands : rows of the stored images to take, in this order.
    pin : put batches into page-locked memory, from which a GPU can fetch them while it computes.
    rows : ascending positions of the images to read; all of them by default.
    """
    heights, widths = store.heights, store.widths
    step = store.store.chunk_rows("images")
    starts = range(0, len(store), step)
    if rows is not None:
        heights, widths = heights[rows], widths[rows]
        starts = np.unique(rows // step * step).tolist()

    def read(start: int) -> torch.Tensor:
        pixels = store.store.read("images", start, min(start + step, len(store)))
        if rows is not None:
            pixels = pixels[
                rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + step)] - start
            ]
        return torch.from_numpy(_take(pixels, bands))

    for start, pixels in _rebatch(ahead(read, starts, workers), batch_size):
        stop = start + len(pixels)
        yield Batch(
            start, pixels.pin_memory() if pin else pixels, heights[start:stop], widths[start:stop]
        )


def _take(pixels: np.ndarray, bands: list[int]) -> np.ndarray:
    if bands == list(range(pixels.shape[1])):
        return pixels
    return pixels[:, bands]


def ahead(function, arguments, workers: int) -> Iterator:
    """``map(function, arguments)`` by threads, with at most ``workers + 1`` results waiting."""
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


def _rebatch(chunks, size: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Cut and join chunks of any length into batches of `size` (the last may be smaller)."""
    start, held, count = 0, [], 0
    for chunk in chunks:
        held.append(chunk)
        count += len(chunk)
        while count >= size:
            joined = held[0] if len(held) == 1 else torch.cat(held)
            yield start, joined[:size]
            start, count = start + size, count - size
            held = [joined[size:]] if count else []
    if count:
        yield start, held[0] if len(held) == 1 else torch.cat(held)
