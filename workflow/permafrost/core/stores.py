"""A store: a zarr v3 group that is written whole, sealed, and checked when it is opened.

Layout of a store directory::

    zarr.json          the group; its attributes hold the seal (below) and what the writer recorded
    <array>/…          zarr arrays, each chunk followed by its CRC-32C, most of them compressed; many small
                       chunks are concatenated in one file, a shard, with a checked index at its end
    samples.parquet    one row per sample, in the order of the arrays' first axis

The seal is written last: ``complete``, ``fingerprint`` of the plan, number of samples, the shape and
type of every array, the SHA-256 of ``samples.parquet`` and that of all attributes. A store without a seal is
not a store. The attribute ``split``, where a writer records it, is checked by readers that expect one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import file_digest
from permafrost.core.outputs import Group, whole_directory
from permafrost.core.tables import check_fingerprint
from permafrost.core.versions import imported_versions

SAMPLES = "samples.parquet"
_SEAL = frozenset({"fingerprint", "count", "arrays", "samples_sha256", "complete"})
DIGEST = "attributes_sha256"
# what a shard's index says of a chunk that was never written
_NOWHERE = np.uint64(2**64 - 1)
_REMEDY = "delete the store and run snakemake again"
PARTS_REMEDY = "delete the folder of the parts and run snakemake again"
# of file systems that know no links, or no more of this file
_NO_LINK = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


class StoreWriter:
    """Arrays and samples of a store that is being written; use `write_store`."""

    def __init__(self, folder: Path) -> None:
        import zarr

        from permafrost.core.storage import StoppableStorage

        self.folder = folder
        self.storage = StoppableStorage(folder)
        self.group = zarr.open_group(self.storage, mode="w", zarr_format=3)
        self.attributes: dict = {}
        self._arrays: dict = {}

    def array(
        self,
        name: str,
        shape,
        dtype,
        *,
        rows_per_chunk: int,
        rows_per_shard: int | None = None,
        compress: bool = True,
    ):
        """A new array, chunked along its first axis; assign to slices of it. Returns a zarr array.

        Parameters
        ----------
        rows_per_chunk : samples that are read and checked together.
        rows_per_shard : samples per file, a multiple of `rows_per_chunk`; None: every chunk is a file.
            Assign whole shards: one that is filled bit by bit is written anew each time.
        compress : with zstd, level 1.
        """
        from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

        filters = [ZstdCodec(level=1)] if compress else []
        shape = tuple(int(size) for size in shape)
        rest = tuple(max(1, size) for size in shape[1:])
        rows = max(1, min(int(rows_per_chunk), max(shape[0], 1)))
        shards = None
        if rows_per_shard is not None:
            if rows_per_shard % rows_per_chunk:
                raise ValueError(f"{rows_per_shard} rows are not whole chunks of {rows_per_chunk}")
            # no more than hold all samples
            shards = (
                rows * min(rows_per_shard // rows_per_chunk, max(1, -(-shape[0] // rows))),
                *rest,
            )
        self._arrays[name] = self.group.create_array(
            name,
            shape=shape,
            dtype=np.dtype(dtype),
            chunks=(rows, *rest),
            shards=shards,
            serializer=BytesCodec(),
            compressors=[*filters, Crc32cCodec()],
            fill_value=0,
            # a chunk that was never written must not read as zeros
            config={"write_empty_chunks": True},
        )
        return self._arrays[name]

    def adopt(self, name: str, folder: Path, files: Iterable[str]) -> None:
        """Take chunks of an array from files of another store of its shape, by links where there can be some.

        Raises
        ------
        PermafrostError : a chunk is here already, or the other array has another shape, type or chunks.
        """
        own = self.folder / name
        if name not in self._arrays:
            own.mkdir()
            shutil.copyfile(folder / "zarr.json", own / "zarr.json")
            self._arrays[name] = self.group[name]
        elif (folder / "zarr.json").read_bytes() != (own / "zarr.json").read_bytes():
            raise PermafrostError(
                f"its array {name!r} has another shape or type than the same array of the parts before",
                where=folder.parent,
                remedy=PARTS_REMEDY,
            )
        for file in files:
            (own / file).parent.mkdir(parents=True, exist_ok=True)
            try:
                link_or_copy(folder / file, own / file)
            except FileExistsError:
                raise PermafrostError(
                    f"its array {name!r} holds rows that another part holds, too",
                    where=folder.parent,
                    remedy=PARTS_REMEDY,
                ) from None

    def samples(self, table: pa.Table) -> None:
        """The per-sample table (column ``sample_id`` at least), in the order of the arrays."""
        pq.write_table(table, self.folder / SAMPLES, compression="zstd")

    def seal(self, fingerprint: str) -> None:
        """Record what must be found on opening. Called by `write_store`."""
        if not (self.folder / "zarr.json").exists():
            # zarr recreates removed folders without their content
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder))
        count = pq.read_metadata(self.folder / SAMPLES).num_rows
        arrays = {name: [list(a.shape), str(a.dtype)] for name, a in sorted(self._arrays.items())}
        for name, (shape, _) in arrays.items():
            if shape[0] != count:
                raise ValueError(f"array {name} has {shape[0]} rows, samples.parquet {count}")
            if _stored_chunks(self.folder / name, self._arrays[name]) != self._arrays[name].nchunks:
                raise ValueError(f"array {name} has rows that were never written")
        sealed = {
            **self.attributes,
            "versions": {**self.attributes.get("versions", {}), **imported_versions()},
            "fingerprint": fingerprint,
            "count": count,
            "arrays": arrays,
            "samples_sha256": file_digest(self.folder / SAMPLES),
            "complete": True,
        }
        self.group.attrs.update({**sealed, DIGEST: attributes_digest(sealed)})


@contextlib.contextmanager
def write_store[W: StoreWriter](
    path, *, fingerprint: str, group: Group | None = None, kind: type[W] = StoreWriter
) -> Iterator[W]:
    """Write a store atomically: after an error or a kill, `path` does not exist.

    With a `group` of `outputs.together`, it appears with the others of the group.
    """
    with whole_directory(path, group=group) as folder:
        writer = kind(folder)
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
    split : name of the split that the reader expects; a store of another one is refused.

    Raises
    ------
    PermafrostError : missing, unsealed, damaged, altered, of another plan or split; names the store.
    """

    def __init__(self, path, *, expect: str | None = None, split: str | None = None) -> None:
        self.path = Path(path)
        self._arrays: dict = {}
        if not self.path.is_dir():
            raise PermafrostError(
                "the store does not exist", where=self.path, remedy="run snakemake"
            )
        with self._reading("not a readable zarr group"):
            self._file = self._group_file()
            self._group, self.attributes = self._open()
        if not self.attributes.keys() >= _SEAL:
            raise self._refuse("the store was never completed")
        self.fingerprint: str = self.attributes["fingerprint"]
        if expect is not None:
            check_fingerprint(self.path, self.fingerprint, expect)
        if self.attributes.get(DIGEST) != attributes_digest(self.attributes):
            raise self._refuse("its attributes are not what was written")
        if split is not None and self.attributes.get("split", split) != split:
            raise self._refuse(
                f"it holds the split {self.attributes['split']!r}, where {split!r} is expected"
            )
        self._check()

    def __len__(self) -> int:
        return self.attributes["count"]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes["arrays"]

    def samples(self, columns=None) -> pa.Table:
        """The per-sample table, or those of some `columns` that it has."""
        with (
            self._reading(f"{SAMPLES} is missing or damaged"),
            pq.ParquetFile(self.path / SAMPLES) as file,
        ):
            table = file.read(columns=columns)
            self._refuse_replaced()
        return table

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.attributes["arrays"][name][0])

    def chunk_rows(self, name: str) -> int:
        """Number of samples in a chunk of the array: the unit that is cheap to read."""
        return self._array(name).chunks[0]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows [start, stop) of an array; a damaged chunk is an error that names store and rows."""
        if name not in self:
            raise self._refuse(
                f"the store has no array {name!r} ({', '.join(self.attributes['arrays'])})"
            )
        stop = len(self) if stop is None else stop
        with self._reading(f"rows {start} to {stop} of {name!r} are damaged"):
            rows = np.asarray(self._array(name)[start:stop])
            self._refuse_replaced()
        return rows

    @contextlib.contextmanager
    def _reading(self, problem: str) -> Iterator[None]:
        """Whatever fails while the store is read is an error that names it.

        Another process may remove or replace it at any time.
        """
        try:
            yield
        except (PermafrostError, MemoryError):
            raise
        except Exception as error:
            if not (self.path / "zarr.json").exists():
                problem = "the store was removed while it was read (by another run?)"
            raise self._refuse(f"{problem} ({first_line(error)})") from error

    def _open(self):
        import zarr

        group = zarr.open_group(self.path, mode="r", zarr_format=3)
        return group, dict(group.attrs)

    def _array(self, name: str):
        """The zarr array; a chunk of it that is gone is an error, not zeros."""
        if name not in self._arrays:
            with self._reading(f"array {name!r} is missing or damaged"):
                array = self._group[name]
                self._arrays[name] = array.with_config({"read_missing_chunks": False})
        return self._arrays[name]

    def _group_file(self) -> tuple[int, int]:
        status = os.stat(self.path / "zarr.json")
        return status.st_ino, status.st_mtime_ns

    def _refuse_replaced(self) -> None:
        """Refuse what was read if the store is by now another one, of another plan."""
        file = self._group_file()
        if file == self._file:
            return
        if self._open()[1].get("fingerprint") != self.fingerprint:
            raise self._refuse("the store was replaced by one of another plan while it was read")
        self._file = file

    def _check(self) -> None:
        with self._reading(f"{SAMPLES} is missing or damaged"):
            if file_digest(self.path / SAMPLES) != self.attributes["samples_sha256"]:
                raise self._refuse(f"{SAMPLES} is missing or damaged")
        for name, (shape, dtype) in self.attributes["arrays"].items():
            with self._reading(f"array {name!r} is missing or damaged"):
                array = self._array(name)
                same = list(array.shape) == shape and str(array.dtype) == dtype
                # counting is cheap and finds what is lost before the work begins
                complete = _stored_chunks(self.path / name, array) == array.nchunks
            if not (same and complete):
                raise self._refuse(
                    f"array {name!r} is not what was written (shape, type or chunks)"
                )

    def _refuse(self, problem: str) -> PermafrostError:
        return PermafrostError(problem, where=self.path, remedy=_REMEDY)


def attributes_digest(attributes: dict) -> str:
    """SHA-256 of all attributes but this one."""
    sealed = {key: value for key, value in attributes.items() if key != DIGEST}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source`, or a copy of it if the file system refuses links."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)


def _stored_chunks(folder: Path, array) -> int:
    """Number of chunks in the files of an array, by the indices of its shards if it has some."""
    chunks = folder / "c"
    files = [entry for entry in chunks.rglob("*") if entry.is_file()] if chunks.is_dir() else []
    if array.shards is None:
        return len(files)
    return sum(_chunks_of_shard(file, array.shards[0] // array.chunks[0]) for file in files)


def _chunks_of_shard(file: Path, places: int) -> int:
    """Chunks that a shard holds: its index, (offset, length) of each place and a CRC-32C, ends the file."""
    with open(file, "rb") as stream:
        stream.seek(-(16 * places + 4), os.SEEK_END)
        index = np.frombuffer(stream.read(16 * places), "<u8").reshape(places, 2)
    return int((index[:, 1] != _NOWHERE).sum())
