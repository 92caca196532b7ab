"""Two backbones beside each other, and who is told apart on one dataset."""

from __future__ import annotations

import numpy as np

from permafrost.report.tables.blocks import Block
from permafrost.report.values.notation import interval, p_value_text, signed
from permafrost.report.values.rows import distinct, metric_name
from permafrost.statistics.across_datasets.letters import compact_letters


def letters_of(rows: list[dict], ranked: list[str]) -> dict[str, str]:
    """Letters of backbones on one dataset under one probe, from the comparisons of its primary metric.

    Two differ where every seed tells them apart after adjustment, in one direction.

    Parameters
    ----------
    rows : comparisons of one metric; ranked : the backbones, best first. Empty where a pair was not compared.
    """
    place = {name: number for number, name in enumerate(ranked)}
    pairs: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        apart = row["p_adjusted"] is not None and row["p_adjusted"] <= 1 - row["confidence"]
        pairs.setdefault((row["backbone_a"], row["backbone_b"]), []).append(
            float(np.sign(row["difference"])) if apart else 0.0
        )
    if {name for pair in pairs for name in pair} != set(ranked) or len(ranked) < 2:
        return {}
    different = np.zeros((len(ranked), len(ranked)), bool)
    for (a, b), signs in pairs.items():
        different[place[a], place[b]] = len(set(signs)) == 1 and signs[0] != 0
    return dict(zip(ranked, compact_letters(different), strict=True))


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
        apart = row["p_adjusted"] is not None and row["p_adjusted"] <= 1 - row["confidence"]
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
