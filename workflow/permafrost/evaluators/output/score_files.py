"""Write the scores of an evaluation as JSON, and tables as parquet or CSV."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.identity import fingerprint
from permafrost.core.outputs import Group, whole_file

TABLE_FORMATS = ("parquet", "csv")
# a spreadsheet would run a text with this start as a formula
_FORMULA = "^[=+@\\t\\r-]"


def write_scores(
    path: Path, *, options: dict, rows: list[dict], group: Group | None = None, **more
) -> None:
    """Write the scores at full precision as JSON; undefined numbers are null."""
    content = {"options": options, "scores": rows, **more}
    with whole_file(path, group=group) as partial:
        text = json.dumps(content, indent=1, default=str, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def check_table_format(kind: str) -> None:
    """Refuse an unknown table format."""
    look_up(TABLE_FORMATS, kind, "tables are not written as", where="--table-format")


def write_tables(
    folder: Path,
    tables: dict,
    options: dict,
    *,
    kind: str = "parquet",
    group: Group | None = None,
) -> None:
    """Write each table as ``{name}.parquet`` or ``{name}.csv``.

    Parquet carries a fingerprint of the options and of the inputs' content; for CSV see
    `csv_bytes`. With a `group` of `core.outputs.together`, all files are renamed into place
    together.
    """
    check_table_format(kind)
    if kind == "csv":
        for name, table in tables.items():
            with whole_file(folder / f"{name}.csv", group=group) as partial:
                partial.write_bytes(csv_bytes(table, name))
        return
    from permafrost.core.tables import write_table

    named = {
        key: value["sha256"] if isinstance(value, dict) else value for key, value in options.items()
    }
    identity = fingerprint(json.loads(json.dumps(named, default=str)))
    for name, table in tables.items():
        metadata = {"fingerprint": identity, "table": name}
        write_table(folder / f"{name}.parquet", table, metadata, group=group)


def csv_bytes(table, name: str) -> bytes:
    """An Arrow table as CSV in UTF-8, with a header row.

    Numbers have enough digits to be read back exactly. Undefined values are empty. Texts are
    quoted. A text that a spreadsheet would run as a formula (it begins with = + - @, a tab or a
    carriage return) gets a leading apostrophe, which spreadsheets understand. Binary columns are
    shapes in WKB, written as WKT.

    Raises
    ------
    PermafrostError : a column of lists or records, which CSV cannot represent.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(field.type):
            raise PermafrostError(
                f"the column {field.name} holds lists or records, which CSV cannot",
                where=f"table {name}",
                remedy="write parquet",
            )
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            formula = pc.fill_null(pc.match_substring_regex(column, _FORMULA), False)
            marked = pc.binary_join_element_wise("'", pc.fill_null(column, ""), "")
            column = pc.if_else(formula, marked, column)
        elif pa.types.is_binary(field.type):
            column = _as_wkt(column)
        columns.append(column)
    stream = pa.BufferOutputStream()
    csv.write_csv(pa.table(columns, names=table.schema.names), stream)
    return stream.getvalue().to_pybytes()


def _as_wkt(column):
    """A column of WKB as text, with enough digits to be read back exactly."""
    import pyarrow as pa
    import shapely

    # None stays None
    shapes = shapely.from_wkb(column.to_numpy())
    return pa.array(shapely.to_wkt(shapes, rounding_precision=-1), pa.string())


_TEXTS = ("metric", "class", "average", "gates")
_COUNTS = ("n_undefined", "resamples")


def score_table(rows: list[dict]):
    """The rows as an Arrow table; with ``average`` if all rows have it."""
    return _row_table(rows, ("metric", "class", "value", "lower", "upper", "n_undefined", "gates"))


def comparison_table(rows: list[dict]):
    """Rows of `standalone.difference_rows` as an Arrow table; ``average`` if all rows have it."""
    figures = ("value", "against", "difference", "lower", "upper", "p_value")
    return _row_table(rows, ("metric", "class", *figures, "n_undefined", "resamples", "gates"))


def _row_table(rows: list[dict], names: tuple[str, ...]):
    import pyarrow as pa

    kinds = dict.fromkeys(_TEXTS, pa.string()) | dict.fromkeys(_COUNTS, pa.int64())
    if rows and all("average" in row for row in rows):
        names = (*names, "average")
    return pa.table(
        {
            # differences estimated without a jackknife have no gates
            name: pa.array(
                [row.get(name, "") if name == "gates" else row[name] for row in rows],
                kinds.get(name, pa.float64()),
            )
            for name in names
        }
    )
