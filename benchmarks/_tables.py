"""Markdown tables that benchmarks print, and the numbers in their cells."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+")


@dataclass(frozen=True)
class Table:
    """A table: titles of columns, and rows of as many texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def row(self, *labels: str) -> dict[str, str]:
        """The first row that has all `labels` among its cells, by column; an empty cell of another
        row repeats the one above."""
        above = ("",) * len(self.header)
        for cells in self.rows:
            above = tuple(cell or last for cell, last in zip(cells, above, strict=True))
            if {*labels} <= {*above}:
                return dict(zip(self.header, above, strict=True))
        raise SystemExit(f"the table {' | '.join(self.header)} has no row with {labels}")

    def __str__(self) -> str:
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def tables_of(text: str) -> list[Table]:
    """All tables in a text, in order."""
    found: list[list[tuple[str, ...]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        found[-1].append(tuple(cell.strip() for cell in line.strip().strip("|").split("|")))
    return [Table(lines[0], tuple(lines[2:])) for lines in found if len(lines) > 1]


def number_of(cell: str) -> float:
    """The first number of a cell, NaN if there is none."""
    found = _NUMBER.search(cell)
    return float(found[0].replace(",", "")) if found else float("nan")
