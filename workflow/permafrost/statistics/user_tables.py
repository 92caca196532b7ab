"""Tables that users name, as text."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line
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
