"""Rows that come a few at a time, written to an array in whole chunks or shards."""

from __future__ import annotations

import numpy as np


class Rows:
    """Collects rows for one array of a store and writes `block` of them at once.

    Parameters
    ----------
    array : the zarr array; its first axis counts samples.
    block : rows written together: those of a chunk, or of a shard, so that none is written twice.
    """

    def __init__(self, array, block: int) -> None:
        self._array = array
        self._buffer = np.empty((block, *array.shape[1:]), array.dtype)
        self._held, self._written = 0, 0

    def put(self, rows: np.ndarray) -> None:
        """Take rows (n, …), converted to the array's type."""
        while len(rows):
            part = rows[: len(self._buffer) - self._held]
            self._buffer[self._held : self._held + len(part)] = part
            self._held += len(part)
            rows = rows[len(part) :]
            if self._held == len(self._buffer):
                self._flush()

    def finish(self) -> int:
        """Write what is left; the number of all rows."""
        self._flush()
        return self._written

    def _flush(self) -> None:
        if self._held:
            self._array[self._written : self._written + self._held] = self._buffer[: self._held]
            self._written, self._held = self._written + self._held, 0
