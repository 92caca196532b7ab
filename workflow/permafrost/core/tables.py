"""Result tables: parquet files that carry the fingerprint of their plan, and a digest of themselves."""

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
from permafrost.core.versions import imported_versions

KEY = b"permafrost"
SEAL = b"permafrost.sha256"
# the digest is of the file with zeros in its place: in the footer, after its key and the two bytes of Thrift
# that announce a text of 64
_BLANK = b"0" * 64
# of a file that may be somebody else's, which nobody is told to delete
_OTHER = "name a table that a run wrote; `permafrost stale` lists the damaged files of a folder of results"
_CHUNK = 1 << 20
_ANNOUNCED = SEAL + b"\x18\x40"


def _spare_pandas() -> None:
    """Let pyarrow find no pandas when it looks for it, once per process.

    The first time pyarrow makes an array of a list, or is asked for a table, it imports pandas if
    that is installed, to see whether it was handed one of its objects: a second of start-up and
    80 MB for every light stage, and this library has no such objects. It looks once, so it is made
    to look now, while `import pandas` fails. A process that has pandas already pays nothing and is
    left alone, and one that imports it later still can: whatever in pyarrow needs pandas (reading
    into data frames, writing them) imports it by itself and from then on knows its objects again.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """An importer that hides pandas, and only pandas."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("hidden from pyarrow", name=name)


_spare_pandas()


def write_table(path, table: pa.Table, metadata: dict, *, group: Group | None = None) -> None:
    """Write `table` whole, with `metadata` (JSON-able, must hold ``fingerprint``) in its schema.

    With a `group` of `outputs.together`, the table takes its place when the whole group does.

    The SHA-256 of the file is written into its footer, so that a table that somebody edits, by whatever
    means, is refused by `read_table`. The versions of the packages that this process has imported are added
    to the metadata as ``versions``.
    """
    if "fingerprint" not in metadata:
        raise TypeError("a result table needs the fingerprint of its plan")
    described = canonical_json({**metadata, "versions": imported_versions()}).encode()
    own = {**(table.schema.metadata or {}), KEY: described, SEAL: _BLANK}
    with whole_file(path, group=group) as partial:
        # parquet holds no time stamp of its writer, so the same rows give the same bytes
        pq.write_table(
            table.replace_schema_metadata(own),
            partial,
            compression="zstd",
            write_page_checksum=True,
        )
        _seal(partial)


def _seal(path: Path) -> None:
    """Put the digest of a table that was just written into its place."""
    digest = _digest(path, _BLANK)
    with open(path, "r+b") as stream:
        start = stream.seek(-_footer_size(path), os.SEEK_END)
        stream.seek(start + stream.read().index(_ANNOUNCED + _BLANK) + len(_ANNOUNCED))
        stream.write(digest)


def _digest(path, sealed: bytes) -> bytes:
    """SHA-256, in hexadecimal, of a table's bytes with zeros in place of the digest `sealed`."""
    remaining = os.path.getsize(path) - _footer_size(path)
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while remaining and (chunk := stream.read(min(remaining, _CHUNK))):
            digest.update(chunk)
            remaining -= len(chunk)
        footer = stream.read()
    digest.update(footer.replace(_ANNOUNCED + sealed, _ANNOUNCED + _BLANK, 1))
    return digest.hexdigest().encode()


def _footer_size(path) -> int:
    """Bytes of a parquet file's metadata, with their length and the magic number, at its end."""
    with open(path, "rb") as stream:
        stream.seek(-8, os.SEEK_END)
        return int.from_bytes(stream.read(4), "little") + 8


def read_table(
    path, *, expect: str | None = None, columns=None, without: Callable | None = None
) -> tuple[pa.Table, dict]:
    """Return the table and its metadata; with `expect`, refuse a table of another plan.

    Parameters
    ----------
    columns : those to read; None: all but those that `without` names of a table with these metadata.

    Raises
    ------
    PermafrostError : the file is missing, damaged, altered, not ours, or made from another plan.
    """
    with _opened(path) as file:
        metadata = _metadata(path, file, expect)
        known = file.schema_arrow.names
        if without is not None and columns is None:
            left_out = without(metadata)
            columns = [name for name in known if name not in left_out]
        _refuse_absent(path, set(columns or ()) - set(known))
        return file.read(columns=columns), metadata


def _refuse_absent(path, absent: set[str]) -> None:
    if absent:
        raise PermafrostError(
            f"the table has no column {', '.join(sorted(absent))}",
            where=path,
            remedy="delete the file and run snakemake again",
        )


def iter_column(path, name: str, rows: int) -> Iterator[pa.Array]:
    """A column of a table that `read_table` has checked, at most so many `rows` at a time; nothing else is held.

    Raises
    ------
    PermafrostError : the file is damaged or missing; there is no such column.
    """
    with _opened(path, buffer_size=_CHUNK, pre_buffer=False) as file:
        _refuse_absent(path, {name} - set(file.schema_arrow.names))
        for batch in file.iter_batches(rows, columns=[name], use_threads=False):
            yield batch.column(0)


def metadata_of(table: pa.Table) -> dict:
    """The metadata that `write_table` stored in a table's schema; empty without any."""
    raw = table.schema.metadata or {}
    return json.loads(raw[KEY]) if KEY in raw else {}


def read_metadata(path, *, expect: str | None = None) -> dict:
    """The metadata of a result table that is whole and unaltered, without decoding its rows."""
    with _opened(path) as file:
        return _metadata(path, file, expect)


@contextlib.contextmanager
def _opened(path, **options) -> Iterator[pq.ParquetFile]:
    check_regular(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True, **options) as file:
            yield file
    except FileNotFoundError as error:
        raise PermafrostError(
            "the table does not exist", where=path, remedy="run snakemake"
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error


def _metadata(path, file: pq.ParquetFile, expect: str | None) -> dict:
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
    if sealed is None or _digest(path, sealed) != sealed:
        raise PermafrostError(
            "damaged, or altered since it was written (its bytes do not match its digest)",
            where=path,
            remedy="delete the file and run snakemake again",
        )
    return metadata


def check_fingerprint(path, found: str, expected: str) -> None:
    """Refuse an input that was made from another plan than the one being carried out."""
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
    """Write `table` whole as CSV (RFC 4180, UTF-8, ``\\n``).

    Floats are written as Python's ``repr``, so reading gives back the same number bit for bit; a
    missing value is an empty field, ``nan`` a number that does not exist.
    """
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    with whole_file(path) as partial, open(partial, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(zip(*columns, strict=True))


def _cell(value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
