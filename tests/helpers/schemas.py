"""Tables against their schemas; as a program, it writes the files of columns that jobs read.

``envs/run python tests/helpers/schemas.py`` is to be run after a change of the columns in a schema.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pyarrow as pa
import yaml
from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "workflow" / "schemas"
LIBRARY = SCHEMAS.parent / "permafrost"
#: schema of a table to the file of its columns
COLUMN_FILES = {
    "scores": LIBRARY / "statistics/score_columns.json",
    "comparisons": LIBRARY / "statistics/scores/comparison_columns.json",
    "similarity": LIBRARY / "statistics/measures/similarity_columns.json",
    "standings": LIBRARY / "statistics/across_datasets/standings_columns.json",
}


def schema(name: str) -> dict:
    """The schema of a table; columns that another schema describes (``$ref``) are filled in."""
    described = _read(f"{name}.schema.yaml")
    columns = {column: _whole(entry) for column, entry in described["properties"].items()}
    required = described.get("required", list(columns))
    return {**described, "properties": columns, "required": required}


def columns_text(name: str) -> str:
    """What the file of a table's columns must hold: a JSON object of names and arrow types."""
    columns = {column: entry["x-arrow"] for column, entry in schema(name)["properties"].items()}
    return json.dumps(columns, indent=1) + "\n"


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


if __name__ == "__main__":
    for table, file in COLUMN_FILES.items():
        file.write_text(columns_text(table))
