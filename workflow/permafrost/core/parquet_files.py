"""A bound of the memory that cells of a parquet file take: some kilobytes can hold gigabytes of equal cells."""

from __future__ import annotations

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
_DICTIONARY, _DELTA = ("RLE_DICTIONARY", "PLAIN_DICTIONARY"), "DELTA_BYTE_ARRAY"
_ROWS = 1024  # of texts, whose length no header says, at a time


def check_expansion(
    source: Path | bytes, columns: Sequence[str] | None = None, group: int | None = None
) -> None:
    """Refuse cells that would take far more memory than their file.

    The footer says how many numbers there are. Texts that share their letters are read as a dictionary, or
    some rows at a time, and their bytes are added.

    Parameters
    ----------
    source : path of the file, or its bytes.
    columns : what will be read, as `pyarrow.parquet.ParquetFile.read` names it; None: everything.
    group : the only row group that will be read; None: all.

    Raises
    ------
    ValueError : they take more than 1 GiB, and more than 1000 times the bytes of the file.
    """
    size = len(source) if isinstance(source, bytes) else os.path.getsize(source)
    most = max(_ANY, _TIMES * size)
    with _opened(source) as file:
        leaves = [
            leaf
            for leaf in range(len(file.schema))
            if columns is None or _is_of(file.schema.column(leaf).path, columns)
        ]
        groups = range(file.metadata.num_row_groups) if group is None else [group]
        as_dictionary: set[str] = set()
        by_rows: set[str] = set()
        total, longest = 0.0, 1
        for leaf in leaves:
            column = file.schema.column(leaf)
            for number in groups:
                chunk = file.metadata.row_group(number).column(leaf)
                stored, encodings = chunk.total_uncompressed_size, set(chunk.encodings)
                width = _BYTES.get(chunk.physical_type, max(column.length, 0))
                total += max(stored, chunk.num_values * width)
                text = chunk.physical_type == "BYTE_ARRAY" and encodings & {*_DICTIONARY, _DELTA}
                if text and chunk.num_values * stored > most:
                    # the library reads neither lists nor this encoding as dictionaries
                    no_dictionary = _DELTA in encodings or "." in column.path
                    (by_rows if no_dictionary else as_dictionary).add(column.path)
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
