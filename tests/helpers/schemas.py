"""Tables against their schemas."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import yaml
from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "workflow" / "schemas"


def schema(name: str) -> dict:
    return yaml.safe_load((SCHEMAS / f"{name}.schema.yaml").read_text())


def check(name: str, table: pa.Table) -> None:
    """Columns in order, arrow types, and every row against the JSON schema."""
    described = schema(name)
    columns = {n: e for n, e in described["properties"].items() if n in table.column_names}
    assert table.column_names == list(columns) and columns.keys() >= set(described["required"])
    for column, entry in columns.items():
        allowed = entry["x-arrow"] if isinstance(entry["x-arrow"], list) else [entry["x-arrow"]]
        found = re.sub(
            r"<element: (\w+)>\[\d+\]|<item: (\w+)>\[\d+\]",
            lambda m: f"<{m[1] or m[2]}>",
            str(table.schema.field(column).type),
        )
        assert found in allowed, column
    validator = Draft202012Validator(described)
    for row in table.to_pylist():
        validator.validate(row)
