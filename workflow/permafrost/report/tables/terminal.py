"""The leaderboard as plain text for a terminal or a log."""

from __future__ import annotations

import pyarrow as pa

from permafrost.report.tables.blocks import Block
from permafrost.report.values.notation import interval_of, number, places
from permafrost.report.values.rows import distinct, finite, gates_of, metric_name, overall
from permafrost.report.values.seeds import merge_seeds

_MARKS = "*†‡§¶#"
_SPATIAL = "spatially_random"


def format_leaderboard(table: pa.Table, *, digits: int = 3, most: int | None = None) -> str:
    """`leaderboard_blocks` as text."""
    blocks = leaderboard_blocks(table, digits=digits, most=most)
    return "\n\n".join(block.plain() for block in blocks) + "\n"


def leaderboard_blocks(
    table: pa.Table, *, digits: int = 3, most: int | None = None, letters: dict | None = None
) -> list[Block]:
    """One block per dataset and probe, best backbone first: rank (``1=`` where tied), value, interval, gates.

    Parameters
    ----------
    table : the leaderboard (`leaderboard.build_leaderboard`). Only rows of the primary metric are
        shown, all seeds of a probe as one (`seeds.merge_seeds`); the parquet and CSV files hold the rest.
    digits : decimals of the values.
    most : backbones of a block; how many more there are is said below it. All by default.
    letters : (dataset, probe) to letters of backbones (`compared.letters_of`).
    """
    rows = overall(table.to_pylist())
    marks = _marks(rows)
    letters = {} if letters is None else letters
    blocks = [
        _block(
            overall(rows, dataset=dataset, probe=probe),
            marks,
            digits,
            most,
            letters.get((dataset, probe)),
        )
        for dataset in distinct(rows, "dataset")
        for probe in distinct(overall(rows, dataset=dataset), "probe")
    ]
    notes = [f"{mark} {words}" for words, mark in marks.items()]
    if notes and blocks:
        # below all blocks, as one of its own
        blocks.append(Block("\n".join(notes), []))
    return blocks


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


def _block(
    rows: list[dict], marks: dict[str, str], digits: int, shown: int | None, letters: dict | None
) -> Block:
    from permafrost.report.explanations.gates import explain

    rows = sorted(merge_seeds(rows), key=lambda row: (row["rank"] or float("inf"), row["backbone"]))
    first = rows[0]
    most = max(len(row["seeds"]) for row in rows)
    over = f"; mean of up to {most} seeds ± standard deviation" if most > 1 else ""
    head = (
        f"{first['dataset']} · {first['probe']} · {metric_name(first['metric'])} "
        f"({100 * first['confidence']:g} % interval over {first['n_units']} {first['unit']}s{over})"
    )
    header = ["rank", "backbone", "value", *(["seeds"] if most > 1 else []), "interval"]
    header += ["letters"] if letters else []
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
                *([letters[row["backbone"]]] if letters else []),
                flags,
            ]
        )
    further = len(lines[shown:]) if shown is not None else 0
    more = f"  and {further} more: permafrost show" if further else ""
    return Block(head, [[*header, ""], *lines[:shown]], frozenset({"rank", "value"}), more)


def _spread(value, digits: int) -> str:
    return f"± {number(value, digits)}" if finite(value) else ""
