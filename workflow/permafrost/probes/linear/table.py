"""The rows of the solver: in memory, or in a file with one span in memory at a time.

Spans depend only on shapes, and sums over rows are sums of spans, added in order. So a fit has the same
bytes for rows in memory and in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.core.row_file import RowFile


class Table:
    """(n, q) rows with a leading 1.

    Parameters
    ----------
    backend : array operations.
    rows : array of the backend, or a `RowFile`; its first `count` rows are the table.
    """

    def __init__(self, backend, rows, count: int | None = None) -> None:
        self.backend, self.rows = backend, rows
        self.count = len(rows) if count is None else count
        self._buffer: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.count, int(self.rows.shape[1])

    @property
    def file(self) -> RowFile | None:
        return self.rows if isinstance(self.rows, RowFile) else None

    def head(self, count: int) -> Table:
        """The first `count` rows."""
        return Table(self.backend, self.rows, count)

    def finer(self, backend) -> Table:
        """The same rows for a backend of float64."""
        rows = self.rows if self.file is not None else backend.real(self.rows[: self.count])
        return Table(backend, rows, self.count)

    def read(self, start: int, stop: int):
        """Rows [start, stop), contiguous and in the working precision, until the next call."""
        if self.file is None:
            return self.backend.real(self.rows[start:stop])
        if self._buffer is None or len(self._buffer) < stop - start:
            self._buffer = np.empty((stop - start, self.rows.width), self.rows.dtype)
        return self.backend.real(self.rows.read(start, stop, into=self._buffer))

    def take(self, numbers: np.ndarray):
        """The rows with these indices."""
        return self.backend.real(self.rows[numbers])


@dataclass(frozen=True)
class Span:
    """Rows [start, stop) of a table, divided into whole blocks; the last block of all is padded with zeros.

    Attributes
    ----------
    first, blocks : index of its first block, and number of blocks.
    rows : number of rows of a block.
    """

    start: int
    stop: int
    first: int
    blocks: int
    rows: int

    @property
    def padded(self) -> int:
        return self.blocks * self.rows

    def fill(self, backend, rows):
        """(stop - start, q) -> (blocks * rows, q), padded with zeros."""
        whole = backend.zeros((self.padded, rows.shape[1]))
        whole[: len(rows)] = rows
        return whole


def spans_of(backend, n: int, columns: int, width: int) -> list[Span]:
    """Spans of n rows of `width` features and `columns` logits, none larger than the backend's `span_bytes`.

    This includes the features, and about four arrays of logits.
    """
    most = max(1, backend.span_bytes // (4 * (width + 4 * columns)))
    rows = backend.block_rows(n, columns, width)
    if rows > most:
        rows = -(-n // -(-n // most))
    blocks, step = -(-n // rows), most // rows
    return [
        Span(i * rows, min((i + step) * rows, n), i, min(step, blocks - i), rows)
        for i in range(0, blocks, step)
    ]


class StoredMargins:
    """Margins of all rows in a file, with one row per block; can be read span by span many times."""

    def __init__(self, backend, file: RowFile, spans: list[Span], margins: Iterable) -> None:
        """Write `margins` (blocks, K, rows) of each span."""
        self.backend, self.spans, self.file = backend, spans, None
        for one in margins:
            blocks, self.columns, rows = one.shape
            if self.file is None:
                kind = np.float64 if backend.precise else np.float32
                self.file = file.beside(self.columns * rows, kind)
            self.file.append(backend.numpy(one.reshape(blocks, -1)))

    def __iter__(self) -> Iterator[Any]:
        for span in self.spans:
            read = self.file.read(span.first, span.first + span.blocks)
            yield self.backend.real(read.reshape(span.blocks, self.columns, span.rows))
