"""Result tables: parquet files with the fingerprint of their plan and a digest of their bytes."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import canonical_json
from permafrost.core.inputs import check_regular
from permafrost.core.outputs import Group, whole_file
from permafrost.core.parquet_files import check_expansion
from permafrost.core.versions import imported_versions

KEY = b"permafrost"
SEAL = b"permafrost.sha256"
# the digest is computed with zeros in its place, which is in the footer after its key and the two
# bytes of Thrift that announce a text of 64 bytes
_BLANK = b"0" * 64
# the file may belong to somebody else, so this remedy does not say to delete it
_OTHER = "name a table that a run wrote; `permafrost stale` lists the damaged files of a folder of results"
_CHUNK = 1 << 20
_ANNOUNCED = SEAL + b"\x18\x40"


def _spare_pandas() -> None:
    """Keep pyarrow from importing pandas at its first conversion.

    When pyarrow first converts a list, it imports pandas if installed, to recognise pandas objects.
    That costs a second and 80 MB in every short job, and this library passes no such objects.
    pyarrow tries once per process, so this triggers the attempt while `import pandas` fails. Pandas
    can still be imported later: pyarrow's functions for data frames import it themselves.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """A finder on `sys.meta_path` that hides pandas."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("hidden from pyarrow", name=name)


_spare_pandas()


def write_table(path, table: pa.Table, metadata: dict, *, group: Group | None = None) -> None:
    """Write `table` atomically, with `metadata` in its schema.

    The versions of imported packages are added to the metadata as ``versions``. The SHA-256 of the
    file is written into its footer, so that `read_table` refuses a table that was edited.

    Parameters
    ----------
    metadata : JSON data with the key ``fingerprint``.
    group : of `outputs.together`; the table is renamed with the whole group.

    Raises
    ------
    TypeError : the metadata lack the fingerprint.
    PermafrostError : the file cannot be written.
    """
    if "fingerprint" not in metadata:
        raise TypeError("a result table needs the fingerprint of its plan")
    described = canonical_json({**metadata, "versions": imported_versions()}).encode()
    own = {**(table.schema.metadata or {}), KEY: described, SEAL: _BLANK}
    with whole_file(path, group=group) as partial:
        # parquet stores no time of writing, so the same rows give the same bytes
        pq.write_table(
            table.replace_schema_metadata(own),
            partial,
            compression="zstd",
            write_page_checksum=True,
        )
        _seal(partial)


def _seal(path: Path) -> None:
    """Write the digest of a new table into its footer."""
    with open(path, "r+b") as stream:
        digest = _digest(stream, _BLANK)
        start = _to_footer(stream)
        stream.seek(start + stream.read().index(_ANNOUNCED + _BLANK) + len(_ANNOUNCED))
        stream.write(digest)


def _digest(stream, sealed: bytes) -> bytes:
    """SHA-256 in hexadecimal of a table's bytes, with the digest `sealed` replaced by zeros."""
    remaining = _to_footer(stream)
    digest = hashlib.sha256()
    stream.seek(0)
    while remaining and (chunk := stream.read(min(remaining, _CHUNK))):
        digest.update(chunk)
        remaining -= len(chunk)
    digest.update(stream.read().replace(_ANNOUNCED + sealed, _ANNOUNCED + _BLANK, 1))
    return digest.hexdigest().encode()


def _to_footer(stream) -> int:
    """Go to the start of a parquet footer (metadata, its length and the magic number), and return it."""
    stream.seek(-8, os.SEEK_END)
    return stream.seek(-int.from_bytes(stream.read(4), "little") - 8, os.SEEK_END)


def read_table(
    path, *, expect: str | None = None, columns=None, without: Callable | None = None
) -> tuple[pa.Table, dict]:
    """Read a result table and its metadata.

    Parameters
    ----------
    expect : expected fingerprint of the plan.
    columns : columns to read; None: all except those that ``without(metadata)`` returns.

    Raises
    ------
    PermafrostError : the file is missing, damaged, altered, of another program or plan, or lacks a
        column.
    """
    with _opened(path) as (stream, file):
        metadata = _metadata(path, stream, file, expect)
        known = file.schema_arrow.names
        if without is not None and columns is None:
            left_out = without(metadata)
            columns = [name for name in known if name not in left_out]
        _refuse_absent(path, set(columns or ()) - set(known))
        if expect is None:
            # nobody says that a run of this plan wrote it
            check_expansion(path, columns, file=file)
        return file.read(columns=columns, use_threads=_is_large(stream)), metadata


def _refuse_absent(path, absent: set[str]) -> None:
    if absent:
        raise PermafrostError(
            f"the table has no column {', '.join(sorted(absent))}",
            where=path,
            remedy="delete the file and run snakemake again",
        )


def iter_column(path, name: str, rows: int) -> Iterator[pa.Array]:
    """Iterate over a column, at most `rows` at a time in memory; check the table by `read_table` first.

    Raises
    ------
    PermafrostError : the file is missing or damaged, or lacks the column.
    """
    with _opened(path, buffer_size=_CHUNK, pre_buffer=False) as (_, file):
        _refuse_absent(path, {name} - set(file.schema_arrow.names))
        for batch in file.iter_batches(rows, columns=[name], use_threads=False):
            yield batch.column(0)


def metadata_of(table: pa.Table) -> dict:
    """The metadata that `write_table` stored in a table's schema; empty if there are none."""
    raw = table.schema.metadata or {}
    return json.loads(raw[KEY]) if KEY in raw else {}


def read_metadata(path, *, expect: str | None = None) -> dict:
    """Check a result table as `read_table` does, and return its metadata without decoding rows."""
    with _opened(path) as (stream, file):
        return _metadata(path, stream, file, expect)


@contextlib.contextmanager
def _opened(path, **options) -> Iterator[tuple[pa.NativeFile, pq.ParquetFile]]:
    """A table, opened once, and its bytes: in memory if they are few, as threads and buffers would cost more."""
    check_regular(path)
    try:
        with pa.OSFile(os.fspath(path)) as stream:
            if not _is_large(stream):
                stream, options = pa.BufferReader(stream.read()), {"pre_buffer": False}
            with pq.ParquetFile(stream, page_checksum_verification=True, **options) as file:
                yield stream, file
    except FileNotFoundError as error:
        raise PermafrostError(
            "the table does not exist", where=path, remedy="run snakemake"
        ) from error
    except PermafrostError:
        raise
    except Exception as error:  # of a damaged footer, the parser raises errors of any type
        raise _damaged(path, error) from error


def _is_large(stream: pa.NativeFile) -> bool:
    return stream.size() > _CHUNK


def _metadata(path, stream, file: pq.ParquetFile, expect: str | None) -> dict:
    raw = file.schema_arrow.metadata or {}
    if KEY not in raw:
        raise PermafrostError(
            "not a table of this pipeline (it carries no fingerprint)",
            where=path,
            remedy=_OTHER,
        )
    try:
        metadata = json.loads(raw[KEY])
        found = metadata["fingerprint"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from error
    if expect is not None:
        check_fingerprint(path, found, expect)
    sealed = (file.metadata.metadata or {}).get(SEAL)
    if sealed is None or _digest(stream, sealed) != sealed:
        raise PermafrostError(
            "damaged, or altered since it was written (its bytes do not match its digest)",
            where=path,
            remedy="delete the file and run snakemake again",
        )
    return metadata


def check_fingerprint(path, found: str, expected: str) -> None:
    """Raise `PermafrostError` if the fingerprint of an input is not the one in the plan."""
    if found != expected:
        raise PermafrostError(
            f"made from another plan (fingerprint {str(found)[:12]}, this plan needs {expected[:12]})",
            where=path,
            remedy="run `permafrost stale --delete` to remove what does not belong to this plan,"
            " then snakemake again",
        )


def _damaged(path, error: Exception) -> PermafrostError:
    return PermafrostError(
        f"damaged or not a parquet file ({first_line(error)})",
        where=Path(path),
        remedy=_OTHER,
    )


def write_csv(path, table: pa.Table) -> None:
    """Write `table` atomically as CSV (RFC 4180, UTF-8, ``\\n``).

    Floats are written by Python's ``repr``, so reading restores every bit. A missing value is an
    empty field; an undefined number is ``nan``.
    """
    with whole_file(path) as partial, open(partial, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(zip(*map(_cells, table.columns), strict=True))


def _cells(column: pa.ChunkedArray) -> list:
    """The values of a column as the CSV writer takes them: it writes floats by `repr` and None as nothing."""
    values = column.to_pylist()
    if pa.types.is_boolean(column.type):
        words = {None: None, True: "true", False: "false"}
        return [words[value] for value in values]
    return values
