"""Paired differences on the page: the best backbone of a probe against each other one."""

from __future__ import annotations

from permafrost.report.explanations.gates import explain, explain_at_length
from permafrost.report.values.notation import p_value_text


def comparison_lines(rows: list[dict], best: str) -> list[dict]:
    """Paired differences of the best backbone against each other one, signs turned accordingly."""
    lines = []
    for row in rows:
        if best not in (row["backbone_a"], row["backbone_b"]):
            continue
        turned = row["backbone_b"] == best
        sign = -1 if turned else 1
        limits = [sign * row["lower"], sign * row["upper"]]
        lines.append(
            {
                **row,
                "other": row["backbone_a"] if turned else row["backbone_b"],
                "difference": sign * row["difference"],
                "lower": min(limits),
                "upper": max(limits),
                "p_text": p_value_text(row["p_adjusted"], smallest=1 / (row["resamples"] + 1)),
            }
        )
    return sorted(
        lines, key=lambda line: (line["probe"], line["seed"], line["difference"], line["other"])
    )


def comparison_remarks(lines: list[dict]) -> list[str]:
    """The gates that comparisons met, in sentences, each with the probes that it is of."""
    probes: dict[str, set[str]] = {}
    for line in lines:
        for gate in filter(None, line["gates"].split(";")):
            probes.setdefault(gate, set()).add(line["probe"])
    return [
        f"{', '.join(sorted(probes[gate]))}: {explain(gate)}. {explain_at_length(gate)}"
        for gate in sorted(probes)
    ]
