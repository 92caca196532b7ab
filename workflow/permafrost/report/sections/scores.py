"""What the page says about scores: summary, leaderboard, gates that were not met, and paired differences."""

from __future__ import annotations

import math

import pyarrow as pa

from permafrost.report.explanations.gates import explain, explain_at_length, gather_classes
from permafrost.report.values.notation import p_value_text, places
from permafrost.report.values.rows import (
    better_first,
    distinct,
    finite,
    gates_of,
    metric_name,
    overall,
)
from permafrost.report.values.seeds import merge_seeds
from permafrost.statistics.across_datasets.ranks import mean_tied_ranks, missing_results

_SPATIAL = "spatially_random"


def scores_section(table: pa.Table, rows: list[dict], summed: list[dict]) -> dict:
    """Everything that the template asks of the leaderboard.

    Parameters
    ----------
    rows : those of `table`; summed : of the summary over datasets, which may be none.
    """
    lines = leaderboard_lines(rows)
    over, notes = over_datasets(summed, lines)
    return {
        "summary": summary(rows),
        "over_datasets": over,
        "over_confidence": _levels(over),
        "over_notes": notes,
        "lines": lines,
        "several_seeds": any(len(line["seeds"]) > 1 for line in lines),
        "confidence": _levels(lines),
        "gates": gates_met(rows),
        "notices": notices(table),
    }


def notices(table: pa.Table) -> list[dict]:
    """What a reader must know before any number: each a ``title``, ``words`` and a list ``each``."""
    missing = missing_results(table)
    if not missing:
        return []
    words = "A backbone that lacks a result which another one has gets no mean rank and no mean over datasets."
    return [{"title": "Missing results.", "words": words, "each": missing}]


def over_datasets(summed: list[dict], lines: list[dict]) -> tuple[list[dict], list[str]]:
    """Lines of the summary of probes with more than one dataset, and notes on what hampers them.

    Within a probe the best interquartile mean is first, and bars share a scale.
    """
    tables, notes = [], []
    for probe in distinct(summed, "probe"):
        of_probe = [row for row in summed if row["probe"] == probe]
        if max(row["n_datasets"] for row in of_probe) < 2:
            continue
        of_probe.sort(key=lambda row: (row["iqm"] is None, -(row["iqm"] or 0.0), row["backbone"]))
        bounds = [
            {"value": row["iqm"], "lower": row["iqm_lower"], "upper": row["iqm_upper"]}
            for row in of_probe
        ]
        low, high = _range(bounds)
        values = [math.nan if row["iqm"] is None else row["iqm"] for row in of_probe]
        ranks = mean_tied_ranks(values).tolist()
        marks = zip(of_probe, bounds, ranks, places(ranks), strict=True)
        tables += [
            {**row, "bar": _bar(bound, low, high), "rank": rank, "place": place}
            for row, bound, rank, place in marks
        ]
        metrics = sorted({line["metric_name"] for line in lines if line["probe"] == probe})
        if len(metrics) > 1:
            notes.append(
                f"{probe} is scored by {' and '.join(metrics)}, depending on the dataset: a mean mixes them, so prefer "
                "the mean rank."
            )
    return tables, notes


def flags_of(row: dict) -> list[str]:
    """Everything that limits what a score row means: its gates, and a split that leaks places."""
    return gather_classes(gates_of(row)) + ([_SPATIAL] if row["spatially_random"] else [])


def leaderboard_lines(rows: list[dict]) -> list[dict]:
    """One line per backbone and probe with the primary metric, and the bar's geometry in per cent.

    Several seeds are one line (`seeds.merge_seeds`). Bars of one dataset share a scale, from its
    lowest lower limit to its highest upper one.
    """
    lines = []
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
                    "flags": [
                        {"short": explain(g), "long": explain_at_length(g)} for g in flags_of(row)
                    ],
                    "bar": _bar(row, low, high),
                }
            )
    return lines


def _places(lines: list[dict]) -> list[str]:
    """Ranks within each probe, as they are written."""
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


def summary(rows: list[dict]) -> dict:
    """Backbones in rows, dataset and probe in columns, the primary value in cells; best mean rank first.

    Where a probe ran with more than one seed, a cell holds their mean, and their standard deviation in ``spreads``.
    """
    chosen = merge_seeds(overall(rows))
    columns = sorted({(row["dataset"], row["probe"]) for row in chosen})
    lines = []
    for backbone in distinct(chosen, "backbone"):
        of_backbone = [row for row in chosen if row["backbone"] == backbone]
        ranks = {row["probe"]: row["mean_rank"] for row in of_backbone}
        cells = {(row["dataset"], row["probe"]): row for row in of_backbone if finite(row["value"])}
        known = [rank for rank in ranks.values() if finite(rank)]
        lines.append(
            {
                "backbone": backbone,
                "ranks": ranks,
                "cells": [cells[c]["value"] if c in cells else None for c in columns],
                "spreads": [cells[c]["seed_std"] if c in cells else None for c in columns],
                "order": _mean(known),
            }
        )
    lines.sort(key=lambda line: (line["order"] is None, line["order"] or 0.0, line["backbone"]))
    lower = {(row["dataset"], row["probe"]) for row in chosen if not row["higher_is_better"]}
    best = []
    for place, column in enumerate(columns):
        known = [line["cells"][place] for line in lines if line["cells"][place] is not None]
        best.append((min if column in lower else max)(known, default=None))
    return {"columns": columns, "probes": distinct(chosen, "probe"), "lines": lines, "best": best}


def _mean(values: list) -> float | None:
    known = [value for value in values if finite(value)]
    return sum(known) / len(known) if known else None


def gates_met(rows: list[dict]) -> list[dict]:
    """Every gate that was met, in words, with the evaluations that met it."""
    seeded = {
        (line["dataset"], line["backbone"], line["probe"])
        for line in merge_seeds(overall(rows))
        if len(line["seeds"]) > 1
    }
    met: dict[str, list[str]] = {}
    for row in overall(rows):
        names = (row["dataset"], row["backbone"], row["probe"])
        seed = (f"seed {row['seed']}",) if names in seeded else ()
        for gate in flags_of(row):
            met.setdefault(gate, []).append(" / ".join([*names, *seed]))
    return [
        {"short": explain(gate), "long": explain_at_length(gate), "where": sorted(set(where))}
        for gate, where in sorted(met.items())
    ]


def _levels(lines: list[dict]) -> str:
    """Confidence of the lines' intervals, in words."""
    return " or ".join(f"{100 * level:g} %" for level in distinct(lines, "confidence"))


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
