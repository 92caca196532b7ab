"""Derived backbones compared with those that they are derived from: sizes, scores, paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from permafrost.core.tables import metadata_of
from permafrost.statistics.leaderboard.rows import better_first, finite, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

#: keys of the leaderboard's metadata: dataset -> backbone -> bytes of the features of a sample, and -> the block
#: that is read
SIZES, BLOCKS = "sizes", "blocks"


def about_derived(tables: list[pa.Table]) -> dict:
    """What the leaderboard's metadata say of derived backbones; empty without any."""
    of_derived = [one for one in tables if metadata_of(one).get("derived")]
    found = {SIZES: sizes_of(of_derived), BLOCKS: blocks_of(of_derived)}
    return {key: one for key, one in found.items() if one}


def blocks_of(tables: Iterable[pa.Table]) -> dict[str, dict[str, dict]]:
    """Dataset -> derived backbone -> the block of its parent that it reads.

    Keys: ``name``, ``block`` (its number, from 1), ``of`` (the number of all) and ``after`` (the steps that follow).
    Those of several parents are left out.
    """
    blocks: dict[str, dict[str, dict]] = {}
    for table in tables:
        about = metadata_of(table).get("derived", {})
        if len(read := about.get("depth", {})) == 1 and len(table):
            dataset, backbone = (table[name][0].as_py() for name in ("dataset", "backbone"))
            (block,) = read.values()
            blocks.setdefault(dataset, {})[backbone] = {**block, "after": about["steps"][1:]}
    return dict(sorted(blocks.items()))


def sizes_of(tables: Iterable[pa.Table]) -> dict[str, dict[str, int]]:
    """Dataset -> backbone -> bytes of a sample as it would be stored, of derived backbones and their parents."""
    sizes: dict[str, dict[str, int]] = {}
    for table in tables:
        about = metadata_of(table).get("derived")
        if about and len(table):
            dataset, backbone = (table[name][0].as_py() for name in ("dataset", "backbone"))
            known = {**about["bytes_of"], backbone: about["bytes_per_sample"]}
            sizes.setdefault(dataset, {}).update(known)
    return dict(sorted(sizes.items()))


@dataclass(frozen=True)
class DerivedLine:
    """A derived backbone on one dataset under one probe, compared with one of its parents.

    Attributes
    ----------
    alone : it is derived from this parent alone, so it is a form of it.
    row : of the leaderboard, with seeds merged.
    full : the parent's value.
    difference, lower, upper : value minus the parent's, with its interval; NaN if it was not compared.
    verdict : ``better``, ``worse``, ``alike`` (the difference is not significant) or ``untested``.
    bytes, bytes_of_parent : of the features of a sample; None: unknown.
    block : the block of the parent that it reads, from `blocks_of`; None: the parent's output.
    """

    parent: str
    alone: bool
    row: dict
    full: float | None
    difference: float
    lower: float
    upper: float
    p_adjusted: float
    verdict: str
    bytes: int | None
    bytes_of_parent: int | None
    block: dict | None = None

    @property
    def depth(self) -> float | None:
        """Depth of the block that it reads: its number as a share of all."""
        return None if self.block is None else self.block["block"] / self.block["of"]

    @property
    def share(self) -> float | None:
        """Bytes as a share of the parent's."""
        return self.bytes / self.bytes_of_parent if self.bytes and self.bytes_of_parent else None


def derived_lines(
    rows: Iterable[dict],
    comparisons: Mapping[tuple[str, str], list[dict]],
    derived: Mapping[str, list[str]],
    sizes: Mapping[str, Mapping[str, int]],
    blocks: Mapping[str, Mapping[str, dict]] | None = None,
) -> list[DerivedLine]:
    """A line per dataset, probe, parent and derived backbone; of a parent the largest first.

    Parameters
    ----------
    rows : of the leaderboard. comparisons : (dataset, probe) -> rows.
    derived : derived backbone -> its parents. sizes : from `sizes_of`. blocks : from `blocks_of`.
    """
    merged = merge_seeds(overall(rows))
    values = {(one["dataset"], one["probe"], one["backbone"]): one["value"] for one in merged}
    lines = []
    for row in merged:
        key = row["dataset"], row["probe"]
        for parent in derived.get(row["backbone"], ()):
            pair = {parent, row["backbone"]}
            compared = next(
                (
                    one
                    for one in comparisons.get(key, ())
                    if one["metric"] == row["metric"]
                    and {one["backbone_a"], one["backbone_b"]} == pair
                ),
                None,
            )
            known = sizes.get(row["dataset"], {})
            lines.append(
                DerivedLine(
                    parent,
                    len(derived[row["backbone"]]) == 1,
                    row,
                    values.get((*key, parent)),
                    *_difference(compared, row["backbone"]),
                    known.get(row["backbone"]),
                    known.get(parent),
                    (blocks or {}).get(row["dataset"], {}).get(row["backbone"]),
                )
            )
    return sorted(
        lines,
        key=lambda one: (
            *(one.row["dataset"], one.row["probe"], one.parent),
            *(-(one.bytes or 0), one.row["backbone"]),
        ),
    )


Comparisons = dict[tuple[str, str], list[dict]]


def set_apart(
    rows: list[dict], comparisons: Comparisons, about: Mapping
) -> tuple[list[dict], Comparisons, list[DerivedLine]]:
    """Rows and comparisons of the ranked backbones, and the lines of derived ones, which are not ranked.

    Parameters
    ----------
    rows : of the leaderboard. comparisons : (dataset, probe) -> rows.
    about : the leaderboard's metadata.
    """
    derived = about.get("derived", {})
    lines = derived_lines(rows, comparisons, derived, about.get(SIZES, {}), about.get(BLOCKS, {}))
    ranked = {
        key: [one for one in pairs if not derived.keys() & {one["backbone_a"], one["backbone_b"]}]
        for key, pairs in comparisons.items()
    }
    return [row for row in rows if row["backbone"] not in derived], ranked, lines


def _difference(row: dict | None, backbone: str) -> tuple[float, float, float, float, str]:
    """Difference to the other of a comparison, its interval, adjusted p-value and verdict."""
    nothing = float("nan")
    if row is None or not finite(row["p_adjusted"]):
        return nothing, nothing, nothing, nothing, "untested"
    sign = 1 if row["backbone_a"] == backbone else -1
    low, high = sorted((sign * row["lower"], sign * row["upper"]))
    difference = sign * row["difference"]
    verdict = "alike"
    if row["p_adjusted"] <= 1 - row["confidence"]:
        verdict = "better" if (difference > 0) == row["higher_is_better"] else "worse"
    return difference, low, high, row["p_adjusted"], verdict


def smallest(lines: Iterable[DerivedLine]) -> list[DerivedLine]:
    """Per dataset, probe and parent, the smallest form that is not significantly worse; none if all are.

    Only of forms that are smaller than the parent. This does not prove equality: with few test units, large differences
    are not significant, and their intervals show it.
    """
    found: dict[tuple, DerivedLine] = {}
    for line in lines:
        key = line.row["dataset"], line.row["probe"], line.parent
        if line.alone and line.verdict in ("alike", "better") and (line.share or 1.0) < 1.0:
            # of equal size, the better one
            found[key] = min(
                found.get(key, line), line, key=lambda one: (one.bytes or 0, better_first(one.row))
            )
    return list(found.values())
