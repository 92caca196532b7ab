"""What commands share that evaluate given files: intervals, the printed table, the written one."""

from __future__ import annotations

import json
from pathlib import Path


def add_arguments(parser) -> None:
    """``--resamples``, ``--confidence``, ``--seed``, ``--output``, ``--tables``."""
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (0.95)")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (0)")
    parser.add_argument("--output", type=Path, help="JSON file to write: every figure in full")
    parser.add_argument("--tables", type=Path, help="folder for tables to write (parquet)")


def options_of(arguments, *inputs: str) -> dict:
    """Every option that can change a figure, and the digest of every input file."""
    from permafrost.core.identity import file_digest

    places = {"output", "tables", "images", "pictures", "max_pictures"}
    named = {name: value for name, value in vars(arguments).items() if name not in places}
    for name in inputs:
        if named[name] is not None:
            path = Path(named[name])
            named[name] = {"path": path.as_posix(), "sha256": file_digest(path)}
    return named


def print_scores(rows: list[dict], *, heading: str, unit: str, confidence: float, notes) -> None:
    """The figures as a table, overall ones first, and remarks below."""
    print(f"{heading}\n{100 * confidence:g} % intervals: {unit}\n")
    lines = [
        (row["metric"], row["class"] or "", _number(row["value"]), _interval(row)) for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for metric, label, value, interval in lines:
        print(
            f"  {metric:<{widths[0]}}  {label:<{widths[1]}}  {value:>{widths[2]}}  {interval}".rstrip()
        )
    for note in notes:
        print(f"\n{note}")


def write_scores(path: Path, *, options: dict, rows: list[dict], **more) -> None:
    """The figures at full precision as JSON; what is undefined is null."""
    from permafrost.core.outputs import whole_file

    content = {"options": options, "scores": rows, **more}
    with whole_file(path) as partial:
        text = json.dumps(content, indent=1, default=str, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def write_tables(folder: Path, tables: dict, options: dict) -> None:
    """Each table as ``{name}.parquet``, with a fingerprint of the options and inputs' content."""
    from permafrost.core.identity import fingerprint
    from permafrost.core.tables import write_table

    named = {
        key: value["sha256"] if isinstance(value, dict) else value for key, value in options.items()
    }
    identity = fingerprint(json.loads(json.dumps(named, default=str)))
    for name, table in tables.items():
        write_table(folder / f"{name}.parquet", table, {"fingerprint": identity, "table": name})


def score_table(rows: list[dict]):
    """The rows as an Arrow table."""
    import pyarrow as pa

    kinds = {"metric": pa.string(), "class": pa.string(), "n_undefined": pa.int64()}
    return pa.table(
        {
            name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64()))
            for name in ("metric", "class", "value", "lower", "upper", "n_undefined")
        }
    )


def _number(value) -> str:
    return "–" if value is None else f"{value:.4f}"


def _interval(row: dict) -> str:
    if row["lower"] is None:
        return ""
    return f"[{_number(row['lower'])}, {_number(row['upper'])}]"
