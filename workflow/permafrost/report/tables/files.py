"""Tables as files, whose form is that of the name's ending."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.core.tables import write_csv


def write_by_ending(path: Path, table: pa.Table) -> None:
    """Write a table as .csv or .parquet.

    Raises
    ------
    PermafrostError : another ending.
    """
    if path.suffix == ".csv":
        write_csv(path, table)
    elif path.suffix == ".parquet":
        with whole_file(path) as partial:
            pq.write_table(table, partial)
    else:
        raise PermafrostError(
            f"tables cannot be written as {path.suffix!r}",
            where=path,
            remedy="use .csv or .parquet",
        )
