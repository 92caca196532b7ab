"""What the page says, as plain values: the template only arranges it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .gates import explain, explain_at_length
from .rows import better_first, brief_count, distinct, finite, gates_of, metric_name, overall
from .seeds import merge_seeds

_SPATIAL = "spatially_random"


def flags_of(row: dict) -> list[str]:
    """Everything that limits what a score row means: its gates, and a split that leaks places."""
    return gates_of(row) + ([_SPATIAL] if row["spatially_random"] else [])


def leaderboard_lines(rows: list[dict]) -> list[dict]:
    """One line per backbone and probe with the primary metric, and the bar's geometry in per cent.

    Several seeds are one line (`seeds.merge_seeds`). Bars of one dataset share a scale, from its
    lowest lower limit to its highest upper one.
    """
    lines = []
    for dataset in distinct(rows, "dataset"):
        own = merge_seeds(overall(rows, dataset=dataset))
        low, high = _range(own)
        for row in sorted(own, key=lambda r: (r["probe"], *better_first(r))):
            lines.append(
                {
                    **row,
                    "seed_words": ", ".join(map(str, row["seeds"])),
                    "metric_name": metric_name(row["metric"]),
                    "flags": [
                        {"short": explain(g), "long": explain_at_length(g)} for g in flags_of(row)
                    ],
                    "bar": _bar(row, low, high),
                }
            )
    return lines


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

    A cell of several seeds holds their mean, and their standard deviation in ``spreads``.
    """
    chosen = merge_seeds(overall(rows))
    columns = sorted({(row["dataset"], row["probe"]) for row in chosen})
    lines = []
    for backbone in distinct(chosen, "backbone"):
        own = [row for row in chosen if row["backbone"] == backbone]
        ranks = {row["probe"]: row["mean_rank"] for row in own}
        found = {(row["dataset"], row["probe"]): row for row in own if finite(row["value"])}
        known = [rank for rank in ranks.values() if finite(rank)]
        lines.append(
            {
                "backbone": backbone,
                "ranks": ranks,
                "cells": [found[c]["value"] if c in found else None for c in columns],
                "spreads": [found[c]["seed_std"] if c in found else None for c in columns],
                "order": _mean(known),
            }
        )
    lines.sort(key=lambda line: (line["order"] is None, line["order"] or 0.0, line["backbone"]))
    best = [
        max((line["cells"][i] for line in lines if line["cells"][i] is not None), default=None)
        for i in range(len(columns))
    ]
    return {"columns": columns, "probes": distinct(chosen, "probe"), "lines": lines, "best": best}


def _mean(values: list) -> float | None:
    known = [value for value in values if finite(value)]
    return sum(known) / len(known) if known else None


def gates_met(rows: list[dict]) -> list[dict]:
    """Every gate that was met, in words, with the evaluations that met it."""
    several = {
        (line["dataset"], line["backbone"], line["probe"])
        for line in merge_seeds(overall(rows))
        if len(line["seeds"]) > 1
    }
    met: dict[str, list[str]] = {}
    for row in overall(rows):
        names = (row["dataset"], row["backbone"], row["probe"])
        seed = (f"seed {row['seed']}",) if names in several else ()
        for gate in flags_of(row):
            met.setdefault(gate, []).append(" / ".join([*names, *seed]))
    return [
        {"short": explain(gate), "long": explain_at_length(gate), "where": sorted(set(where))}
        for gate, where in sorted(met.items())
    ]


def card_facts(card: dict) -> list[tuple[str, str]]:
    """A dataset's card as (what, value) lines."""
    sizes, masks = card["image_size"], card["task"] == "segmentation"
    facts = [
        ("task", card["task"]),
        ("classes", str(len(card["classes"]))),
        ("ignored mask value", _or_none(card.get("ignore_index")) if masks else ""),
        ("dead classes", _dead(card) if masks else ""),
        ("bands", ", ".join(band["name"] for band in card["bands"])),
        ("offered to backbones", ", ".join(card["selected"])),
        ("image size", _size(sizes["min"], sizes["max"])),
        ("ground sampling distance", f"{card['gsd_m']:g} m" if card.get("gsd_m") else "not known"),
        ("split", _split(card)),
        ("licence", card.get("licence") or "not given"),
        ("citation", card.get("citation") or "not given"),
    ]
    return [fact for fact in facts if fact[1]]


def _or_none(value) -> str:
    return "none" if value is None else str(value)


def _dead(card: dict) -> str:
    names = [card["classes"][index] for index in card.get("dead_classes") or []]
    return f"{', '.join(names)} (in no mean)" if names else "none"


def _size(smallest: list[int], largest: list[int]) -> str:
    if smallest == largest:
        return f"{smallest[0]} × {smallest[1]} pixels"
    return f"{smallest[0]} × {smallest[1]} to {largest[0]} × {largest[1]} pixels"


def _split(card: dict) -> str:
    made = {
        "given": "as given by the data",
        "random": "made at random, stratified by class",
        "group": "made by group",
        "block": "made by spatial block",
    }.get(card["split_method"], card["split_method"])
    return made if card["split_method"] == "given" else f"{made}, seed {card['split_seed']}"


def split_line(name: str, card: dict) -> dict:
    """One split of a card as a line of a table; of masks, classes are counted in pixels."""
    split = card["splits"][name]
    counts = split["class_counts"] or [0]
    groups = split.get("groups")
    words = brief_count if card["task"] == "segmentation" else str
    return {
        "name": name,
        "count": split["count"],
        "groups": "not known" if groups is None else groups,
        "smallest": words(min(counts)),
        "largest": words(max(counts)),
    }


def audit_facts(card: dict) -> list[dict]:
    """The leakage audit as lines; ``bad`` where train and test share something."""
    audit = card["audit"]
    lines = [
        ("exact duplicates across splits", audit.get("exact_duplicates")),
        ("near-duplicates across splits (perceptual hash)", audit.get("near_duplicates")),
        ("groups shared by splits", audit.get("shared_groups")),
    ]
    facts = [
        {"name": name, "value": "not checked" if value is None else f"{value}", "bad": bool(value)}
        for name, value in lines
    ]
    distance = audit.get("min_distance_km")
    shown = "no coordinates" if distance is None else f"{distance:.3g} km"
    facts.append(
        {"name": "smallest distance from train to test", "value": shown, "bad": distance == 0}
    )  # fmt: skip
    return facts


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
            }
        )
    return sorted(
        lines, key=lambda line: (line["probe"], line["seed"], line["difference"], line["other"])
    )


def entry_lines(entries: Mapping[str, dict]) -> list[dict]:
    """Catalogue entries as name, title and the rest as indented JSON."""
    return [
        {
            "name": name,
            "title": entry.get("title") or "",
            "kind": entry.get("kind") or entry.get("task") or "",
            "entry": json.dumps(entry, indent=2, sort_keys=True, ensure_ascii=False),
        }
        for name, entry in sorted(entries.items())
    ]


def versions_met(metadata: list[dict]) -> dict[str, str]:
    """Package -> version, gathered from what was written beside the results."""
    met: dict[str, set[str]] = {}
    for one in metadata:
        for package, version in (one.get("versions") or {}).items():
            met.setdefault(package, set()).add(str(version))
    return {package: ", ".join(sorted(versions)) for package, versions in sorted(met.items())}


def compute_words(metadata: list[dict]) -> str:
    """On what features were computed and in which precision heads were trained, where it is recorded."""
    devices = sorted({one["device"] for one in metadata if one.get("device")})
    found = [f"Features were computed on {' and '.join(devices)}."] if devices else []
    settings = [one["settings"] for one in metadata]
    precisions = sorted({one["precision"] for one in settings if one.get("precision")})
    found += [f"Heads were trained in {' and '.join(precisions)}."] if precisions else []
    return " ".join(found)
