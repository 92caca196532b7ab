"""Kind ``table``: a CSV or parquet file with one row per image, beside a directory or an archive."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError, near_names
from permafrost.data.decode import decode_image
from permafrost.data.entry import DatasetEntry
from permafrost.data.files import check_name, open_members
from permafrost.data.masks import mask_coding
from permafrost.data.rasters import TargetCoding
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import class_ids, declared_bands, decoding_of, required_classes
from permafrost.data.sources.reading import locate_member, read_member, read_pair
from permafrost.data.targets import PIXEL_REGRESSION, REGRESSION

_PLACEHOLDER = re.compile(r"<([^<>]+)>")
#: task -> the option that names a file of its own for every image
_PIXELS = {"segmentation": "masks", PIXEL_REGRESSION: "targets"}
#: task -> option of the source that its labels need
_LABELS = {"classification": "label", "multilabel": "labels", REGRESSION: "target", **_PIXELS}
_YES, _NO = {"1", "true", "yes", "1.0"}, {"0", "false", "no", "0.0"}


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of a table of images.

    Attributes
    ----------
    table : CSV or parquet file.
    images : directory or archive that holds the images.
    path : a column, or a pattern such as ``2750/<class>/<filename>`` whose ``<…>`` are columns.
    label : column of the class.
    labels : columns of 0 and 1, or ``{column, separator}``.
    masks, targets : columns or patterns of files of masks or of rasters of numbers.
    target : column of numbers.
    split, lon, lat, date : columns.
    group : column or pattern.
    """

    table: str
    images: str
    path: str
    label: str | None = None
    labels: list[str] | dict[str, str] | None = None
    masks: str | None = None
    targets: str | None = None
    target: str | None = None
    split: str | None = None
    group: str | None = None
    lon: str | None = None
    lat: str | None = None
    date: str | None = None


class TableSource:
    """Images listed by a table."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        options: TableOptions = entry.source
        self.task = entry.task
        self._table = Table(Path(options.table), where)
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = entry.ignore_index
        self._decoding = decoding_of(entry, self.bands)
        self._members = open_members(options.images, where=where)
        place = Path(options.images)
        self._names = [check_name(n, place, where) for n in self._table.text(options.path)]
        self._check_files(self._names, "files", options, where)
        self._masks, kind = None, _PIXELS.get(self.task)
        if kind is not None:
            masks = self._table.text(getattr(options, kind))
            self._masks = [check_name(name, place, where) for name in masks]
            self._check_files(self._masks, kind, options, where)
        self.classes, labels = self._labels(entry, options, where)
        if self.task == PIXEL_REGRESSION:
            self._coding = TargetCoding.of(entry.target)
        elif self._masks is not None:
            self._coding = mask_coding(entry, self.classes, where=where)
        columns = {
            "split": self._table.optional(options.split),
            "group_id": self._table.optional(options.group),
            "lon": self._table.numbers(options.lon),
            "lat": self._table.numbers(options.lat),
            "date": self._table.optional(options.date),
        }
        self._records = [
            Record(
                sample_id=name,
                label=labels[i],
                **{key: column[i] for key, column in columns.items()},
            )
            for i, name in enumerate(self._names)
        ]

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        image = self._names[index]
        if self._masks is None:
            return decode_image(read_member(self._members, image), self._decoding)
        return read_pair(self._members, image, self._masks[index], self._decoding, self._coding)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._names[index])

    def _labels(self, entry: DatasetEntry, options: TableOptions, where):
        declared = entry.classes
        if self.task == "segmentation":
            return required_classes(entry, where=where), [None] * len(self._names)
        if self.task == PIXEL_REGRESSION:
            return [], [None] * len(self._names)
        if self.task == REGRESSION:
            return [], self._table.targets(options.target)
        if self.task == "classification":
            names = self._table.text(options.label)
            classes, ids = class_ids(names, declared, where=where)
            return classes, [ids[name] for name in names]
        labels = options.labels
        if isinstance(labels, dict):
            return self._separated(labels, declared, where)
        classes = list(declared) if declared else list(labels)
        if len(classes) != len(labels):
            raise PermafrostError(
                f"classes lists {len(classes)} names for {len(labels)} label columns",
                where=where,
                remedy="give one class name per column, in the same order, or remove classes",
            )
        columns = [self._table.flags(column) for column in labels]
        return classes, list(zip(*columns, strict=True))

    def _separated(self, labels: dict, declared, where):
        cells = self._table.optional(labels["column"])
        lists = [
            [part.strip() for part in (cell or "").split(labels["separator"]) if part.strip()]
            for cell in cells
        ]
        classes, ids = class_ids([n for names in lists for n in names], declared, where=where)
        vectors = []
        for names in lists:
            present = {ids[name] for name in names}
            vectors.append(tuple(int(number in present) for number in range(len(classes))))
        return classes, vectors

    def _check_files(self, wanted: Sequence[str], what: str, options: TableOptions, where) -> None:
        known = set(self._members.names)
        missing = [name for name in wanted if name not in known]
        if missing:
            raise PermafrostError(
                f"{len(missing)} of {len(wanted)} {what} listed in {options.table} are not in "
                f"{options.images}: {', '.join(missing[:20])}",
                where=where,
                remedy=f"correct {'path' if what == 'files' else what} in the entry, or complete the {what}",
            )


class Table:
    """Columns of a CSV (header line, UTF-8) or parquet file, all as text; empty cells are None."""

    def __init__(self, path: Path, where: object) -> None:
        self.path, self.where = path, where
        if not path.is_file():
            raise PermafrostError(
                f"{path} does not exist", where=where, remedy="correct table in the entry"
            )
        reader = _read_parquet if path.suffix.lower() in (".parquet", ".pq") else _read_csv
        try:
            self.columns = reader(path)
        except Exception as error:
            raise PermafrostError(
                f"{path} cannot be read as a table ({error})",
                where=where,
                remedy="give a CSV with a header line, or a parquet file",
            ) from error

    def optional(self, pattern: str | None) -> list[str | None]:
        """A column, or a pattern of columns; all None where the entry names none."""
        if pattern is None:
            return [None] * len(next(iter(self.columns.values()), []))
        names = _PLACEHOLDER.findall(pattern)
        if not names:
            return self._column(pattern)
        columns = [self._column(name) for name in names]
        return [
            None if None in cells else _fill(pattern, dict(zip(names, cells, strict=True)))
            for cells in zip(*columns, strict=True)
        ]

    def text(self, pattern: str) -> list[str]:
        """Like `optional`, without empty cells."""
        return self._convert(pattern, lambda cell: cell)

    def numbers(self, column: str | None) -> list[float | None]:
        if column is None:
            return self.optional(None)
        return self._convert(column, float, empty=True)

    def targets(self, column: str) -> list[float]:
        """A column of finite numbers; an empty cell is an error."""

        def finite(cell: str) -> float:
            if not math.isfinite(number := float(cell)):
                raise ValueError
            return number

        return self._convert(column, finite)

    def flags(self, column: str) -> list[int]:
        """A column of 0 and 1 (or true and false)."""

        def flag(cell: str) -> int:
            if cell.lower() not in _YES | _NO:
                raise ValueError
            return int(cell.lower() in _YES)

        return self._convert(column, flag)

    def _convert(self, pattern: str, convert: Callable, *, empty: bool = False) -> list:
        values = []
        for line, cell in enumerate(self.optional(pattern), start=2):
            try:
                if cell is None and not empty:
                    raise ValueError
                values.append(None if cell is None else convert(cell))
            except ValueError:
                raise PermafrostError(
                    f"row {line} has {cell!r} in {pattern}",
                    where=f"{self.where}: {self.path}",
                    remedy="correct the table",
                ) from None
        return values

    def _column(self, name: str) -> list[str | None]:
        if name not in self.columns:
            raise PermafrostError(
                f"{self.path} has no column {name!r}; {near_names(name, self.columns)}",
                where=self.where,
                remedy="name an existing column",
            )
        return self.columns[name]


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Refuse a source that does not say where the labels stand."""
    key = _LABELS[entry.task]
    if getattr(entry.source, key) is None:
        raise PermafrostError(
            f"the task {entry.task} needs {key} in source",
            where=where,
            remedy=f"name it with {key}",
        )


def _fill(pattern: str, cells: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: cells[match.group(1)], pattern)


def _read_csv(path: Path) -> dict[str, list[str | None]]:
    with open(path, newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream, strict=True)
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise ValueError("two columns have the same name")
        rows = [row for row in reader if row]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} cells, the header {len(header)}")
    return {name: [row[i] or None for row in rows] for i, name in enumerate(header)}


def _read_parquet(path: Path) -> dict[str, list[str | None]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, partitioning=None)
    return {
        name: [None if v is None else str(v) for v in column.to_pylist()]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
