"""The leaderboard as plain text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from permafrost.core.text import shortened
from permafrost.report.explanations.gates import explain, gather_classes
from permafrost.report.notation import NONE, interval_of, number, places
from permafrost.report.tables.blocks import Block
from permafrost.statistics.across_datasets.cells import EXACT
from permafrost.statistics.leaderboard.rows import (
    copies,
    distinct,
    finite,
    gates_of,
    metric_name,
    overall,
)
from permafrost.statistics.leaderboard.seeds import clean_lines, merge_seeds

_MARKS = "*†‡§¶#"
_SPATIAL = "spatially_random"
_LONGEST_REASON = 120


def leaderboard_blocks(
    table: pa.Table,
    *,
    digits: int = 3,
    most: int | None = None,
    letters: dict | None = None,
    found: dict | None = None,
    left_out: Sequence[dict] = (),
) -> list[Block]:
    """One block per dataset and probe, best first: rank (``1=``: tied), value, interval, warnings.

    Parameters
    ----------
    table : the leaderboard (`leaderboard.build_leaderboard`). Only rows of the primary metric are
        shown, with the seeds of a probe merged (`seeds.merge_seeds`); the parquet and CSV files
        have the rest.
    digits : decimals of the values.
    most : backbones per block; the number of others is below it. All by default.
    letters : (dataset, probe) to letters of backbones (`compared.letters_of`).
    found : (dataset, probe) to a remark on detectable differences (`compared.finds`).
    left_out : rows of `permafrost.plan.misfits.recorded_misfits`: backbones without a score, and
        why.
    """
    every = table.to_pylist()
    same = copies(every)
    rows, clean = overall(every), clean_lines(every)
    marks = _marks(rows)
    letters, found = letters or {}, found or {}
    blocks = [
        _block(
            overall(rows, dataset=dataset, probe=probe),
            marks,
            digits,
            most,
            letters.get((dataset, probe)),
            found.get((dataset, probe)),
            clean,
            same,
            [
                (one["backbone"], one["reason"])
                for one in left_out
                if one["dataset"] == dataset and one["probe"] in (None, probe)
            ],
        )
        for dataset in distinct(rows, "dataset")
        for probe in distinct(overall(rows, dataset=dataset), "probe")
    ]
    notes = [f"{mark} {words}" for words, mark in marks.items()]
    if notes and blocks:
        # a separate block below all others
        blocks.append(Block("\n".join(notes), []))
    return blocks


def _marks(rows: list[dict]) -> dict[str, str]:
    """A mark for each warning, in alphabetical order."""
    gates = sorted({explain(gate) for row in rows for gate in _flags(row)})
    return {
        words: _MARKS[number] if number < len(_MARKS) else f"({number + 1})"
        for number, words in enumerate(gates)
    }


def _flags(row: dict) -> list[str]:
    return gather_classes(gates_of(row)) + ([_SPATIAL] if row["spatially_random"] else [])


def _block(
    rows: list[dict],
    marks: dict[str, str],
    digits: int,
    shown: int | None,
    letters: dict | None,
    found: str | None,
    clean: dict,
    same: dict,
    left_out: list[tuple[str, str]],
) -> Block:
    rows = sorted(merge_seeds(rows), key=lambda row: (row["rank"] or float("inf"), row["backbone"]))
    first = rows[0]
    most = max(len(row["seeds"]) for row in rows)
    drawn = " and draws" if any((row["n_draws"] or 1) > 1 for row in rows) else ""
    runs = drawn + " and seeds" * (most > 1)
    over = f"; mean of up to {most} seeds ± standard deviation" if most > 1 else ""
    head = (
        f"{first['dataset']} · {first['probe']} · {metric_name(first['metric'])} "
        f"({100 * first['confidence']:g} % interval over {first['n_units']} {first['unit']}s{runs}{over})"
    )
    header = ["rank", "backbone", "value", *(["seeds"] if most > 1 else []), "interval"]
    own = {row["backbone"]: _clean(row, clean) for row in rows}
    unseen = next(filter(None, own.values()), None)
    header += ["clean", "interval "] if unseen else []
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
                *(_cells(own[row["backbone"]], digits) if unseen else []),
                *([letters[row["backbone"]]] if letters else []),
                "  ".join(filter(None, [flags, *_of_cell(row, same)])),
            ]
        )
    further = len(lines[shown:]) if shown is not None else 0
    foot = [f"  and {further} more: permafrost show"] if further else []
    foot += [f"  {found}"] if found and letters else []
    if unseen:
        foot.append(f"  clean: on the {unseen['n_test']} test images that training has not seen")
    right = frozenset({"rank", "value", "clean"})
    empty = [""] * (len(header) - 3)
    lines = lines[:shown] + [
        [NONE, name, NONE, *empty, f"left out: {shortened(reason, _LONGEST_REASON)}"]
        for name, reason in left_out
    ]
    return Block(head, [[*header, ""], *lines], right, "\n".join(foot))


def _of_cell(row: dict, same: dict) -> list[str]:
    """The fit of dataset and backbone, unless exact, and the backbone that it duplicates."""
    said, first = [], same.get((row["dataset"], row["backbone"]))
    if row.get("fit") not in EXACT:
        said.append(f"{row['fit']}, {row['bands_real']} of {row['bands_wanted']} bands")
    return said + ([f"same as {first}"] if first else [])


def _clean(row: dict, clean: dict) -> dict | None:
    return clean.get((row["dataset"], row["probe"], row["backbone"]))


def _cells(row: dict | None, digits: int) -> list[str]:
    if row is None:
        return ["", ""]
    return [number(row["value"], digits), interval_of(row, lambda value: number(value, digits))]


def _spread(value, digits: int) -> str:
    return f"± {number(value, digits)}" if finite(value) else ""
