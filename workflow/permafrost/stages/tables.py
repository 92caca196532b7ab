"""Tables that a command writes where its user says."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file


def write_output(path: Path, table) -> None:
    """Write a table as .csv or .parquet.

    Raises
    ------
    PermafrostError : another suffix, or a file that cannot be written.
    """
    from permafrost.core.tables import write_csv

    if path.suffix == ".csv":
        write_csv(path, table)
    elif path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with whole_file(path) as partial:
            pq.write_table(table, partial)
    else:
        raise PermafrostError(
            f"tables cannot be written as {path.suffix!r}",
            where=path,
            remedy="use .csv or .parquet",
        )
