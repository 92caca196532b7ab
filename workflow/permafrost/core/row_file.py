"""Rows of numbers in a temporary file, for features that do not fit into memory.

The file has no name, so it disappears with its process. Rows are read into new arrays instead of
being memory-mapped, so a job holds only the rows that it reads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError

#: bytes per read of an iteration over all rows
BLOCK_BYTES = 32 * 2**20
_NEAR = 8  # wanted rows within so many consecutive ones are read at once


class RowFile:
    """An (N, d) array on disk: rows are appended in order, and read by slices or integer arrays.

    It supports `len`, `shape`, `dtype`, slices of step 1, integer and boolean arrays;
    `numpy.asarray` reads all rows.

    Parameters
    ----------
    width : d.
    folder : for the file, on a disk with space for all rows; ``TMPDIR`` overrides it if it is one.
    dtype : of the numbers.
    """

    ndim = 2

    def __init__(self, width: int, folder: Path, dtype=np.float32) -> None:
        self.width, self.dtype = int(width), np.dtype(dtype)
        chosen = os.environ.get("TMPDIR")
        self.folder = Path(chosen if chosen and os.path.isdir(chosen) else folder)
        self._bytes = self.width * self.dtype.itemsize
        self._rows = 0
        # stays open as long as the object exists
        self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115

    def beside(self, width: int, dtype=np.float32) -> RowFile:
        """An empty file on the same disk."""
        return RowFile(width, self.folder, dtype)

    def append(self, rows: np.ndarray) -> None:
        """Add (n, d) rows at the end.

        Raises
        ------
        ValueError : the rows have another width.
        PermafrostError : the disk is full.
        """
        rows = np.ascontiguousarray(rows, self.dtype)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows of shape {rows.shape} in a file of width {self.width}")
        left = memoryview(rows).cast("B") if rows.size else memoryview(b"")
        try:
            while len(left):
                left = left[self._file.write(left) :]
        except OSError as error:
            raise PermafrostError(
                f"after {self.nbytes / 2**20:.0f} MB there is no room for more of a temporary copy of features"
                f" ({error.strerror})",
                where=self.folder,
                remedy="make room there, or let TMPDIR name a folder on another disk",
            ) from error
        self._rows += len(rows)

    def __len__(self) -> int:
        return self._rows

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, self.width

    @property
    def size(self) -> int:
        return self._rows * self.width

    @property
    def nbytes(self) -> int:
        return self._rows * self._bytes

    def __getitem__(self, rows) -> np.ndarray:
        """Rows (n, d) of a slice of step 1, an integer array (n,) or a boolean array (N,)."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self._rows)
            if step != 1:
                raise IndexError(f"rows of a file in steps of {step}")
            return self.read(start, stop)
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        if rows.ndim > 1:
            return self[rows.reshape(-1)].reshape(*rows.shape, self.width)
        return self._gathered(rows) if rows.ndim else self.read(int(rows), int(rows) + 1)[0]

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Rows [start, stop), in a new array or in the first rows of `into`; may raise IndexError."""
        start = start + self._rows if start < 0 else start
        count = max(0, stop - start)
        if start < 0 or start + count > self._rows:
            raise IndexError(f"rows {start} to {stop} of {self._rows}")
        rows = np.empty((count, self.width), self.dtype) if into is None else into[:count]
        left, place = memoryview(rows).cast("B") if rows.size else b"", start * self._bytes
        while len(left):
            read = os.preadv(self._file.fileno(), [left], place)
            if not read:
                raise OSError("a temporary file of features was truncated")
            left, place = left[read:], place + read
        return rows

    def blocks(self) -> Iterator[slice]:
        """Slices of all rows, each of `BLOCK_BYTES` at most."""
        return row_blocks(self)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.read(0, self._rows).astype(dtype or self.dtype, copy=False)

    def _gathered(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, d) at the indices (n,); each row is read once."""
        order, places = np.unique(rows, return_inverse=True)
        if len(order) and (order[0] < 0 or order[-1] >= self._rows):
            raise IndexError(f"rows {order[0]} to {order[-1]} of {self._rows}")
        found = np.empty((len(order), self.width), self.dtype)
        start = 0
        while start < len(order):
            stop = int(np.searchsorted(order, order[start] + _NEAR))
            first, last = int(order[start]), int(order[stop - 1]) + 1
            found[start:stop] = self.read(first, last)[order[start:stop] - first]
            start = stop
        return found[places]


def row_blocks(rows, block_bytes: int | None = None) -> Iterator[slice]:
    """Slices over all (N, …) rows of an array or `RowFile`, each at most `block_bytes` or one row."""
    each = max(1, int(np.prod(rows.shape[1:])) * rows.dtype.itemsize)
    step = max(1, (block_bytes or BLOCK_BYTES) // each)
    return (slice(start, min(start + step, len(rows))) for start in range(0, len(rows), step))
