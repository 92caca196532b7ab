"""Stores: zarr v3 groups that are written atomically, sealed, and checked when opened.

Layout of a store directory::

    zarr.json          the group; its attributes hold the seal (below) and what the writer recorded
    <array>/…          zarr arrays; each chunk ends with its CRC-32C, and most are compressed; small
                       chunks share a file, a shard, with a checked index at its end
    samples.parquet    one row per sample, in the order of the arrays' first axis
    inventory.json     size and CRC-32 of every other file

The seal is written last: ``complete``, ``fingerprint`` of the plan, number of samples, shape and
type of every array, SHA-256 of ``samples.parquet`` and of the inventory, and SHA-256 of all
attributes. A store without
a seal is incomplete. Readers that expect a split compare it with the attribute ``split``, if it was
recorded.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import content_digest, file_digest
from permafrost.core.inventory import INVENTORY, read_inventory, write_inventory
from permafrost.core.outputs import Group, whole_directory
from permafrost.core.tables import check_fingerprint
from permafrost.core.versions import imported_versions

SAMPLES = "samples.parquet"
GROUP = "zarr.json"
_SEAL = frozenset({"fingerprint", "count", "arrays", "samples_sha256", "complete"})
DIGEST = "attributes_sha256"
INVENTORY_DIGEST = "inventory_sha256"
# length in a shard's index of a chunk that was never written
_NOWHERE = np.uint64(2**64 - 1)
_REMEDY = "delete the store and run snakemake again"
PARTS_REMEDY = "delete the folder of the parts and run snakemake again"
# errors of file systems without hard links, or if a file has too many
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
        """Create a zarr array, chunked along its first axis; assign to slices of it.

        Parameters
        ----------
        rows_per_chunk : samples that are read and checked together.
        rows_per_shard : samples per file, a multiple of `rows_per_chunk`; None: one chunk per file.
            Assign whole shards, since every assignment rewrites its shard.
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
            # not larger than the array
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
            # store chunks of zeros, too, so that a missing chunk is an error
            config={"write_empty_chunks": True},
        )
        return self._arrays[name]

    def adopt(self, name: str, folder: Path, files: Iterable[str]) -> None:
        """Link or copy chunk files of an array from another store.

        Parameters
        ----------
        folder : of the same array in the other store.
        files : chunk files, relative to `folder`.

        Raises
        ------
        PermafrostError : a chunk exists already, or the arrays differ in shape, type or chunks.
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
        known = read_inventory(folder.parent)
        for file in files:
            self.storage.written[f"{name}/{file}"] = known[f"{folder.name}/{file}"]
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
        """Write the sample table (at least ``sample_id``), in the order of the arrays' rows."""
        pq.write_table(table, self.folder / SAMPLES, compression="zstd")

    def seal(self, fingerprint: str) -> None:
        """Record what `Store` checks on opening; called by `write_store`.

        Raises
        ------
        ValueError : an array has another number of rows than the sample table, or missing chunks.
        """
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
        self.set_attributes(sealed)

    def set_attributes(self, sealed: dict) -> None:
        """Write the inventory, then the attributes with the digests of both."""
        write_inventory(self.folder, self.storage.written, without=GROUP)
        sealed = {**sealed, INVENTORY_DIGEST: file_digest(self.folder / INVENTORY)}
        self.group.attrs.update({**sealed, DIGEST: content_digest(sealed, DIGEST)})


if TYPE_CHECKING:

    @overload
    def write_store(
        path: str | Path, *, fingerprint: str, group: Group | None = None
    ) -> contextlib.AbstractContextManager[StoreWriter]: ...

    @overload
    def write_store[W: StoreWriter](
        path: str | Path, *, fingerprint: str, group: Group | None = None, kind: type[W]
    ) -> contextlib.AbstractContextManager[W]: ...


@contextlib.contextmanager
def write_store(
    path: str | Path,
    *,
    fingerprint: str,
    group: Group | None = None,
    kind: type[StoreWriter] = StoreWriter,
) -> Iterator[Any]:
    """Write a store atomically: after an error or a kill, `path` does not exist.

    With a `group` of `outputs.together`, it is renamed together with the group.
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
    expect : expected fingerprint of the plan.
    split : expected name of the split.

    Raises
    ------
    PermafrostError : the store is missing, incomplete, damaged, altered, or of another plan or
        split.
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
        check_seal(self.path, self.attributes, expect=expect, split=split)
        self.fingerprint: str = self.attributes["fingerprint"]
        self._check()

    def __len__(self) -> int:
        return self.attributes["count"]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes["arrays"]

    def samples(self, columns=None) -> pa.Table:
        """The sample table, or those of `columns` that it has; raises `PermafrostError` if damaged."""
        with (
            self._reading(f"{SAMPLES} is missing or damaged"),
            pq.ParquetFile(self.path / SAMPLES) as file,
        ):
            table = file.read(columns=columns)
            self._refuse_replaced()
        return table

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.attributes["arrays"][name][0])

    def itemsize(self, name: str) -> int:
        """Bytes of a number of an array."""
        return np.dtype(self.attributes["arrays"][name][1]).itemsize

    def chunk_rows(self, name: str) -> int:
        """Samples per chunk of the array; reading whole chunks is cheapest."""
        return self._array(name).chunks[0]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows [start, stop) of an array.

        Raises
        ------
        PermafrostError : there is no such array, or a chunk is damaged; names store and rows.
        """
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
        """Turn any error while reading into a `PermafrostError` that names the store.

        Another process may remove or replace the store at any time.
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
        """The zarr array, set up so that a missing chunk is an error instead of zeros."""
        if name not in self._arrays:
            with self._reading(f"array {name!r} is missing or damaged"):
                array = self._group[name]
                self._arrays[name] = array.with_config({"read_missing_chunks": False})
        return self._arrays[name]

    def _group_file(self) -> tuple[int, int]:
        status = os.stat(self.path / "zarr.json")
        return status.st_ino, status.st_mtime_ns

    def _refuse_replaced(self) -> None:
        """Raise if the store was meanwhile replaced by one with another fingerprint."""
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
                # counting chunks is cheap, and finds missing ones before a long computation
                complete = _stored_chunks(self.path / name, array) == array.nchunks
            if not (same and complete):
                raise self._refuse(
                    f"array {name!r} is not what was written (shape, type or chunks)"
                )

    def _refuse(self, problem: str) -> PermafrostError:
        return PermafrostError(problem, where=self.path, remedy=_REMEDY)


def check_seal(
    path: Path, attributes: dict, *, expect: str | None = None, split: str | None = None
) -> None:
    """Check a store's attributes; raises `PermafrostError` as `Store` does."""
    problem = None
    if not attributes.keys() >= _SEAL:
        problem = "the store was never completed"
    elif attributes.get(DIGEST) != content_digest(attributes, DIGEST):
        problem = "its attributes are not what was written"
    elif split is not None and attributes.get("split", split) != split:
        problem = f"it holds the split {attributes['split']!r}, where {split!r} is expected"
    if expect is not None and "fingerprint" in attributes:
        check_fingerprint(path, attributes["fingerprint"], expect)
    if problem:
        raise PermafrostError(problem, where=path, remedy=_REMEDY)


def read_seal(path: Path, *, expect: str | None = None, split: str | None = None) -> dict:
    """A store's checked attributes, read without zarr; raises `PermafrostError` as `Store` does."""
    try:
        raw = (path / GROUP).read_bytes()
        content = json.loads(raw)
        attributes = content["attributes"]
        group = (content["zarr_format"], content["node_type"]) == (3, "group") and raw[-1:] == b"}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PermafrostError(
            f"not a readable zarr group ({first_line(error)})", where=path, remedy=_REMEDY
        ) from error
    if not group or not isinstance(attributes, dict):
        raise PermafrostError("not a readable zarr group", where=path, remedy=_REMEDY)
    check_seal(path, attributes, expect=expect, split=split)
    return attributes


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link `target` to `source`, or copy it if the file system does not support that."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)


def _stored_chunks(folder: Path, array) -> int:
    """Number of stored chunks of an array, counted by files or by the indices of its shards."""
    chunks = folder / "c"
    files = [entry for entry in chunks.rglob("*") if entry.is_file()] if chunks.is_dir() else []
    if array.shards is None:
        return len(files)
    return sum(_chunks_of_shard(file, array.shards[0] // array.chunks[0]) for file in files)


def _chunks_of_shard(file: Path, places: int) -> int:
    """Number of chunks in a shard, by its index at the end of the file.

    The index has (offset, length) as uint64 for each of `places` chunks, then a CRC-32C.
    """
    with open(file, "rb") as stream:
        stream.seek(-(16 * places + 4), os.SEEK_END)
        index = np.frombuffer(stream.read(16 * places), "<u8").reshape(places, 2)
    return int((index[:, 1] != _NOWHERE).sum())
