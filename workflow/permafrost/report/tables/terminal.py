"""The leaderboard as plain text for a terminal or a log."""

from __future__ import annotations

import pyarrow as pa

from permafrost.report.values.notation import interval_of, number, places
from permafrost.report.values.rows import distinct, finite, gates_of, metric_name, overall
from permafrost.report.values.seeds import merge_seeds

_MARKS = "*†‡§¶#"
_SPATIAL = "spatially_random"


def format_leaderboard(table: pa.Table, *, digits: int = 3, most: int | None = None) -> str:
    """One block per dataset and probe, best backbone first: rank (``1=`` where tied), value, interval, gates.

    Parameters
    ----------
    table : the leaderboard (`leaderboard.build_leaderboard`). Only rows of the primary metric are
        shown, all seeds of a probe as one (`seeds.merge_seeds`); the parquet and CSV files hold the rest.
    digits : decimals of the values.
    most : backbones of a block; how many more there are is said below it. All by default.
    """
    rows = overall(table.to_pylist())
    marks = _marks(rows)
    blocks = [
        _block(overall(rows, dataset=dataset, probe=probe), marks, digits, most)
        for dataset in distinct(rows, "dataset")
        for probe in distinct(overall(rows, dataset=dataset), "probe")
    ]
    notes = "\n".join(f"{mark} {words}" for words, mark in marks.items())
    return "\n\n".join([*blocks, *([notes] if notes else [])]) + "\n"


def _marks(rows: list[dict]) -> dict[str, str]:
    """A mark for each gate that was met, in the order of their names."""
    from permafrost.report.explanations.gates import explain

    gates = sorted({explain(gate) for row in rows for gate in _flags(row)})
    return {
        words: _MARKS[number] if number < len(_MARKS) else f"({number + 1})"
        for number, words in enumerate(gates)
    }


def _flags(row: dict) -> list[str]:
    from permafrost.report.explanations.gates import gather_classes

    return gather_classes(gates_of(row)) + ([_SPATIAL] if row["spatially_random"] else [])


def _block(rows: list[dict], marks: dict[str, str], digits: int, shown: int | None) -> str:
    from permafrost.report.explanations.gates import explain

    rows = sorted(merge_seeds(rows), key=lambda row: (row["rank"] or float("inf"), row["backbone"]))
    first = rows[0]
    most = max(len(row["seeds"]) for row in rows)
    over = f"; mean of up to {most} seeds ± standard deviation" if most > 1 else ""
    head = (
        f"{first['dataset']} · {first['probe']} · {metric_name(first['metric'])} "
        f"({100 * first['confidence']:g} % interval over {first['n_units']} {first['unit']}s{over})"
    )
    header = ["rank", "backbone", "value", *(["seeds"] if most > 1 else []), "interval", ""]
    lines = []
    for row, place in zip(rows, places([row["rank"] for row in rows]), strict=True):
        flags = "".join(sorted({marks[explain(gate)] for gate in _flags(row)}))
        lines.append(
            [
                place,
                row["backbone"],
                number(row["value"], digits),
                *([_spread(row["seed_std"], digits)] if most > 1 else []),
                interval_of(row, lambda value: number(value, digits)),
                flags,
            ]
        )
    further = len(lines[shown:]) if shown is not None else 0
    more = f"\n  and {further} more: permafrost show" if further else ""
    return head + "\n" + _columns([header, *lines[:shown]], right={"rank", "value"}) + more


def _spread(value, digits: int) -> str:
    return f"± {number(value, digits)}" if finite(value) else ""


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
