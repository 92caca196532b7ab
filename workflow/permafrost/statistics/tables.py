"""The columns of result tables: names in their order, and types.

``workflow/schemas`` describes them. A job loads no YAML, so the names and types stand in a JSON file beside each
module that makes a table; ``envs/run python tests/helpers/schemas.py`` writes these files from the schemas.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa


def read_columns(path: Path) -> pa.Schema:
    """The columns in a file of names and arrow types."""
    named = json.loads(path.read_text(encoding="utf-8"))
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in named.items()])


def table_of(rows: list[dict], columns: pa.Schema) -> pa.Table:
    """A table of rows that have a value for each of `columns`."""
    return pa.table(
        [pa.array([row[one.name] for row in rows], one.type) for one in columns], schema=columns
    )


#: of scores, measures and profiles
SCORES = read_columns(Path(__file__).with_name("score_columns.json"))
