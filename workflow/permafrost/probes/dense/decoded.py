"""A decoded copy of a split in temporary files, for maps that do not fit into memory and are read in every epoch.

A store's chunks are checked, decompressed and rearranged whenever they are read; rows of the copy only once. The files
have no name, so they disappear with their process.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile

#: share of the free disk space that a copy may fill; other jobs of the run measure it at the same time
DISK_SHARE = 0.25


class DecodedRows:
    """Rows of several arrays on disk.

    Parameters
    ----------
    shapes, dtypes : of a row of each array.
    folder : for the files; ``TMPDIR`` overrides it, see `RowFile`.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype], folder: Path
    ) -> None:
        self._files = [
            RowFile(math.prod(shape), folder, torch.empty(0, dtype=dtype).numpy().dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self._files[0].folder

    def append(self, arrays: Iterable[torch.Tensor]) -> None:
        """Add rows (n, *shape) of each array; `PermafrostError` if the disk is full."""
        for file, rows in zip(self._files, arrays, strict=True):
            file.append(rows.reshape(len(rows), -1).numpy())

    def read(self, rows: Sequence[int], into: Sequence[torch.Tensor]) -> None:
        """Read these rows of each array into (n, *shape), in main memory; no second copy of them is made."""
        for file, array in zip(self._files, into, strict=True):
            flat = array.numpy().reshape(len(array), -1)
            for place, row in enumerate(rows):
                file.read(row, row + 1, flat[place : place + 1])


def decoded_rows(
    blocks: Iterable[Iterable[torch.Tensor]],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[torch.dtype],
    folder: Path,
    *,
    needed: int,
    label: str,
) -> DecodedRows | None:
    """A copy of `blocks`, rows of each array, in this order; None if there is no room. Logs which to standard error.

    Parameters
    ----------
    needed : bytes of all rows.
    label : name of the split in the log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copy = DecodedRows(shapes, dtypes, folder)
    allowed = int(shutil.disk_usage(copy.folder).free * DISK_SHARE)
    sizes = f"{needed / 2**20:.0f} MiB, {allowed / 2**20:.0f} MiB of free disk in {copy.folder}"
    problem = None if needed <= allowed else "decoded again in every epoch"
    try:
        for block in blocks if problem is None else ():
            copy.append(block)
    except PermafrostError as error:
        problem = f"decoded again in every epoch, since {error.problem}"
    print(f"{label}: {problem or 'decoded once'} ({sizes})", file=sys.stderr, flush=True)
    return copy if problem is None else None
