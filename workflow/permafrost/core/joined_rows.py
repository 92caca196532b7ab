"""Rows of several arrays or files, concatenated without copying."""

from __future__ import annotations

import numpy as np

from permafrost.core.row_file import RowFile


class JoinedRows:
    """The (N, d) rows of all parts, read by slices of step 1 or by integer arrays.

    Parameters
    ----------
    parts : arrays of shape (n, d), or `RowFile`s.
    """

    ndim = 2

    def __init__(self, *parts: np.ndarray | RowFile) -> None:
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])
        self.width = int(parts[0].shape[1])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __len__(self) -> int:
        return int(self.ends[-1])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width

    @property
    def file(self) -> RowFile | None:
        """The first part on disk; None if all are in memory."""
        return next((part for part in self.parts if isinstance(part, RowFile)), None)

    def __getitem__(self, rows) -> np.ndarray:
        """(n, d) of a slice of step 1, or of an integer array (n,)."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step != 1:
                raise IndexError(f"rows of several parts in steps of {step}")
            return self._between(start, max(start, stop))
        rows = np.asarray(rows)
        found = np.empty((len(rows), self.width), self.dtype)
        part_of = np.searchsorted(self.ends, rows, side="right")
        for number, part in enumerate(self.parts):
            own = part_of == number
            found[own] = part[rows[own] - (self.ends[number] - len(part))]
        return found

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def _between(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        for part, end in zip(self.parts, self.ends, strict=True):
            first = end - len(part)
            low, high = max(start, first), min(stop, end)
            if low < high:
                pieces.append(part[low - first : high - first])
        if not pieces:
            return np.empty((0, self.width), self.dtype)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
