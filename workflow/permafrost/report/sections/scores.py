"""The page's section on scores: a line per score, warnings, and paired differences."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from permafrost.report.explanations.gates import explain, explain_at_length, gather_classes
from permafrost.report.notation import NONE, interval_of, number, p_value_text, places
from permafrost.statistics.across_datasets.ranks import missing_results
from permafrost.statistics.leaderboard.rows import (
    better_first,
    distinct,
    finite,
    gates_of,
    metric_name,
    overall,
)
from permafrost.statistics.leaderboard.seeds import clean_lines, merge_seeds

_SPATIAL = "spatially_random"


def scores_section(table: pa.Table, rows: list[dict]) -> dict:
    """Template values of the leaderboard; `rows` are those of `table`."""
    lines = leaderboard_lines(rows)
    return {
        "lines": lines,
        "probes_run": distinct(lines, "probe"),
        "several_seeds": any(len(line["seeds"]) > 1 for line in lines),
        "confidence": _levels(lines),
        "gates": gates_met(rows),
        "notices": notices(table),
    }


def notices(table: pa.Table) -> list[dict]:
    """Notices above all numbers: each a ``title``, ``words`` and a list ``each``."""
    missing = missing_results(table)
    if not missing:
        return []
    words = "A backbone that lacks a result which another one has is ranked over datasets as `ranking: missing` says."
    return [{"title": "Missing results.", "words": words, "each": missing}]


def flags_of(row: dict) -> list[str]:
    """All warnings about a score row, including spatial leakage of the split."""
    return gather_classes(gates_of(row)) + ([_SPATIAL] if row["spatially_random"] else [])


def leaderboard_lines(rows: list[dict]) -> list[dict]:
    """One line per backbone and probe with the primary metric, and its bar in per cent.

    Seeds are merged into one line (`seeds.merge_seeds`). Bars of one dataset share a scale, from
    the lowest lower limit to the highest upper one.
    """
    lines, clean = [], clean_lines(rows)
    for dataset in distinct(rows, "dataset"):
        of_dataset = merge_seeds(overall(rows, dataset=dataset))
        low, high = _range(of_dataset)
        of_dataset.sort(key=lambda r: (r["probe"], *better_first(r)))
        for row, place in zip(of_dataset, _places(of_dataset), strict=True):
            lines.append(
                {
                    **row,
                    "place": place,
                    "seed_words": ", ".join(map(str, row["seeds"])),
                    "metric_name": metric_name(row["metric"]),
                    "clean": clean.get((dataset, row["probe"], row["backbone"])),
                    "flags": [
                        {"short": explain(g), "long": explain_at_length(g)} for g in flags_of(row)
                    ],
                    "bar": _bar(row, low, high),
                }
            )
    return lines


def _places(lines: list[dict]) -> list[str]:
    """Ranks within each probe, as text."""
    by_probe: dict[str, list] = {}
    for line in lines:
        by_probe.setdefault(line["probe"], []).append(line["rank"])
    words = {probe: iter(places(ranks)) for probe, ranks in by_probe.items()}
    return [next(words[line["probe"]]) for line in lines]


def _range(rows: list[dict]) -> tuple[float, float]:
    shown = [row[key] for row in rows for key in ("lower", "value", "upper") if finite(row[key])]
    if not shown:
        return 0.0, 1.0
    low, high = min(shown), max(shown)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _bar(row: dict, low: float, high: float) -> dict | None:
    if not finite(row["value"]):
        return None

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    has_interval = finite(row["lower"]) and finite(row["upper"])
    left, right = (row["lower"], row["upper"]) if has_interval else (row["value"], row["value"])
    return {
        "left": place(left),
        "width": round(place(right) - place(left), 2),
        "at": place(row["value"]),
    }


def best_cell(score: dict | None) -> dict | None:
    """The cell for a backbone's best score in a table of measures or costs; None without one."""
    if score is None:
        return None
    words = f"{metric_name(score['metric'])}, {score['probe']}"
    return {**value_cell(score), "words": words}


def value_cell(
    row: dict | None, write: Callable[[float], str] = number, *, flagged: bool = False
) -> dict:
    """A value with its interval, with numbers formatted by `write`; a dash without a row."""
    if row is None:
        return {"value": None, "text": NONE, "interval": "", "flagged": False}
    return {
        "value": row["value"] if finite(row["value"]) else None,
        "text": write(row["value"]),
        "interval": interval_of(row, write),
        "flagged": flagged,
    }


def gates_met(rows: list[dict]) -> list[dict]:
    """Every warning in words, with its evaluations by dataset; the most frequent first."""
    seeded = {
        (line["dataset"], line["backbone"], line["probe"])
        for line in merge_seeds(overall(rows))
        if len(line["seeds"]) > 1
    }
    met: dict[str, dict[str, set[str]]] = {}
    for row in overall(rows):
        names = (row["dataset"], row["backbone"], row["probe"])
        seed = (f"seed {row['seed']}",) if names in seeded else ()
        for gate in flags_of(row):
            of_dataset = met.setdefault(gate, {}).setdefault(row["dataset"], set())
            of_dataset.add(" / ".join([*names[1:], *seed]))
    found = [
        {
            "short": explain(gate),
            "long": explain_at_length(gate),
            "count": sum(map(len, where.values())),
            "where": [
                {"dataset": name, "each": sorted(each)} for name, each in sorted(where.items())
            ],
        }
        for gate, where in sorted(met.items())
    ]
    return sorted(found, key=lambda gate: -gate["count"])


def _levels(lines: list[dict]) -> str:
    """Confidence level of the lines' intervals, in words."""
    return " or ".join(f"{100 * level:g} %" for level in distinct(lines, "confidence"))


def comparison_lines(rows: list[dict], best: str) -> list[dict]:
    """Paired differences of the best backbone minus each other one."""
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
    return sorted(lines, key=lambda line: (line["probe"], line["difference"], line["other"]))


def comparison_remarks(lines: list[dict]) -> list[str]:
    """The warnings of comparisons, in sentences, each with its probes."""
    probes: dict[str, set[str]] = {}
    for line in lines:
        for gate in filter(None, line["gates"].split(";")):
            probes.setdefault(gate, set()).add(line["probe"])
    return [
        f"{', '.join(sorted(probes[gate]))}: {explain(gate)}. {explain_at_length(gate)}"
        for gate in sorted(probes)
    ]
