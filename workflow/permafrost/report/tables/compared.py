"""Two backbones side by side, and significant differences on one dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from permafrost.report.notation import interval, number, p_value_text, signed
from permafrost.report.tables.blocks import Block
from permafrost.statistics.across_datasets.letters import compact_letters
from permafrost.statistics.leaderboard.rows import distinct, finite, metric_name


def pairs_of(rows: Iterable[dict]) -> dict[tuple[str, str], dict]:
    """(backbone_a, backbone_b) to its row, of comparisons of one metric."""
    return {(row["backbone_a"], row["backbone_b"]): row for row in rows}


def told_apart_in(
    pairs: Mapping[tuple[str, str], dict], ranked: list[str], higher: int = 1
) -> np.ndarray:
    """(K, K) whether the row's backbone is better than the column's after adjustment.

    Parameters
    ----------
    pairs : `pairs_of` comparisons.
    ranked : K names. higher : 1 or, where less is better, -1.
    """
    place = {name: number for number, name in enumerate(ranked)}
    better = np.zeros((len(ranked), len(ranked)), bool)
    for (a, b), row in pairs.items():
        if a in place and b in place:
            sign = higher * direction_of(row)
            better[place[a], place[b]] = sign > 0
            better[place[b], place[a]] = sign < 0
    return better


def direction_of(row: dict) -> int:
    """Sign of a significant difference of two backbones, else 0."""
    return int(np.sign(row["difference"])) if _is_apart(row) else 0


def untested_in(pairs: Mapping[tuple[str, str], dict], ranked: list[str]) -> np.ndarray:
    """(K, K) which pairs were never tested: no comparison, or one without a p-value."""
    place = {name: number for number, name in enumerate(ranked)}
    untested = ~np.eye(len(ranked), dtype=bool)
    for (a, b), row in pairs.items():
        if a in place and b in place and finite(row["p_adjusted"]):
            untested[place[a], place[b]] = untested[place[b], place[a]] = False
    return untested


class Field:
    """The backbones of one dataset and probe with their comparisons, the best first.

    Parameters
    ----------
    lines : one per backbone, of one metric; rows : comparisons.

    Attributes
    ----------
    lines, ranked : the best first, and their K names.
    better, untested : (K, K), of `told_apart_in` and `untested_in`.
    """

    def __init__(self, lines: list[dict], rows: Iterable[dict]) -> None:
        lines = sorted(lines, key=lambda line: (line["rank"] or float("inf"), line["backbone"]))
        self.lines, self.ranked = lines, [line["backbone"] for line in lines]
        metric = lines[0]["metric"]
        self.rows = pairs_of(row for row in rows if row["metric"] == metric)
        named = {name for pair in self.rows for name in pair}
        self.compared = bool(self.rows) and named >= set(self.ranked[:2])
        higher = 1 if lines[0]["higher_is_better"] else -1
        self.better = told_apart_in(self.rows, self.ranked, higher)
        self.untested = untested_in(self.rows, self.ranked)

    def alike(self, backbone: str) -> int | None:
        """1 if it is the best or not significantly worse, else 0; None if that was not tested."""
        place = self.ranked.index(backbone)
        if not self.compared or self.untested[0, place]:
            return None
        return int(not self.better[0, place] and not self.better[place, 0])


def letters_of(rows: list[dict], ranked: list[str]) -> dict[str, str]:
    """Letters of backbones on one dataset under one probe, from the comparisons of its primary metric.

    Two share a letter exactly if they were tested and do not differ significantly.

    Parameters
    ----------
    rows : comparisons of one metric; ranked : the backbones, best first. Empty if a backbone was
        compared with no other, or nothing could be tested.
    """
    pairs = pairs_of(rows)
    untested = untested_in(pairs, ranked)
    known = {name for pair in pairs for name in pair} == set(ranked) and len(ranked) > 1
    if not known or untested.sum() == len(ranked) * (len(ranked) - 1):
        return {}
    different = told_apart_in(pairs, ranked)
    return dict(zip(ranked, compact_letters(different | different.T | untested), strict=True))


def finds(rows: list[dict]) -> str:
    """The smallest detectable differences for one metric; empty if nothing was tested."""
    tested = [row for row in rows if finite(row["p_adjusted"])]
    if not tested:
        return ""
    known = [row["detectable"] if finite(row["detectable"]) else np.inf for row in tested]
    half = float(np.median(known))
    says = "backbones that share a letter do not differ significantly: "
    if not np.isfinite(half):
        return f"{says}no difference, however large, is found here with a chance of 80 %"
    return f"{says}differences below about {number(half)} are found with a chance of less than 80 %"


def _is_apart(row: dict) -> bool:
    return finite(row["p_adjusted"]) and row["p_adjusted"] <= 1 - row["confidence"]


def difference_block(rows: list[dict], a: str, b: str) -> Block:
    """Differences of two backbones on every dataset and probe, with interval and p-values.

    Parameters
    ----------
    rows : comparisons of the primary metrics that name both.
    """
    lines = [
        [
            "dataset",
            "probe",
            "metric",
            "runs",
            "difference",
            "interval",
            "p",
            "p adjusted",
            "detectable",
            "better",
        ]
    ]
    for row in sorted(rows, key=lambda row: (row["dataset"], row["probe"])):
        sign = 1 if row["backbone_a"] == a else -1
        low, high = sorted((sign * row["lower"], sign * row["upper"]))
        value = sign * row["difference"]
        apart, tested = _is_apart(row), finite(row["p_adjusted"])
        better = (value > 0) == row["higher_is_better"]
        lines.append(
            [
                row["dataset"],
                row["probe"],
                metric_name(row["metric"]),
                str(row["n_runs"]),
                signed(value),
                interval(low, high, signed),
                p_value_text(row["p_value"]),
                p_value_text(row["p_adjusted"]),
                number(row["detectable"])
                if finite(row["detectable"])
                else "nothing"
                if tested
                else "",
                (a if better else b) if apart else "not significant" if tested else "not tested",
            ]
        )
    if distinct(rows, "n_runs") == [1]:
        lines = [[*line[:3], *line[4:]] for line in lines]
    head = f"{a} less {b}: paired differences on the same test items"
    foot = (
        "  p adjusted counts all pairs of backbones that were compared on the dataset.\n"
        "  detectable: the smallest difference that this test detects with 80 % power."
    )
    numbers = frozenset({"runs", "difference", "p", "p adjusted", "detectable"})
    return Block(head, lines, numbers, foot)
