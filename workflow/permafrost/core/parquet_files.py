"""A bound of the memory that cells of a parquet file take: some kilobytes can hold gigabytes of equal cells."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# bytes that the cells of any file may take, and of a larger file as a multiple of its own size: confusion
# matrices of many classes, which are mostly zeros, need some hundreds
_ANY, _TIMES = 1 << 30, 1000
_BYTES = {"BOOLEAN": 1 / 8, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# encodings in which texts share letters
_DICTIONARY, _DELTA = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}, "DELTA_BYTE_ARRAY"
_TEXT, _FIXED = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
_ROWS = 1024  # of texts, whose length no header says, at a time


def check_expansion(
    source: Path | bytes,
    columns: Sequence[str] | None = None,
    group: int | None = None,
    *,
    file: pq.ParquetFile | None = None,
) -> None:
    """Refuse cells that would take far more memory than their file.

    The footer says how many numbers there are. Texts that share their letters are read as a dictionary, or
    some rows at a time, and their bytes are added.

    Parameters
    ----------
    source : path of the file, or its bytes.
    columns : what will be read, as `pyarrow.parquet.ParquetFile.read` names it; None: everything.
    group : the only row group that will be read; None: all.
    file : the same file, if it is open.

    Raises
    ------
    ValueError : they take more than 1 GiB, and more than 1000 times the bytes of the file.
    """
    size = len(source) if isinstance(source, bytes) else os.path.getsize(source)
    most = max(_ANY, _TIMES * size)
    with contextlib.nullcontext(file) if file is not None else _opened(source) as known:
        footer, schema = known.metadata, known.schema
    groups = range(footer.num_row_groups) if group is None else [group]
    leaves = [
        leaf
        for leaf in range(footer.num_columns)
        if columns is None or _is_of(schema.column(leaf).path, columns)
    ]
    as_dictionary: set[str] = set()
    by_rows: set[str] = set()
    total, longest = 0.0, 1
    for number in groups:
        row_group = footer.row_group(number)
        for leaf in leaves:
            chunk = row_group.column(leaf)
            kind, count, stored = (
                chunk.physical_type,
                chunk.num_values,
                chunk.total_uncompressed_size,
            )
            width = schema.column(leaf).length if kind == _FIXED else _BYTES.get(kind, 0)
            total += max(stored, count * width)
            if kind != _TEXT or count * stored <= most:
                continue
            path, encodings = schema.column(leaf).path, set(chunk.encodings)
            if _DELTA in encodings or (encodings & _DICTIONARY and "." in path):
                # the library reads neither as a dictionary
                by_rows.add(path)
            elif encodings & _DICTIONARY:
                as_dictionary.add(path)
            longest = max(longest, stored)
    _refuse(total, most, size)
    if as_dictionary:
        with _opened(source, read_dictionary=list(as_dictionary)) as file:
            for number, path in itertools.product(groups, as_dictionary - by_rows):
                read = file.read_row_group(number, columns=[path]).column(0)
                total += sum(map(_dense_bytes, read.chunks))
                _refuse(total, most, size)
    if by_rows:
        with _opened(source) as file:
            rows = max(1, min(_ROWS, most // longest))
            for batch in file.iter_batches(rows, row_groups=list(groups), columns=list(by_rows)):
                total += batch.nbytes
                _refuse(total, most, size)


def _opened(source: Path | bytes, **options) -> pq.ParquetFile:
    return pq.ParquetFile(
        pa.BufferReader(source) if isinstance(source, bytes) else source, **options
    )


def _is_of(leaf: str, columns: Sequence[str]) -> bool:
    return any(leaf == name or leaf.startswith(f"{name}.") for name in columns)


def _refuse(count: float, most: int, size: int) -> None:
    if count > most:
        raise ValueError(
            f"its {size:,} bytes would take more than {math.floor(most / 1e6):,} MB of memory; if that is right, write"
            " it without compression and without dictionaries"
        )


def _dense_bytes(chunk: pa.Array) -> int:
    """Bytes of a dictionary array once each cell has its own text."""
    if not pa.types.is_dictionary(chunk.type):
        return chunk.nbytes
    lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(chunk.indices)).as_py() or 0
