"""Input as arrays or data frames: an array or list per column instead of an object per entry."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs.columns import Columns

# columns in which NaN means missing, as in data frames; elsewhere NaN is invalid
_OPTIONAL = frozenset(
    ("id", "bbox", "area", "iscrowd", "ignore", "segmentation", "keypoints", "num_keypoints")
    + ("width", "height", "name", "frequency", "obb", "poly")
)
# columns of pycocotools' arrays of detections (`COCO.loadNumpyAnnotations`)
_WIDTH = 7


class Table:
    """Columns of equal length.

    Parameters
    ----------
    columns : name to array, tensor, list, or series of a data frame, with a value (or a row of numbers)
        per entry.
    where : name of the table, for messages.

    Raises
    ------
    PermafrostError : columns of different lengths.
    """

    def __init__(self, columns: Mapping, where: str) -> None:
        self.where = where
        self.columns = {str(name): _column(value, name, where) for name, value in columns.items()}
        lengths = {name: len(column) for name, column in self.columns.items()}
        self.length = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != self.length:
                first = next(iter(lengths))
                raise PermafrostError(
                    f"the column {name} has {length} values, {first} has {self.length}",
                    where=where,
                    remedy="give every column a value per entry",
                )

    def __len__(self) -> int:
        return self.length

    def values(self, name: str) -> list:
        """The values of a column as Python numbers, strings and lists; None if missing."""
        column = self.columns.get(name)
        if column is None:
            return [None] * len(self)
        values = column.tolist() if isinstance(column, np.ndarray) else column
        if name in _OPTIONAL and not (
            isinstance(column, np.ndarray) and column.dtype.kind in "iub"
        ):
            return [None if _missing(value) else value for value in values]
        return values

    def entries(self) -> list[dict]:
        """A dict per entry, without its missing values."""
        names = list(self.columns)
        rows = zip(*map(self.values, names), strict=True)
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in rows
        ]

    def numbers(self, name: str, dimensions: int) -> np.ndarray | None:
        """A copy of a column that is a numeric array with this number of dimensions, else None."""
        column = self.columns.get(name)
        if not isinstance(column, np.ndarray) or column.ndim != dimensions:
            return None
        return column.astype(np.float64) if column.dtype.kind in "iuf" else None


class ArrayColumns(Columns):
    """Reads a `Table` like `Columns` reads a list of objects, with the same values and errors."""

    def __init__(self, table: Table, source: str, section: str, *, drop: bool) -> None:
        super().__init__((), source, section, drop=drop)
        self.table = table
        self.bad = np.zeros(len(table), bool)
        self._entries: list[dict] | None = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def entries(self):
        """All entries as dicts, for messages."""
        if self._entries is None:
            self._entries = self.table.entries()
        return self._entries

    @entries.setter
    def entries(self, value) -> None:
        pass

    def first(self) -> dict:
        names = self.table.columns
        values = ((name, self.table.values(name)[0]) for name in names)
        return {name: value for name, value in values if value is not None}

    def all_have(self, key: str) -> bool:
        return None not in self.table.values(key)

    def raw(self, key: str, *, required: bool = True) -> tuple[list, np.ndarray]:
        values = self.table.values(key)
        present = np.array([value is not None for value in values], bool)
        if required:
            self.refuse(np.flatnonzero(~present), f"has no {key}")
        return values, present

    def numbers(self, key: str, *, required: bool = True, missing: float = np.nan) -> np.ndarray:
        numbers = self.table.numbers(key, 1)
        if numbers is None:
            return super().numbers(key, required=required, missing=missing)
        present = np.ones(len(self), bool)
        if key in _OPTIONAL:
            present = ~np.isnan(numbers)
            numbers[~present] = missing
        if required:
            self.refuse(np.flatnonzero(~present), f"has no {key}")
        self._within(numbers, present, key)
        return numbers

    def vectors(
        self, key: str, length: int, *, required: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        vectors = self.table.numbers(key, 2)
        if vectors is None or vectors.shape[1] != length or key not in _OPTIONAL:
            return super().vectors(key, length, required=required)
        present = ~np.isnan(vectors).all(axis=1)
        if required:
            self.refuse(np.flatnonzero(~present), f"has no {key}")
        self._vectors_within(vectors, present, key)
        return vectors, present


def columns_of(value, source: str, section: str, *, drop: bool) -> Columns:
    """The reader of a list of objects or of a `Table`."""
    if isinstance(value, Table):
        return ArrayColumns(value, source, section, drop=drop)
    return Columns(value, source, section, drop=drop)


def as_table(value, where: str) -> Table | None:
    """A data frame, or a mapping of columns, as a table; None for anything else."""
    if isinstance(value, Mapping):
        columns = value if value and all(map(_is_column, value.values())) else None
    else:
        columns = _frame(value, where)
    return None if columns is None else Table(columns, where)


def detection_table(values: np.ndarray, where: str) -> Table:
    """A table from rows [image_id, x, y, width, height, score, category_id], as in pycocotools.

    Raises
    ------
    PermafrostError : an array of another shape.
    """
    if values.ndim != 2 or values.shape[1] != _WIDTH:
        raise PermafrostError(
            f"the array has the shape {values.shape}",
            where=where,
            remedy="give (N, 7) numbers: image_id, x, y, width, height, score, category_id",
        )
    columns = {"image_id": values[:, 0], "category_id": values[:, 6], "score": values[:, 5]}
    return Table({**columns, "bbox": values[:, 1:5]}, where)


def _is_column(value) -> bool:
    return isinstance(value, list | tuple) or (
        hasattr(value, "__array__") and getattr(value, "ndim", 1) > 0
    )


def _frame(value, where: str) -> dict | None:
    """The columns of a data frame, recognised without importing pandas, polars or pyarrow."""
    if hasattr(value, "column_names") and hasattr(value, "column"):
        return {name: value.column(name).to_pylist() for name in value.column_names}
    if not (hasattr(value, "columns") and hasattr(value, "to_dict")):
        return None
    names = list(value.columns)
    if len(set(names)) < len(names):
        raise PermafrostError("two columns of the data frame have one name", where=where)
    return {name: value[name] for name in names}


def _column(value, name: str, where: str) -> np.ndarray | list:
    """An array of numbers, (N,) or (N, M), or a list of N values."""
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().numpy()
    elif hasattr(value, "to_list") and hasattr(value, "dtype"):  # a series of pandas or polars
        value = _series(value)
    if isinstance(value, list | tuple):
        return [item.tolist() if hasattr(item, "tolist") else item for item in value]
    array = np.asarray(value)
    if not array.ndim:
        raise PermafrostError(f"the column {name} has no length", where=where)
    if array.dtype.kind not in "iufb":
        return [item.tolist() if hasattr(item, "tolist") else item for item in array.tolist()]
    # points as (N, J, 3)
    return array.reshape(len(array), -1) if array.ndim > 2 else array


def _series(series):
    """A numeric series as an array, any other as a list with None for missing values."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb":
        return series.to_numpy()
    values = series.to_list()
    if hasattr(series, "notna"):
        there = series.notna().to_list()
        values = [value if known else None for value, known in zip(values, there, strict=True)]
    return values


def _missing(value) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(v, float) and math.isnan(v) for v in value)
    return value is None
