"""Tables that users name, as text."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line, look_up
from permafrost.core.inputs import check_file
from permafrost.data.sources.table_files import Cell, read_file, row_groups


def columns_of(path: Path, *, remedy: str) -> dict[str, list[Cell]]:
    """The text of each row by column, of a CSV or parquet file; None for an empty cell.

    Raises
    ------
    PermafrostError : the file is missing or cannot be read as a table; the message ends with `remedy`.
    """
    check_file(path)
    try:
        return read_file(path, path, row_groups()).columns
    except PermafrostError:
        raise
    except Exception as error:  # a damaged file raises errors of any type
        raise PermafrostError(
            f"cannot be read as a table ({first_line(error)})", where=path, remedy=remedy
        ) from error


def values_of(path: Path, column: str = "") -> tuple[str, dict[str, str]]:
    """A column of values of a table with ``sample_id`` or ``group_id``; its only other column if unnamed.

    Returns
    -------
    ``sample_id`` or ``group_id``, whichever the table has, and name -> value, without empty cells.

    Raises
    ------
    PermafrostError : as `columns_of`; there is no such column, or a name has two values.
    """
    columns = columns_of(
        path, remedy="give a CSV or parquet file with sample_id or group_id and a column of values"
    )
    key = next((name for name in ("sample_id", "group_id") if name in columns), None)
    others = [name for name in columns if name != key]
    if key is None or not others:
        raise PermafrostError(
            "the table needs a column sample_id or group_id, and one of values",
            where=path,
            remedy="write for example sample_id,sensor in the first line",
        )
    if not column and len(others) > 1:
        raise PermafrostError(
            f"the table has several columns: {', '.join(others)}",
            where=path,
            remedy=f"name one of them: {path}:{others[0]}",
        )
    column = column or others[0]
    look_up(others, column, "the table has no column", where=path)
    values: dict[str, Cell] = {}
    for name, value in zip(columns[key], columns[column], strict=True):
        if name is not None and values.setdefault(name, value) != value:
            raise PermafrostError(
                f"{name!r} of the column {key} has two values of {column}",
                where=path,
                remedy="give it one row",
            )
    return key, {name: value for name, value in values.items() if value is not None}
