"""Derived backbones as text: size, score, and the difference to the backbone they are derived from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from permafrost.core.text import bytes_words
from permafrost.report.notation import NONE, interval, interval_of, number, p_value_text, signed
from permafrost.report.tables.blocks import Block
from permafrost.statistics.leaderboard.derived import DerivedLine, smallest
from permafrost.statistics.leaderboard.rows import metric_name

VERDICTS = {
    "better": "significantly better",
    "worse": "significantly worse",
    "alike": "not distinguishable",
    "untested": "not tested",
}
COLUMNS = (
    *("backbone", "derived from", "bytes", "share", "value", "interval", "difference"),
    *("its interval", "p adjusted"),
)


def steps_words(steps: Iterable[Mapping]) -> str:
    """Steps as in `pca 64, quantise int8`."""
    said = []
    for step in steps:
        ((name, value),) = step.items()
        if isinstance(value, Mapping):
            value = " ".join(f"{key} {one}" for key, one in value.items())
        said.append(f"{name} {value}")
    return ", ".join(said)


def block_words(line: DerivedLine) -> str:
    """Which block a line reads: its depth, number and name."""
    if line.block is None:
        return NONE
    return f"{line.depth:.3g}: {line.block['block']} of {line.block['of']}, {line.block['name']}"


def cells_of(line: DerivedLine, *, depth: bool = False) -> list[str]:
    """The cells of a line, in the order of `COLUMNS`, then the verdict; with `depth`, the block comes third."""
    return [
        line.row["backbone"],
        line.parent,
        *([block_words(line)] if depth else []),
        NONE if line.bytes is None else str(line.bytes),
        NONE if line.share is None else f"{100 * line.share:.3g} %",
        number(line.row["value"]),
        interval_of(line.row),
        signed(line.difference),
        interval(line.lower, line.upper, signed),
        p_value_text(line.p_adjusted),
        VERDICTS[line.verdict],
    ]


def smallest_words(lines: Iterable[DerivedLine]) -> list[str]:
    """A sentence per parent: its smallest form that is not significantly worse."""
    return [
        f"{one.row['backbone']} is the smallest form of {one.parent} that is not significantly worse:"
        f" {bytes_words(one.bytes or 0)} of a sample, {100 * (one.share or 0):.3g} %"
        for one in smallest(lines)
    ]


def derived_blocks(lines: list[DerivedLine]) -> list[Block]:
    """One block per dataset and probe."""
    keys = dict.fromkeys((one.row["dataset"], one.row["probe"]) for one in lines)
    blocks = []
    for dataset, probe in keys:
        own = [one for one in lines if (one.row["dataset"], one.row["probe"]) == (dataset, probe)]
        first = own[0].row
        head = (
            f"{dataset} · {probe} · {metric_name(first['metric'])} · derived backbones, not ranked"
        )
        depth = any(one.block for one in own)
        columns = [*COLUMNS[:2], *(["depth"] if depth else []), *COLUMNS[2:]]
        table = [[*columns, ""], *(cells_of(one, depth=depth) for one in own)]
        foot = "\n".join(f"  {words}" for words in smallest_words(own))
        right = frozenset({"bytes", "share", "value", "difference"})
        blocks.append(Block(head, table, right, foot))
    return blocks
