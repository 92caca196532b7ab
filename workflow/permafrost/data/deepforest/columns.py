"""Read named columns from a CSV file, a data frame, an Arrow table, a mapping or a list of records."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.inputs import read_bytes

#: further rows that one error names
SHOWN = 20


class WrongRows(PermafrostError):
    """Rows of a table are wrong; `rows` holds their indices so that a caller may drop them."""

    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Columns:
    """Unconverted values (text if from a file) and each row's position in the source."""

    values: dict[str, list]
    rows: list[int]
    where: str
    unit: str  # "line" of a file or "row" of a frame, counted from 1

    def place(self, index: int) -> str:
        return f"{self.where}: {self.unit} {self.rows[index]}"

    def refuse(
        self, wrong, problem: str, remedy: str = "correct the table", *, leave_out=None
    ) -> NoReturn:
        """Raise an error about the rows at the indices `wrong`; `problem` describes the first of them.

        `leave_out` are the rows to drop to solve it, if they are others.

        Raises
        ------
        WrongRows : always; names further rows by their numbers, up to a limit.
        """
        rows = tuple(int(index) for index in wrong)
        first, *others = rows
        if others:
            numbers = ", ".join(str(self.rows[index]) for index in others[:SHOWN])
            more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
            plural = f"{self.unit}s" if len(others) > 1 else self.unit
            problem = f"{problem}; the like in {plural} {numbers}{more}"
        error = WrongRows(problem, where=self.place(first), remedy=remedy)
        error.rows = rows if leave_out is None else tuple(map(int, leave_out))
        raise error

    def without(self, wrong) -> Columns:
        """The table without the rows at the indices `wrong`."""
        wrong = set(wrong)
        kept = [index for index in range(len(self.rows)) if index not in wrong]
        values = {name: [column[i] for i in kept] for name, column in self.values.items()}
        return replace(self, values=values, rows=[self.rows[i] for i in kept])


def read_columns(source, what: str) -> Columns:
    """The columns of `source`.

    Parameters
    ----------
    source : `Columns`; path of a CSV file; anything with ``columns`` and ``[name]`` (pandas, geopandas); an
        Arrow table; a mapping of names to sequences; or a list of mappings with the same keys.
    what : ``truth`` or ``predictions``, how messages name a source that is not a file.

    Raises
    ------
    PermafrostError : the file cannot be read or is not a table; columns differ in length.
    """
    if isinstance(source, Columns):
        return source
    if isinstance(source, str | Path):
        return _from_csv(Path(source))
    if hasattr(source, "to_pydict"):
        values = source.to_pydict()
    elif isinstance(source, Mapping):
        values = {str(name): list(column) for name, column in source.items()}
    elif hasattr(source, "columns"):
        values = {str(name): list(source[name]) for name in source.columns}
    elif isinstance(source, list | tuple):
        values = _from_records(source, what)
    else:
        raise PermafrostError(
            f"a {type(source).__name__} is not a table of crowns",
            where=what,
            remedy="give the path of a CSV file, a data frame or a list of records",
        )
    lengths = {len(column) for column in values.values()}
    if len(lengths) > 1:
        raise PermafrostError(f"the columns have different lengths {sorted(lengths)}", where=what)
    return Columns(values, list(range(1, 1 + (lengths.pop() if lengths else 0))), what, "row")


def _from_records(records, what: str) -> dict[str, list]:
    names = list(records[0]) if records else []
    for number, record in enumerate(records, 1):
        if set(record) != set(names):
            odd = sorted(map(str, set(record) ^ set(names)))
            raise PermafrostError(
                f"its fields differ from those of row 1 ({', '.join(odd)})",
                where=f"{what}: row {number}",
                remedy="give every record the same fields",
            )
    return {str(name): [record[name] for record in records] for name in names}


def _from_csv(path: Path) -> Columns:
    return csv_columns(read_bytes(path), str(path))


def csv_columns(data: bytes, where: str) -> Columns:
    """The columns of a CSV file's content; raises `PermafrostError` if it is not a CSV file."""
    try:
        # utf-8-sig: spreadsheets write a byte order mark before the first name
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        reader = csv.reader(text, strict=True)
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, where)
        cells, lines = [], []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise PermafrostError(
                    f"{len(row)} cells under {len(header)} names",
                    where=f"{where}: line {reader.line_num}",
                    remedy="put values that hold a comma in double quotes",
                )
            cells.append(row)
            lines.append(reader.line_num)
    except (UnicodeDecodeError, csv.Error) as error:
        raise PermafrostError(
            f"not a CSV file in UTF-8 ({first_line(error)})",
            where=where,
            remedy="write the table as CSV in UTF-8",
        ) from error
    columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in header]
    return Columns(dict(zip(header, columns, strict=True)), lines, where, "line")


def _check_header(header: list[str], path: str) -> None:
    if not header:
        raise PermafrostError(
            "the file is empty", where=path, remedy="write at least the header line"
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise PermafrostError(f"the column {twice[0]!r} occurs more than once", where=path)
