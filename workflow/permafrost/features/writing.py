"""Write a feature store in the background: in order, in whole chunks, with checks."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numcodecs.zstd import Zstd

from permafrost.core.errors import PermafrostError
from permafrost.core.stores import StoreWriter, write_store
from permafrost.features.health import CollapseGate, check_finite

if TYPE_CHECKING:
    from permafrost.data.store.image_store import ImageStore
    from permafrost.features.maps import MapWriter

ROWS_PER_CHUNK = 1024
# Measured on 256 px images with zstd level 1: maps after a ReLU (ResNet-18, half zeros) shrink to 56 %
# and are read at 430 instead of 790 MB/s per core, still far faster than any head trains. Other maps
# (MobileNetV2) shrink to 92 % only and are read at half the speed. Byte shuffling made both slower and
# neither smaller. Embeddings: dense ones shrink to 92 % and are read in three times the CPU time.
WORTH_COMPRESSING, ROWS_TRIED = 0.75, 8


def worth_compressing(values: np.ndarray) -> bool:
    """Whether zstd shrinks features or maps (n, …) enough to justify slower reading, by the first samples."""
    tried = np.ascontiguousarray(values[:ROWS_TRIED])
    return len(Zstd(level=1).encode(tried)) < WORTH_COMPRESSING * tried.nbytes


class FeatureWriter:
    """Writes batches of features in order, in a background thread.

    Parameters
    ----------
    writer : of the open store.
    sample_ids : names of all samples.
    dtype : type on disk, ``float32`` or ``float16``.
    where : the backbone's name in errors.
    maps : writer of feature maps; None without maps.
    name : of the array. Features of a sample may have several axes; the last one counts features.
    dimension : number of features, known from an earlier split; 0 before the first.
    dates : T for time series, whose features are written as (N, T, K), with zeros for missing
        dates; None for single images.
    span : [first, stop) of a part's samples. Batches begin with the first and continue until the
        writer is `complete`; see `Rows`. None: all samples.
    compress : whether to compress the features; None: decided by the first batch.
    """

    def __init__(
        self,
        writer: StoreWriter,
        sample_ids,
        dtype: str,
        where: str,
        maps: MapWriter | None = None,
        name: str = "embeddings",
        dimension: int = 0,
        dates: int | None = None,
        span: tuple[int, int] | None = None,
        compress: bool | None = None,
    ) -> None:
        self._dates, self._span, self._compress = dates, span, compress
        self._writer, self._count, self._dtype = writer, len(sample_ids), np.dtype(dtype)
        self._name = name
        self._sample_ids, self._where, self._maps = sample_ids, where, maps
        self._rows: Rows | None = None
        self._taken = span[0] if span else 0
        self.gate = CollapseGate()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._pending: Future | None = None
        self.dimension = dimension

    def put(self, fetch) -> None:
        """Queue one batch; `fetch` returns its `running.Outputs` and may wait for the device.

        Waits for the previous batch, so at most two are in memory.

        Raises
        ------
        PermafrostError : features of the previous batch are not finite, or their number has
            changed.
        """
        self._wait()
        self._pending = self._pool.submit(self._take, fetch)

    @property
    def complete(self) -> bool:
        """Whether all rows of the part have arrived; waits for the previous batch."""
        self._wait()
        arrays = (
            [] if self._rows is None else [self._rows, *(self._maps.arrays if self._maps else ())]
        )
        return bool(arrays) and all(rows.complete for rows in arrays)

    def finish(self) -> list[str]:
        """Write the remaining rows; returns warnings (gates)."""
        self._wait()
        if self._rows is None:
            axes = () if self._dates is None else (self._dates,)
            self._begin((*axes, self.dimension), compress=False)
        self._rows.finish()
        if self._maps is not None:
            self._maps.finish()
        return self.gate.gates()

    def close(self) -> None:
        """Stop the background thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _wait(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def _take(self, fetch) -> None:
        outputs = fetch()
        rows, first = outputs.features, self._taken
        self._check_width(rows.shape[-1], first, len(rows))
        self.gate.update(rows.reshape(-1, rows.shape[-1]))
        if self._dates is not None:
            rows = by_sample(rows, outputs.dates, self._dates)
        self._check(rows.reshape(len(rows), -1), first)
        if self._rows is None:
            stored = rows.astype(self._dtype, copy=False)
            compress = worth_compressing(stored) if self._compress is None else self._compress
            self._begin(rows.shape[1:], compress=compress)
        self._rows.put(rows)
        if self._maps is not None:
            maps = outputs.maps
            if self._dates is not None:
                maps = [by_sample(one, outputs.dates, self._dates) for one in maps]
            self._maps.put(first, maps, outputs.finite)
        self._taken += len(rows)

    def _begin(self, shape: tuple[int, ...], *, compress: bool) -> None:
        self.dimension = shape[-1]
        self._rows = feature_rows(
            self._writer,
            self._name,
            (self._count, *shape),
            self._dtype,
            span=self._span,
            compress=compress,
        )

    def _check_width(self, width: int, first: int, count: int) -> None:
        if self.dimension and width != self.dimension:
            raise PermafrostError(
                f"the features of an image are {width} numbers, and those of earlier images are"
                f" {self.dimension}",
                where=f"{self._where}, images {first + 1} to {first + count}",
                remedy="return the same number of features for every batch",
            )

    def _check(self, rows: np.ndarray, first: int) -> None:
        remedy = (
            "look for NaN or infinity in the dataset's pixels, for a normalisation that the weights were"
            " not made for, and at precision: fp16, which overflows early"
        )
        check_finite(
            rows, first, self._sample_ids, where=f"{self._where}: pooled output", remedy=remedy
        )
        if self._dtype == np.float16:
            with np.errstate(over="ignore"):
                stored = rows.astype(np.float16)
            check_finite(
                stored,
                first,
                self._sample_ids,
                where=f"{self._where}: embeddings as float16",
                remedy="use extraction.dtype: float32, these features exceed what float16 can hold",
            )


def feature_rows(
    writer: StoreWriter,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    *,
    span: tuple[int, int] | None,
    compress: bool,
) -> Rows:
    """Create the array `name` of features, whose last axis counts them; see `Rows`."""
    together = ROWS_PER_CHUNK // max(1, math.prod(shape[1:-1]))
    rows = max(1, min(together, shape[0]))
    array = writer.array(name, shape, dtype, rows_per_chunk=rows, compress=compress)
    return Rows(array, rows, span)


def by_sample(rows: np.ndarray, counts: np.ndarray, most: int) -> np.ndarray:
    """Reshape consecutive rows (sum of counts, …) to (n, most, …), padded with zeros per sample."""
    spread = np.zeros((len(counts), most, *rows.shape[1:]), rows.dtype)
    spread[np.arange(most) < counts[:, None]] = rows
    return spread


def write_labels(writer: StoreWriter, labels: np.ndarray | None) -> None:
    """Write the array ``labels`` in one chunk; nothing if there are none."""
    if labels is not None:
        rows = max(1, len(labels))
        writer.array("labels", labels.shape, labels.dtype, rows_per_chunk=rows)[:] = labels


def copy_samples(writer: StoreWriter, store: ImageStore) -> None:
    """Copy labels and sample table from the image store to the feature store."""
    write_labels(writer, store.labels())
    writer.samples(store.samples)


if TYPE_CHECKING:

    @overload
    def feature_store(
        path, *, fingerprint: str
    ) -> contextlib.AbstractContextManager[StoreWriter]: ...

    @overload
    def feature_store[W: StoreWriter](
        path, *, fingerprint: str, kind: type[W]
    ) -> contextlib.AbstractContextManager[W]: ...


@contextlib.contextmanager
def feature_store(
    path, *, fingerprint: str, kind: type[StoreWriter] = StoreWriter
) -> Iterator[Any]:
    """Like `write_store`, but a full disk raises a `PermafrostError` that says so."""
    try:
        with write_store(path, fingerprint=fingerprint, kind=kind) as writer:
            yield writer
    except Exception as error:
        full = _out_of_space(error)
        if full is None:
            raise
        raise PermafrostError(
            f"the feature store cannot be written: {full.strerror}",
            where=path,
            remedy="free space (or point `results` elsewhere) and run snakemake again;"
            " no partial file was left",
        ) from error


def _out_of_space(error: BaseException | None) -> OSError | None:
    """The error "no space left" (or quota exceeded) in the chain of causes; None without one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return error
        error = error.__cause__ or error.__context__
    return None


class Rows:
    """Buffers rows of one array of a store and writes them in blocks.

    Parameters
    ----------
    array : the zarr array; its first axis counts samples.
    block : rows per block: a chunk or a shard, so that each is written once.
    span : [first, stop) of a part's rows. It gets rows from the first on, also beyond `stop`, and
        writes the blocks that begin within the span. None: all rows.
    """

    def __init__(self, array, block: int, span: tuple[int, int] | None = None) -> None:
        self._array = array
        self._buffer = np.empty((block, *array.shape[1:]), array.dtype)
        first, last = (0, array.shape[0]) if span is None else span
        self._written = -(-first // block) * block
        self._end = max(self._written, min(-(-last // block) * block, array.shape[0]))
        self._skipped, self._held = self._written - first, 0

    @property
    def complete(self) -> bool:
        """Whether all rows to be written have arrived."""
        return self._written + self._held >= self._end

    def put(self, rows: np.ndarray) -> None:
        """Add the next rows (n, …), converted to the array's type."""
        skipped = min(self._skipped, len(rows))
        self._skipped -= skipped
        rows = rows[skipped:][: self._end - self._written - self._held]
        while len(rows):
            part = rows[: len(self._buffer) - self._held]
            self._buffer[self._held : self._held + len(part)] = part
            self._held += len(part)
            rows = rows[len(part) :]
            if self._held == len(self._buffer):
                self._flush()

    def finish(self) -> None:
        """Write the remaining rows; raises RuntimeError if rows are missing."""
        if not self.complete:
            lacking = self._end - self._written - self._held
            raise RuntimeError(
                f"{lacking} of {self._array.shape[0]} rows of {self._array.name} were not written"
            )
        self._flush()

    def _flush(self) -> None:
        if self._held:
            self._array[self._written : self._written + self._held] = self._buffer[: self._held]
            self._written, self._held = self._written + self._held, 0
