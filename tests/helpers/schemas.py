"""Tables against their schemas."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pyarrow as pa
from jsonschema import Draft202012Validator

_SPEC = importlib.util.spec_from_file_location(
    "generate", Path(__file__).parents[2] / "docs/generate.py"
)
generate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)


def schema(name: str) -> dict:
    """The JSON schema of a row of a table."""
    return generate.table_class(name).schema()


def check(name: str, table: pa.Table) -> None:
    """Columns in order, arrow types, and every row against the JSON schema."""
    described = schema(name)
    columns = {n: e for n, e in described["properties"].items() if n in table.column_names}
    assert table.column_names == list(columns) and columns.keys() >= set(described["required"])
    for column, entry in columns.items():
        allowed = entry["x-arrow"] if isinstance(entry["x-arrow"], list) else [entry["x-arrow"]]
        kind = str(table.schema.field(column).type).replace("<element:", "<item:")
        assert re.sub(r"<item: (\w+)>\[\d+\]", r"<\1>", kind) in allowed, column
    validator = Draft202012Validator(described)
    for row in table.to_pylist():
        validator.validate(row)
