"""Two backbones beside each other, and who is told apart on one dataset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from permafrost.report.tables.blocks import Block
from permafrost.report.values.notation import interval, p_value_text, signed
from permafrost.report.values.rows import distinct, metric_name
from permafrost.statistics.across_datasets.letters import compact_letters


def told_apart_in(
    pairs: Mapping[tuple[str, str], list[dict]], ranked: list[str], higher: int = 1
) -> np.ndarray:
    """(K, K) whether the row's backbone is better than the column's after adjustment, with every seed.

    Parameters
    ----------
    pairs : (backbone_a, backbone_b) to comparisons of one metric, one of each seed.
    ranked : K names. higher : 1 or, where less is better, -1.
    """
    place = {name: number for number, name in enumerate(ranked)}
    better = np.zeros((len(ranked), len(ranked)), bool)
    for (a, b), rows in pairs.items():
        if a in place and b in place:
            sign = higher * direction_of(rows)
            better[place[a], place[b]] = sign > 0
            better[place[b], place[a]] = sign < 0
    return better


def direction_of(rows: list[dict]) -> int:
    """Sign of the difference of two backbones where every seed tells them apart in one direction, else 0."""
    signs = {int(np.sign(row["difference"])) if _is_apart(row) else 0 for row in rows}
    return signs.pop() if len(signs) == 1 else 0


def letters_of(rows: list[dict], ranked: list[str]) -> dict[str, str]:
    """Letters of backbones on one dataset under one probe, from the comparisons of its primary metric.

    Parameters
    ----------
    rows : comparisons of one metric; ranked : the backbones, best first. Empty where a pair was not compared.
    """
    pairs: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        pairs.setdefault((row["backbone_a"], row["backbone_b"]), []).append(row)
    if {name for pair in pairs for name in pair} != set(ranked) or len(ranked) < 2:
        return {}
    return dict(zip(ranked, compact_letters(told_apart_in(pairs, ranked)), strict=True))


def _is_apart(row: dict) -> bool:
    return row["p_adjusted"] is not None and row["p_adjusted"] <= 1 - row["confidence"]


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
            "seed",
            "difference",
            "interval",
            "p",
            "p adjusted",
            "better",
        ]
    ]
    for row in sorted(rows, key=lambda row: (row["dataset"], row["probe"], row["seed"])):
        sign = 1 if row["backbone_a"] == a else -1
        low, high = sorted((sign * row["lower"], sign * row["upper"]))
        value = sign * row["difference"]
        apart = _is_apart(row)
        better = (value > 0) == row["higher_is_better"]
        lines.append(
            [
                row["dataset"],
                row["probe"],
                metric_name(row["metric"]),
                str(row["seed"]),
                signed(value),
                interval(low, high, signed),
                p_value_text(row["p_value"]),
                p_value_text(row["p_adjusted"]),
                (a if better else b) if apart else "not told apart",
            ]
        )
    if len(distinct(rows, "seed")) == 1:
        lines = [[*line[:3], *line[4:]] for line in lines]
    head = f"{a} less {b}: paired differences on the same test items"
    foot = "  p adjusted counts all pairs of backbones that were compared on the dataset."
    return Block(head, lines, frozenset({"difference", "p", "p adjusted", "seed"}), foot)
