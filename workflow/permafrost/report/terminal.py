"""The leaderboard as plain text for a terminal or a log."""

from __future__ import annotations

import pyarrow as pa

from .rows import distinct, finite, gates_of, metric_name, overall

_MARKS = "*†‡§¶#"
_SPATIAL = "spatially_random"


def format_leaderboard(table: pa.Table, *, digits: int = 3) -> str:
    """One block per dataset and probe: rank, backbone, value with its interval, gates marked.

    Parameters
    ----------
    table : the leaderboard (`leaderboard.build_leaderboard`). Only rows of the primary metric are
        shown; the parquet and CSV files hold the rest.
    digits : decimals of the values.
    """
    rows = overall(table.to_pylist())
    marks = _marks(rows)
    blocks = [
        _block(overall(rows, dataset=dataset, probe=probe), marks, digits)
        for dataset in distinct(rows, "dataset")
        for probe in distinct(overall(rows, dataset=dataset), "probe")
    ]
    notes = "\n".join(f"{mark} {words}" for words, mark in marks.items())
    return "\n\n".join([*blocks, *([notes] if notes else [])]) + "\n"


def _marks(rows: list[dict]) -> dict[str, str]:
    """A mark for each gate that was met, in the order of their names."""
    from .gates import explain

    gates = sorted({explain(gate) for row in rows for gate in _flags(row)})
    return {
        words: _MARKS[number] if number < len(_MARKS) else f"({number + 1})"
        for number, words in enumerate(gates)
    }


def _flags(row: dict) -> list[str]:
    return gates_of(row) + ([_SPATIAL] if row["spatially_random"] else [])


def _block(rows: list[dict], marks: dict[str, str], digits: int) -> str:
    from .gates import explain

    rows = sorted(rows, key=lambda row: (row["seed"], row["rank"] or float("inf"), row["backbone"]))
    first, seeds = rows[0], distinct(rows, "seed")
    head = (
        f"{first['dataset']} · {first['probe']} · {metric_name(first['metric'])} "
        f"({100 * first['confidence']:g} % interval over {first['n_units']} {first['unit']}s)"
    )
    header = ["rank", "backbone", *(["seed"] if len(seeds) > 1 else []), "value", "interval", ""]
    lines = []
    for row in rows:
        flags = "".join(sorted({marks[explain(gate)] for gate in _flags(row)}))
        lines.append(
            [
                _rank(row["rank"]),
                row["backbone"],
                *([str(row["seed"])] if len(seeds) > 1 else []),
                _number(row["value"], digits),
                f"[{_number(row['lower'], digits)}, {_number(row['upper'], digits)}]",
                flags,
            ]
        )
    return head + "\n" + _columns([header, *lines], right={"rank", "seed", "value"})


def _rank(rank) -> str:
    return f"{rank:g}" if finite(rank) else "–"


def _number(value, digits: int) -> str:
    return f"{value:.{digits}f}" if finite(value) else "–"


def _columns(lines: list[list[str]], right: set[str]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    shown = []
    for line in lines:
        cells = [
            cell.rjust(width) if lines[0][i] in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append("  " + "  ".join(cells).rstrip())
    return "\n".join(shown)
