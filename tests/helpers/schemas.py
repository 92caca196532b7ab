"""Tables against their schemas."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pyarrow as pa
import yaml
from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "workflow" / "schemas"


def schema(name: str) -> dict:
    """The schema of a table; columns that another schema describes (``$ref``) are filled in."""
    described = _read(f"{name}.schema.yaml")
    columns = {column: _whole(entry) for column, entry in described["properties"].items()}
    return {**described, "properties": columns}


def _whole(entry: dict) -> dict:
    file, _, place = entry.get("$ref", "").partition("#/")
    if not file:
        return entry
    target = functools.reduce(dict.__getitem__, place.split("/"), _read(file))
    return {**target, **{key: value for key, value in entry.items() if key != "$ref"}}


@functools.cache
def _read(file: str) -> dict:
    return yaml.safe_load((SCHEMAS / file).read_text())


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
