"""Tables with a heading, for a terminal or a log."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permafrost.statistics.across_datasets.letters import letters_in


@dataclass(frozen=True)
class Block:
    """A small table.

    Attributes
    ----------
    head : lines above it; lines : cells, header first; right : names of right-aligned columns.
    foot : lines below it.
    """

    head: str
    lines: list[list[str]]
    right: frozenset[str] = frozenset()
    foot: str = ""

    def plain(self) -> str:
        """Text in columns, two spaces apart."""
        if not self.lines:
            return self.head
        widths = [max(map(len, cells)) for cells in zip(*self.lines, strict=True)]
        shown = []
        for line in self.lines:
            cells = [
                cell.rjust(width) if name in self.right else cell.ljust(width)
                for name, cell, width in zip(self.lines[0], line, widths, strict=True)
            ]
            shown.append("  " + "  ".join(cells).rstrip())
        return "\n".join([self.head, *shown, *([self.foot] if self.foot else [])])


def print_blocks(blocks: list[Block]) -> None:
    """Print blocks: with colours and wrapping on a terminal, else as plain text.

    On a terminal, the best and those that share a letter with it are bold.
    """
    if not sys.stdout.isatty():
        print("\n\n".join(block.plain() for block in blocks))
        return

    console = Console()
    for number, block in enumerate(blocks):
        if number:
            console.print()
        console.print(Text(block.head, style="bold cyan"))
        if len(block.lines) > 1:
            table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=True)
            for name in block.lines[0]:
                table.add_column(
                    name, justify="right" if name in block.right else "left", overflow="fold"
                )
            best = _best(block.lines)
            for line in block.lines[1:]:
                # names are plain text, not markup
                table.add_row(*map(Text, line), style="bold" if line in best else None)
            console.print(table)
        if block.foot:
            console.print(Text(block.foot))


def _best(lines: list[list[str]]) -> list[list[str]]:
    """The first line, and those that share a letter with it."""
    first = lines[1]
    if "letters" not in lines[0]:
        return [first]
    at = lines[0].index("letters")
    letters = letters_in(first[at])
    return [line for line in lines[1:] if line is first or letters & letters_in(line[at])]
