"""Figures of an evaluation of given files as JSON, and tables as parquet."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.core.outputs import Group, whole_file


def write_scores(
    path: Path, *, options: dict, rows: list[dict], group: Group | None = None, **more
) -> None:
    """The figures at full precision as JSON; what is undefined is null."""
    content = {"options": options, "scores": rows, **more}
    with whole_file(path, group=group) as partial:
        text = json.dumps(content, indent=1, default=str, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def write_tables(folder: Path, tables: dict, options: dict, *, group: Group | None = None) -> None:
    """Each table as ``{name}.parquet``, with a fingerprint of the options and inputs' content.

    With a `group` of `core.outputs.together`, all files take their places together.
    """
    from permafrost.core.identity import fingerprint
    from permafrost.core.tables import write_table

    named = {
        key: value["sha256"] if isinstance(value, dict) else value for key, value in options.items()
    }
    identity = fingerprint(json.loads(json.dumps(named, default=str)))
    for name, table in tables.items():
        metadata = {"fingerprint": identity, "table": name}
        write_table(folder / f"{name}.parquet", table, metadata, group=group)


def score_table(rows: list[dict]):
    """The rows as an Arrow table."""
    import pyarrow as pa

    text, names = (
        pa.string(),
        ("metric", "class", "value", "lower", "upper", "n_undefined", "gates"),
    )
    kinds = {"metric": text, "class": text, "n_undefined": pa.int64(), "gates": text}
    return pa.table(
        {
            # what is estimated without resampling has no gates
            name: pa.array([row.get(name, "") for row in rows], kinds.get(name, pa.float64()))
            for name in names
        }
    )
