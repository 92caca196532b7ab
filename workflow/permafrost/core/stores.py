"""A store: a zarr v3 group that is written whole, sealed, and checked when it is opened.

Layout of a store directory::

    zarr.json          the group; its attributes hold the seal (below) and what the writer recorded
    <array>/…          zarr arrays, each chunk compressed and followed by its CRC-32C
    samples.parquet    one row per sample, in the order of the arrays' first axis

The seal is written last: ``complete``, ``fingerprint`` of the plan, number of samples, the shape and
type of every array and the SHA-256 of ``samples.parquet``. A store without a seal is not a store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .errors import PermafrostError, first_line
from .identity import file_digest
from .outputs import whole_directory
from .tables import check_fingerprint

SAMPLES = "samples.parquet"
_SEAL = frozenset({"fingerprint", "count", "arrays", "samples_sha256", "complete"})
_REMEDY = "delete the store and run snakemake again"


class StoreWriter:
    """Arrays and samples of a store that is being written; use `write_store`."""

    def __init__(self, folder: Path) -> None:
        import zarr

        from .storage import StoppableStorage

        self.folder = folder
        self.storage = StoppableStorage(folder)
        self.group = zarr.open_group(self.storage, mode="w", zarr_format=3)
        self.attributes: dict = {}
        self._arrays: dict = {}

    def array(self, name: str, shape, dtype, *, rows_per_chunk: int, compress: bool = True):
        """A new array, chunked along its first axis; assign to slices of it. Returns a zarr array."""
        from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

        filters = [ZstdCodec(level=1)] if compress else []
        shape = tuple(int(size) for size in shape)
        self._arrays[name] = self.group.create_array(
            name,
            shape=shape,
            dtype=np.dtype(dtype),
            chunks=(
                max(1, min(int(rows_per_chunk), max(shape[0], 1))),
                *(max(1, s) for s in shape[1:]),
            ),
            serializer=BytesCodec(),
            compressors=[*filters, Crc32cCodec()],
            fill_value=0,
            # a chunk that was never written must not read as zeros
            config={"write_empty_chunks": True},
        )
        return self._arrays[name]

    def samples(self, table: pa.Table) -> None:
        """The per-sample table (column ``sample_id`` at least), in the order of the arrays."""
        pq.write_table(table, self.folder / SAMPLES, compression="zstd")

    def seal(self, fingerprint: str) -> None:
        """Record what must be found on opening. Called by `write_store`."""
        count = pq.read_metadata(self.folder / SAMPLES).num_rows
        arrays = {name: [list(a.shape), str(a.dtype)] for name, a in sorted(self._arrays.items())}
        for name, (shape, _) in arrays.items():
            if shape[0] != count:
                raise ValueError(f"array {name} has {shape[0]} rows, samples.parquet {count}")
            if _stored_chunks(self.folder / name) != self._arrays[name].nchunks:
                raise ValueError(f"array {name} has rows that were never written")
        self.group.attrs.update(
            {
                **self.attributes,
                "fingerprint": fingerprint,
                "count": count,
                "arrays": arrays,
                "samples_sha256": file_digest(self.folder / SAMPLES),
                "complete": True,
            }
        )


@contextlib.contextmanager
def write_store(path, *, fingerprint: str) -> Iterator[StoreWriter]:
    """Write a store whole: on an error, or a kill, nothing stands at `path`."""
    with whole_directory(path) as folder:
        writer = StoreWriter(folder)
        try:
            yield writer
            writer.seal(fingerprint)
        except BaseException:
            writer.storage.stop()
            raise


class Store:
    """A sealed store, opened for reading.

    Parameters
    ----------
    path : the store's directory.
    expect : fingerprint of the plan that the reader works from; another one is refused.

    Raises
    ------
    PermafrostError : missing, unsealed, damaged, or made from another plan; names the store.
    """

    def __init__(self, path, *, expect: str | None = None) -> None:
        self.path = Path(path)
        self._group, self.attributes = self._open()
        if not self.attributes.keys() >= _SEAL:
            raise self._refuse("the store was never completed")
        self.fingerprint: str = self.attributes["fingerprint"]
        if expect is not None:
            check_fingerprint(self.path, self.fingerprint, expect)
        self._check()

    def __len__(self) -> int:
        return self.attributes["count"]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes["arrays"]

    def samples(self, columns=None) -> pa.Table:
        """The per-sample table."""
        return pq.read_table(self.path / SAMPLES, columns=columns, partitioning=None)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.attributes["arrays"][name][0])

    def chunk_rows(self, name: str) -> int:
        """Number of samples in a chunk of the array: the unit that is cheap to read."""
        return self._group[name].chunks[0]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows [start, stop) of an array; a damaged chunk is an error that names store and rows."""
        if name not in self:
            raise self._refuse(
                f"the store has no array {name!r} ({', '.join(self.attributes['arrays'])})"
            )
        stop = len(self) if stop is None else stop
        try:
            return np.asarray(self._group[name][start:stop])
        except MemoryError:
            raise
        except Exception as error:
            raise self._refuse(
                f"rows {start} to {stop} of {name!r} are damaged ({first_line(error)})"
            ) from error

    def _open(self):
        import zarr

        if not self.path.is_dir():
            raise PermafrostError(
                "the store does not exist", where=self.path, remedy="run snakemake"
            )
        try:
            group = zarr.open_group(self.path, mode="r", zarr_format=3)
            return group, dict(group.attrs)
        except Exception as error:
            raise self._refuse(f"not a readable zarr group ({first_line(error)})") from error

    def _check(self) -> None:
        samples = self.path / SAMPLES
        if not samples.is_file() or file_digest(samples) != self.attributes["samples_sha256"]:
            raise self._refuse(f"{SAMPLES} is missing or damaged")
        for name, (shape, dtype) in self.attributes["arrays"].items():
            try:
                array = self._group[name]
                same = list(array.shape) == shape and str(array.dtype) == dtype
                # counting files is cheap and finds what a lost chunk would hide behind fill values
                complete = _stored_chunks(self.path / name) == array.nchunks
            except Exception as error:
                raise self._refuse(f"array {name!r} is missing or damaged") from error
            if not (same and complete):
                raise self._refuse(
                    f"array {name!r} is not what was written (shape, type or chunks)"
                )

    def _refuse(self, problem: str) -> PermafrostError:
        return PermafrostError(problem, where=self.path, remedy=_REMEDY)


def _stored_chunks(folder: Path) -> int:
    chunks = folder / "c"
    return sum(1 for entry in chunks.rglob("*") if entry.is_file()) if chunks.is_dir() else 0
