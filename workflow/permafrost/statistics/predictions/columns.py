"""Columns of prediction tables as arrays, their order, and the common part of tables with one
target per sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile
from permafrost.core.tables import iter_column

#: scores of more bytes stay on disk
HELD_BYTES = 128 << 20
# table rows decoded at a time; 16 MB for a thousand classes
_ROWS_TOGETHER = 4096
_REMEDY = "run its evaluation again"


def need_columns(table, names) -> None:
    """Refuse a table that lacks one of `names`."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise PermafrostError(
            f"the prediction table lacks the columns {', '.join(missing)}", remedy=_REMEDY
        )


def array_of(table, name: str, width: int | None = None) -> np.ndarray:
    """A column as an array: (N,), or (N, width) for lists of a fixed size.

    Raises
    ------
    PermafrostError : a value is null; lists of another length than `width`.
    """
    return array_of_column(table.column(name).combine_chunks(), name, width)


def array_of_column(column, name: str, width: int | None = None) -> np.ndarray:
    """Like `array_of`, for the column itself.

    Raises
    ------
    PermafrostError : as in `array_of`.
    """
    size = getattr(column.type, "list_size", None)
    if width is not None and size != width:
        what = f"lists of {size} numbers" if size else f"the type {column.type}"
        raise PermafrostError(
            f"the column {name!r} of the prediction table has {what}, not lists of {width} numbers",
            remedy=_REMEDY,
        )
    values = column if size is None else column.flatten()
    if column.null_count or values.null_count:
        raise PermafrostError(
            f"the column {name!r} of the prediction table has empty entries", remedy=_REMEDY
        )
    flat = values.to_numpy(zero_copy_only=False)
    return flat if size is None else flat.reshape(len(column), size)


def groups_of(table) -> list | None:
    """The groups of a table's rows; None if no group is known."""
    if "group_id" not in table.column_names:
        return None
    column = table.column("group_id")
    return None if column.null_count == len(column) else column.to_pylist()


def sorted_rows(sample_ids, groups) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(order, sample ids, groups) sorted by sample id: results ignore the table's order."""
    ids = np.array(list(map(str, sample_ids)))
    order = np.argsort(ids, kind="stable")
    if groups is not None:
        groups = np.asarray(groups, dtype=object)[order]
        groups = None if all(group is None for group in groups) else groups
    return order, ids[order], groups


def list_rows(path: Path, name: str, order: np.ndarray, scratch: Path) -> np.ndarray | RowFile:
    """(N, K) values of a column of lists, with the rows of the table in the given `order`.

    Parameters
    ----------
    path : of a table that `core.tables.read_table` has checked.
    scratch : folder for a file of rows that exceed `HELD_BYTES`.
    """
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    rows: np.ndarray | RowFile | None = None
    start = 0
    for column in iter_column(path, name, _ROWS_TOGETHER):
        block = array_of_column(column, name)
        if rows is None:
            shape = (len(order), *block.shape[1:])
            if block.ndim == 2 and int(np.prod(shape)) * block.itemsize > HELD_BYTES:
                rows = RowFile(shape[1], scratch, block.dtype)
            else:
                rows = np.empty(shape, block.dtype)
        if isinstance(rows, RowFile):
            rows.append(block)
        else:
            rows[ranks[start : start + len(block)]] = block
        start += len(block)
    if rows is None:
        return np.empty((0, 0), np.float32)
    if isinstance(rows, RowFile) and (order[1:] < order[:-1]).any():
        unordered, rows = rows, RowFile(rows.width, scratch, rows.dtype)
        for block in unordered.blocks():
            rows.append(unordered[order[block]])
    return rows


class Targets:
    """Part of `Predictions`; needs ``sample_ids``, ``target`` and ``prediction`` or ``answers``."""

    sample_ids: np.ndarray
    target: np.ndarray
    prediction: np.ndarray
    dead_classes: tuple[int, ...] = ()
    rules: tuple = ()
    boundary = False

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def truth(self) -> np.ndarray:
        return self.target

    @property
    def truth_keys(self) -> np.ndarray:
        return self.target

    @property
    def answers(self) -> np.ndarray:
        return self.prediction
