"""Table columns as text, and the images in table cells."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from permafrost.core.errors import PermafrostError, look_up
from permafrost.data.files.members import open_members
from permafrost.data.sources import table_stac, table_zarr
from permafrost.data.sources.pairing import name_pattern
from permafrost.data.sources.table_files import ENDINGS, Cell, TableFile, read_file, row_groups

_PLACEHOLDER = re.compile(r"<([^<>]+)>")
_YES, _NO = {"1", "true", "yes", "1.0"}, {"0", "false", "no", "0.0"}


class Table:
    """Columns of one file or of several concatenated ones, all as text; empty cells are None.

    A column of images holds a name for each; `images` reads the bytes by this name.

    Parameters
    ----------
    place : a file (see `table_files`), a zarr store, or the folder of `files`.
    files : pattern of file names in the folder, or of groups in the store; its parts in ``<…>``
        become columns. None for all files, or the store's own arrays.

    Raises
    ------
    PermafrostError : no file matches, or one cannot be read.
    """

    def __init__(self, place: str, files: str | None = None, *, where: object) -> None:
        self.path, self.where = Path(place), where
        self._groups = row_groups()
        shards = self._shards(files)
        self._files = {name: self._read(name) for name in shards}
        read = [(self._files[name], parts) for name, parts in shards.items()]
        self.columns: dict[str, list[Cell]] = {}
        self.classes: dict[str, list[str]] = {}
        named = dict.fromkeys(column for file, parts in read for column in (*file.columns, *parts))
        for column in named:
            self.columns[column] = [
                cell
                for file, parts in read
                for cell in file.columns.get(column, [parts.get(column)] * len(file))
            ]
        for file, _ in read:
            self.classes |= file.classes
        self.images = CellImages(self.path, [file for file, _ in read])
        self.columns |= self.images.columns

    def _shards(self, files: str | None) -> dict[str, dict[str, str]]:
        """Files of the table, or groups of a zarr store, in order, with their parts in ``<…>``.

        Names are relative to the table's path; the empty name is the path itself.
        """
        place, where = self.path, self.where
        self._names: frozenset[str] = frozenset()
        self._store = place.exists() and table_zarr.is_store(place)
        if place.is_file() and not (self._store and files):
            return {"": {}}
        if not place.exists():
            raise PermafrostError(
                f"{place} does not exist", where=where, remedy="correct table in the entry"
            )
        if place.is_dir():
            names = open_members(place, where=where, read=False).names
            self._names = frozenset(names)
        if self._store:
            found = {"": {}} if files is None else _matching(self._groups_of(place), files, where)
        else:
            names = table_zarr.with_stores(names)
            found = _by_ending(names) if files is None else _matching(names, files, where)
        if not found:
            raise PermafrostError(
                f"{place} holds no {files or 'CSV, parquet, tar, zarr or JSON'}",
                where=where,
                remedy='correct files in source, e.g. files: "data/<split>-<shard>.parquet"',
            )
        return found

    def _groups_of(self, place: Path) -> list[str]:
        with self._read_as(place):
            return table_zarr.group_names(place)

    def _read(self, name: str) -> TableFile:
        path = self.path / name
        with self._read_as(path):
            if self._store:
                return table_zarr.read_group(self.path, name)
            if table_zarr.is_store(path):
                return table_zarr.read_group(path)
            if path.name.lower().endswith(table_stac.ENDINGS):
                # the assets of a single file are not part of the table's identity
                return table_stac.read_items(path, self.path if name else None, self._names)
            return read_file(path, self.where, self._groups)

    @contextlib.contextmanager
    def _read_as(self, path: Path) -> Iterator[None]:
        try:
            yield
        except PermafrostError:
            raise
        except Exception as error:
            raise PermafrostError(
                f"{path} cannot be read as a table ({error})",
                where=self.where,
                remedy="give a CSV with a header line and commas, a parquet file, a tar of samples, a zarr store or"
                " items of STAC",
            ) from error

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), []))

    def optional(self, pattern: str | None) -> list[str | None]:
        """A column, or a pattern of columns; all None if the entry names none."""
        if pattern is None:
            return [None] * len(self)
        names = _PLACEHOLDER.findall(pattern)
        if not names:
            return self._column(pattern)
        columns = [self._column(name) for name in names]
        return [
            None if None in cells else _fill(pattern, dict(zip(names, cells, strict=True)))
            for cells in zip(*columns, strict=True)
        ]

    def text(self, pattern: str) -> list[str]:
        """Like `optional`, but empty cells are an error."""
        return self._convert(pattern, lambda cell: cell)

    def labels(self, column: str) -> list[str]:
        """A column of lists of labels; an empty list means no label. Raises `PermafrostError` for a missing cell."""
        cells = self.optional(column)
        if None in cells:
            count, first = cells.count(None), self._row(cells.index(None))
            raise PermafrostError(
                f"{count} of {len(cells)} samples have nothing in {column}, the first is {first}",
                where=f"{self.where}: {self.path}",
                remedy="correct the table; or, if they have none of the labels, write in source"
                f" labels: {{column: {column}, missing: empty}}",
            )
        return cells

    def numbers(self, column: str | None) -> list[float | None]:
        if column is None:
            return cast("list[float | None]", self.optional(None))
        return self._convert(column, float, empty=True)

    def targets(self, column: str) -> list[float]:
        """A column of finite numbers; raises `PermafrostError` for other cells, also empty ones."""

        def finite(cell: str) -> float:
            if not math.isfinite(number := float(cell)):
                raise ValueError
            return number

        return self._convert(column, finite)

    def flags(self, column: str) -> list[int]:
        """A column of 0 and 1 (or true and false); raises `PermafrostError` for other cells."""

        def flag(cell: str) -> int:
            if cell.lower() not in _YES | _NO:
                raise ValueError
            return int(cell.lower() in _YES)

        return self._convert(column, flag)

    def _convert(self, pattern: str, convert: Callable, *, empty: bool = False) -> list:
        values = []
        for row, cell in enumerate(self.optional(pattern)):
            try:
                if cell is None and not empty:
                    raise ValueError
                values.append(None if cell is None else convert(cell))
            except ValueError:
                raise PermafrostError(
                    f"{self._row(row)} has {'an empty cell' if cell is None else repr(cell)} in {pattern}",
                    where=f"{self.where}: {self.path}",
                    remedy="correct the table",
                ) from None
        return values

    def _row(self, row: int) -> str:
        """Name of a row for messages: its number in its own file, and that file if there are several."""
        for name, file in self._files.items():
            if row < len(file):
                return f"row {row + file.first}{f' of {name}' if len(self._files) > 1 else ''}"
            row -= len(file)
        raise IndexError(row)

    def _column(self, name: str) -> list[str | None]:
        return look_up(
            self.columns,
            name,
            f"{self.path} has no column",
            where=self.where,
            remedy="name an existing column",
        )


def _fill(pattern: str, cells: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: cells[match.group(1)], pattern)


def _matching(names: Iterable[str], files: str, where: object) -> dict[str, dict[str, str]]:
    """The names that match a pattern, with the texts of its ``<…>``."""
    pattern = name_pattern(files, None, where)
    matches = {name: pattern.fullmatch(name) for name in names}
    return {name: match.groupdict() for name, match in matches.items() if match}


def _by_ending(names: list[str]) -> dict[str, dict[str, str]]:
    """The tables among the files of a folder; STAC items if there are no others."""
    for endings in ((*ENDINGS, *table_zarr.ENDINGS), table_stac.ENDINGS):
        if found := [name for name in names if name.lower().endswith(endings)]:
            return {name: {} for name in found}
    return {}


class CellImages:
    """The images in table cells, with the interface of members: ``image/0007``, ``image/field_7.png``."""

    def __init__(self, place: Path, files: list[TableFile]) -> None:
        self.place = place
        self.columns: dict[str, list[Cell]] = {}
        self._found: dict[str, tuple[TableFile, str, int]] = {}
        rows = [(file, row) for file in files for row in range(len(file))]
        for column in dict.fromkeys(column for file in files for column in file.images):
            # a sample in a tar may lack a file
            given = [
                file.images[column][row] if column in file.images else None for file, row in rows
            ]
            unique = None not in given and len(set(given)) == len(given)
            names = given if unique else [f"{number:07d}" for number in range(len(rows))]
            self.columns[column] = [f"{column}/{name}" for name in names]
            for name, (file, row) in zip(self.columns[column], rows, strict=True):
                if file.read is not None:
                    self._found[name] = (file, column, row)
        self.names = sorted(self._found)

    def read(self, name: str) -> bytes:
        file, column, row = self._found[name]
        if column not in file.images:
            raise OSError(f"the sample has no {column}")
        return file.read(column, row)

    def size(self, name: str) -> int:
        return len(self.read(name))

    def open(self, name: str) -> IO[bytes]:
        return io.BytesIO(self.read(name))

    def location(self, name: str) -> str:
        raise NotImplementedError(f"{name} is not a file")

    def verify(self, name: str) -> None:
        """Does nothing: tables have no checksums of cells."""
