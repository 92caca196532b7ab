"""Batches of maps of a split, kept in memory or prefetched from the store, in random order.

A block is a run of samples in one file. Blocks are drawn in random order, and a window of many
blocks is shuffled as a whole. So the disk is read sequentially, a bounded number of samples is in memory, and
the order depends only on the seed and the store, not on whether the split is kept in memory.
Batches include masks if the split has them; other data of a sample is found by its row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from permafrost.core.memory import available_bytes
from permafrost.probes.dense.decoded import DecodedRows, decoded_rows
from permafrost.probes.dense.map_splits import Layer, MapSplit

if TYPE_CHECKING:
    from permafrost.probes.dense.map_splits import MaskSplit

# size of a window; it and the next one, which is read meanwhile, are in memory at once
WINDOW_BYTES = 64 * 2**20
MIN_BLOCKS = 4


@dataclass(frozen=True)
class Windows:
    """How `count` samples are divided: samples per block, blocks per window."""

    count: int
    block: int
    blocks_per_window: int

    @classmethod
    def of(cls, count: int, block: int, sample_bytes: int, batch: int) -> Windows:
        """Windows of about `WINDOW_BYTES`, of at least `MIN_BLOCKS` blocks and two batches."""
        block = max(1, min(block, max(count, 1)))
        rows = max(MIN_BLOCKS * block, 2 * batch, WINDOW_BYTES // max(1, sample_bytes))
        return cls(count, block, max(1, rows // block))

    def in_order(self) -> list[np.ndarray]:
        """Rows of each window in store order, for evaluation."""
        rows = self.block * self.blocks_per_window
        return [
            np.arange(start, min(start + rows, self.count)) for start in range(0, self.count, rows)
        ]

    def shuffled(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Rows of each window in the order in which `epoch` trains on them."""
        rng = np.random.default_rng([seed, epoch])
        starts = rng.permutation(-(-self.count // self.block)) * self.block
        windows = []
        for first in range(0, len(starts), self.blocks_per_window):
            blocks = [
                np.arange(start, min(start + self.block, self.count))
                for start in starts[first : first + self.blocks_per_window]
            ]
            windows.append(rng.permutation(np.concatenate(blocks)))
        return windows


def batch_sizes(count: int, batch: int) -> list[int]:
    """Sizes of the batches of an epoch; a last batch of a single sample is merged with the one before.

    Batch normalisation fails on a batch of one sample whose maps have one pixel.
    """
    sizes = [batch] * (count // batch) + ([count % batch] if count % batch else [])
    if len(sizes) > 1 and sizes[-1] == 1:
        sizes[-2:] = [sizes[-2] + 1]
    return sizes


# share of free memory that a split may fill; train and validation, and other jobs of the same run,
# measure it at the same time
CPU_SHARE, GPU_SHARE = 0.25, 0.3


@dataclass(frozen=True)
class MapBatch:
    """Samples in the order in which they are used, on the device of the run.

    ``rows`` (B,) their rows in the split; ``maps`` per layer (B, C, H, W) float32, channels last, for all dates
    (B, T, C, H, W); ``masks`` (B, *working size) int64, None if not requested; ``positions`` (B, T) of
    dates, None without dates; ``scored`` whether any pixel of the masks counts.
    """

    rows: np.ndarray
    maps: list[torch.Tensor]
    masks: torch.Tensor | None
    positions: torch.Tensor | None = None
    scored: bool = True

    def fed(self, part: slice = slice(None)) -> list[torch.Tensor]:
        """The head's inputs for some samples: maps and, if all dates are kept, their positions."""
        dates = [] if self.positions is None else [self.positions]
        return [one[part] for one in (*self.maps, *dates)]


@dataclass
class _Held:
    """Rows of a split in memory: maps in the stored type as (n, …, H, W, C); masks at the working size."""

    arrays: list[torch.Tensor]

    def __getitem__(self, places) -> _Held:
        return _Held([array[places] for array in self.arrays])

    def __len__(self) -> int:
        return len(self.arrays[0])

    def followed_by(self, other: _Held) -> _Held:
        pairs = zip(self.arrays, other.arrays, strict=True)
        return _Held([torch.cat(pair) for pair in pairs])


class MapStream[Batch]:
    """Batches of one split, in store order or shuffled.

    Parameters
    ----------
    layers : layers of the maps, in this order.
    batch_size : samples per batch; the last may be smaller, or larger by one.
    keep : keep the split in memory if it fits. The batches are the same in memory or streamed.
    budget : bytes that it may fill; None: a share of the free memory.
    masks : whether batches have masks; the split is then a `MaskSplit`.
    positions : (N, T) positions of the dates of each sample, if the split keeps all dates (`OverDates`).
    scratch : folder for a decoded copy of a split that is not kept, for epochs after the first; None: every epoch
        reads the store.
    """

    #: name of the data in the log
    holds = "maps"

    def __init__(
        self,
        split: MapSplit,
        layers: list[Layer],
        *,
        batch_size: int,
        device: torch.device,
        keep: bool = True,
        budget: int | None = None,
        masks: bool = True,
        positions: np.ndarray | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.split, self.layers, self.device, self.masks = split, layers, device, masks
        self.positions = positions
        self.batch_size = batch_size
        self._shapes, self._dtypes = self._rows_as_held()
        row_bytes = sum(
            int(np.prod(shape)) * torch.empty(0, dtype=dtype).element_size()
            for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
        )
        block = max(split.store.chunk_rows(layer.array) for layer in layers)
        self.windows = Windows.of(len(split), block, row_bytes, batch_size)
        label = f"{split.attributes['backbone']} on {split.attributes['dataset']}"
        label = f"{label}/{split.attributes['split']}"
        what = f"{self.holds} and masks" if masks else self.holds
        self._bytes, self._label = row_bytes * len(split), label
        self.kept = keep and fits(self._bytes, device, label=label, budget=budget, what=what)
        self._whole: _Held | None = None
        self._scratch = scratch
        self._copy: DecodedRows | None = None
        # known here, since asking a GPU about the masks of a batch would wait for it
        self._scored = np.ones(len(split), bool)

    def shuffled(self, seed: int, epoch: int) -> Iterator[Batch]:
        """The batches of one epoch; they depend only on the store, `seed` and `epoch`."""
        return self._batches(self.windows.shuffled(seed, epoch))

    def in_order(self) -> Iterator[Batch]:
        return self._batches(self.windows.in_order())

    def _batches(self, windows: list[np.ndarray]) -> Iterator[Batch]:
        if not windows:
            return iter(())
        if self.kept:
            return self._from_memory(windows)
        if self._scratch is not None:
            self._copy, self._scratch = self._decoded(self._scratch), None
        return self._from_store(windows)

    def _decoded(self, folder: Path) -> DecodedRows | None:
        count, block = len(self.split), self.windows.block
        blocks = (
            self._stored(start, min(start + block, count)) for start in range(0, count, block)
        )
        about = {"needed": self._bytes, "label": self._label}
        return decoded_rows(blocks, self._shapes, self._dtypes, folder, **about)

    def _from_memory(self, windows: list[np.ndarray]) -> Iterator[Batch]:
        if self._whole is None:
            self._whole = self._read(np.arange(len(self.split)), self.device)
        rows, start = np.concatenate(windows), 0
        for size in batch_sizes(len(rows), self.batch_size):
            chosen = rows[start : start + size]
            places = torch.from_numpy(chosen).to(self.device, non_blocking=True)
            yield self._batch(chosen, self._whole[places])
            start += size

    def _from_store(self, windows: list[np.ndarray]) -> Iterator[Batch]:
        """Batches from consecutive windows; the next window is read meanwhile."""
        cpu = torch.device("cpu")
        sizes = iter(batch_sizes(len(self.split), self.batch_size))
        size, rows, rest = next(sizes), np.empty(0, np.int64), None
        with ThreadPoolExecutor(1, thread_name_prefix="maps") as pool:
            pending = pool.submit(self._read, windows[0], cpu)
            for window, following in zip(windows, [*windows[1:], None], strict=True):
                held, start = pending.result(), 0
                if following is not None:
                    pending = pool.submit(self._read, following, cpu)
                while size and start + size - len(rows) <= len(window):
                    stop = start + size - len(rows)
                    part = held[start:stop]
                    # first the remainder of the previous window
                    part = part if rest is None else rest.followed_by(part)
                    yield self._batch(np.concatenate([rows, window[start:stop]]), self._move(part))
                    start, size, rows, rest = stop, next(sizes, 0), rows[:0], None
                if start < len(window):
                    # a copy, so that the memory of its window is freed
                    left = held[torch.arange(start, len(window))]
                    rest = left if rest is None else rest.followed_by(left)
                    rows = np.concatenate([rows, window[start:]])
                del held

    def _batch(self, rows: np.ndarray, held: _Held) -> Batch:
        # (B, …, H, W, C) in memory, viewed as (B, …, C, H, W)
        maps = [x.float().movedim(-1, -3) for x in held.arrays[: len(self.layers)]]
        masks = held.arrays[-1].long() if self.masks else None
        dates = None
        if self.positions is not None:
            dates = torch.from_numpy(self.positions[rows]).to(self.device, non_blocking=True)
        return cast(Batch, MapBatch(rows, maps, masks, dates, bool(self._scored[rows].any())))

    def _move(self, held: _Held) -> _Held:
        if self.device.type == "cpu":
            return held
        return _Held([x.pin_memory().to(self.device, non_blocking=True) for x in held.arrays])

    def _read(self, rows: np.ndarray, device: torch.device) -> _Held:
        """These rows in this order, read block by block in store order."""
        held = _Held(
            [
                torch.empty((len(rows), *shape), dtype=dtype, device=device)
                for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
            ]
        )
        if self._copy is not None:
            self._copy.read(rows.tolist(), held.arrays)
            return held
        order = np.argsort(rows, kind="stable")
        ascending, block = rows[order], self.windows.block
        # a new run after each gap and at every block, so that little is in memory twice
        new = (np.diff(ascending) != 1) | (np.diff(ascending // block) != 0)
        for run in np.split(np.arange(len(rows)), np.flatnonzero(new) + 1):
            start, stop = int(ascending[run[0]]), int(ascending[run[-1]]) + 1
            places = torch.from_numpy(order[run]).to(device)
            for array, read in zip(held.arrays, self._stored(start, stop), strict=True):
                array[places] = read.to(device)
        return held

    def _stored(self, start: int, stop: int) -> Iterator[torch.Tensor]:
        for layer in self.layers:
            stored = self.split.maps(layer, start, stop)
            yield torch.from_numpy(stored).movedim(-3, -1)
        if self.masks:
            split = cast("MaskSplit", self.split)
            masks = split.working_masks(start, stop)
            # an index of None differs from every value
            self._scored[start:stop] = (masks != split.ignore_index).any(axis=(1, 2))
            yield torch.from_numpy(masks.astype(torch_type(masks.dtype), copy=False))

    def _rows_as_held(self) -> tuple[list[tuple[int, ...]], list[torch.dtype]]:
        described = self.split.attributes["arrays"]
        shapes, dtypes = [], []
        for layer in self.layers:
            dates = () if self.positions is None else self.positions.shape[1:]
            shapes.append((*dates, layer.height, layer.width, layer.channels))
            dtypes.append(getattr(torch, described[layer.array][1]))
        if self.masks:
            shapes.append(self.split.working_size)
            dtypes.append(getattr(torch, str(torch_type(cast("MaskSplit", self.split).mask_dtype))))
        return shapes, dtypes


def torch_type(dtype: np.dtype) -> np.dtype:
    """A type of torch tensors that can represent every value of `dtype`."""
    return np.dtype(
        {"uint16": "int32", "uint32": "int64", "uint64": "int64"}.get(str(dtype), dtype)
    )


def allowed_bytes(device: torch.device, budget: int | None) -> tuple[int, str]:
    """Bytes that data may fill in the memory of `device`: `budget`, or a share of what is free; and which it is."""
    if budget is not None:
        return budget, "allowed"
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * GPU_SHARE), "of free GPU memory"
    free = available_bytes()
    if free is None:
        return 0, "(free memory unknown)"
    return int(free * CPU_SHARE), "of free memory"


def fits(
    needed: int,
    device: torch.device,
    *,
    label: str,
    budget: int | None = None,
    what: str = "maps and masks",
) -> bool:
    """Whether `needed` bytes fit into the memory of `device`; logs the reason to standard error.

    `budget` (bytes) replaces the share of the free memory.
    """
    allowed, source = allowed_bytes(device, budget)
    kept = needed <= allowed
    how = "kept in memory" if kept else "streamed from the store"
    sizes = f"{needed / 2**20:.0f} MiB of {what}, {allowed / 2**20:.0f} MiB {source}"
    print(f"{label}: {how} ({sizes})", file=sys.stderr, flush=True)
    return kept
