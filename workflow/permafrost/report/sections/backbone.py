"""The page of one backbone: input, scores compared with the best, costs, warnings."""

from __future__ import annotations

import json
from collections.abc import Mapping

from permafrost.backbones.input.fed import FedChannel
from permafrost.report.explanations.costs import WORDS
from permafrost.report.explanations.leaderboard_state import left_out_words, same_words
from permafrost.report.material.dataset import slug
from permafrost.report.notation import number
from permafrost.report.tables.compared import direction_of
from permafrost.statistics.leaderboard.rows import copies, distinct, finite

#: parts of `sections.dataset.dataset_section` that `backbone_sections` needs
NEEDED = ("name", "lines", "comparisons", "costs")


def backbone_page(name: str) -> str:
    """Path of a backbone's page, relative to the overview page."""
    return f"backbones/{slug(name)}.html"


def backbone_sections(
    plan: Mapping, datasets: list[dict], made: list[dict], facts: list[dict]
) -> list[dict]:
    """Template values of each backbone that has a score, by name.

    Parameters
    ----------
    plan : the recorded plan.
    datasets : per dataset the parts `NEEDED` of its section, and ``href``, its page.
    made : metadata of the prediction tables, which record the input of backbones.
    facts : `run.backbone_facts`.
    """
    known = {one["name"]: one for one in facts}
    fed = _fed(made)
    against = {one["name"]: _against_best(one["lines"], one["comparisons"]) for one in datasets}
    lines: dict[str, list[dict]] = {}
    same = copies(line for dataset in datasets for line in dataset["lines"])
    for dataset in datasets:
        for line in dataset["lines"]:
            name = line["backbone"]
            words, level = against[dataset["name"]].get((line["probe"], name), ("", None))
            own = {**line, "href": dataset["href"], "against": words, "level": level}
            lines.setdefault(name, []).append(own)
    return [
        {
            "name": name,
            "title": plan["backbones"].get(name, {}).get("title") or "",
            "facts": _facts(known.get(name, {})),
            "fed": fed.get(name, []),
            "wins": _wins(lines[name]),
            "lines": lines[name],
            "left_out": left_out_words(plan.get("left_out", []), "backbone", name),
            "same": same_words(same, "backbone", name),
            "costs": _costs(name, datasets),
            "warnings": _warnings(lines[name]),
            "entry": json.dumps(
                plan["backbones"].get(name, {}), indent=2, sort_keys=True, ensure_ascii=False
            ),
        }
        for name in sorted(lines)
    ]


def _facts(facts: Mapping) -> list[tuple[str, str]]:
    parameters = facts.get("parameters")
    said = [
        ("parameters", "" if parameters is None else f"{parameters:,}"),
        ("year", str(facts.get("year") or "")),
        ("trained on", facts.get("trained_on", "")),
        ("licence", facts.get("licence", "")),
        ("citation", facts.get("citation", "")),
    ]
    return [(name, value or "not given") for name, value in said]


def _fed(made: list[dict]) -> dict[str, list[dict]]:
    """Backbone to its input on each dataset; probes with different input have separate lines."""
    found: dict[str, dict[tuple, dict]] = {}
    for one in made:
        if not one.get("input"):
            continue
        line = {"dataset": one["dataset"], **_input_words(one["input"])}
        found.setdefault(one["backbone"], {})[tuple(line.values())] = line
    return {
        backbone: [lines[key] for key in sorted(lines)] for backbone, lines in sorted(found.items())
    }


def _input_words(fed: Mapping) -> dict[str, str]:
    absent, values = fed.get("zero_filled") or [], fed.get("filled_with") or {}
    zeros = [band for band in absent if band not in values]
    filled = [f"{band} ({value:.3g})" for band, value in values.items()]
    nearest = fed.get("nearest") or {}
    stand_ins = [f"{one['band']} for {wanted}" for wanted, one in nearest.items()]
    size, crop = fed.get("size"), fed.get("crop")
    side = "native size" if size is None else f"{size} pixels, {fed.get('interpolation')}"
    bands = [band for band in _bands(fed) if band not in absent]
    remarks = [
        f"{fed['fit']}, {fed['bands_real']} of {fed['bands_wanted']} wanted bands"
        if fed.get("fit", "exact") != "exact"
        else "",
        f"filled with zeros: {', '.join(zeros)}" if zeros else "",
        f"filled with a neutral value: {', '.join(filled)}" if filled else "",
        f"left out: {', '.join(fed['left_out'])}" if fed.get("left_out") else "",
        f"from power to dB: {', '.join(fed['to_decibels'])}" if fed.get("to_decibels") else "",
        f"nearest in wavelength: {', '.join(stand_ins)}" if stand_ins else "",
        f"up to {fed['most_dates']} dates at once" if fed.get("dates") == "all" else "",
        "clipped" if fed.get("clip") else "",
        str(fed.get("positions") or ""),
    ]
    return {
        "bands": ", ".join(bands),
        "side": side + (f", centre {crop}" if crop else ""),
        "normalization": str(fed.get("normalization") or "none"),
        "remarks": "; ".join(filter(None, remarks)),
    }


def _bands(fed: Mapping) -> list[str]:
    """Names of the input channels, with mean and deviation unless unknown or zero-filled."""
    names, stats = fed.get("bands", []), fed.get("as_fed")
    if stats is None:
        return names
    known = map(FedChannel, names, stats["mean"], stats["std"])
    return [one.name if one.name in (fed.get("zero_filled") or []) else str(one) for one in known]


def _against_best(lines: list[dict], compared: list[dict]) -> dict[tuple[str, str], tuple]:
    """(probe, backbone) to words comparing it with the best of a dataset, and 0 (best alone), 1 (no
    significant difference) or 2 (worse).

    Pairs that could not be tested are excluded.
    """
    pairs = {(row["probe"], row["other"]): row for row in compared if finite(row["p_adjusted"])}
    apart = {key: direction_of(row) != 0 for key, row in pairs.items()}
    best = {row["probe"]: row["best"] for row in compared}
    found = {}
    for line in lines:
        probe, name = key = line["probe"], line["backbone"]
        if best.get(probe) == name:
            alike = [other for (of, other), told in apart.items() if of == probe and not told]
            words = (
                f"best, not significantly different from {_listed(alike)}"
                if alike
                else "best, significantly"
            )
            found[key] = (words, 1 if alike else 0)
        elif key in apart:
            beaten = apart[key]
            words = "worse than" if beaten else "not significantly different from"
            found[key] = (
                f"{words} {best[probe]} ({_chance(pairs[key], beaten)})",
                2 if beaten else 1,
            )
    return found


def _chance(row: dict, apart: bool) -> str:
    text = row["p_text"]
    said = f"p {text}" if text[:1] in "<≤>" else f"p = {text}"
    if apart or not finite(row["detectable"]):
        return said
    return f"{said}; finds {number(row['detectable'])} or more"


def _listed(names: list[str], most: int = 2) -> str:
    return ", ".join(sorted(names)) if len(names) <= most else f"{len(names)} others"


def _wins(lines: list[dict]) -> list[dict]:
    """Per probe, on how many datasets the backbone is best alone, among the best, or worse."""
    found = []
    for probe in distinct(lines, "probe"):
        levels = [line["level"] for line in lines if line["probe"] == probe]
        found.append(
            {
                "probe": probe,
                "alone": levels.count(0),
                "alike": levels.count(1),
                "worse": levels.count(2),
                "unknown": levels.count(None),
                "on": [
                    line["dataset"]
                    for line in lines
                    if line["probe"] == probe and line["level"] in (0, 1)
                ],
            }
        )
    return found


def _costs(name: str, datasets: list[dict]) -> dict | None:
    """Its line of each dataset's cost table, with all columns that occur."""
    lines = []
    for dataset in datasets:
        costs = dataset["costs"]
        if costs is None:
            continue
        titles = [column["name"] for column in costs["columns"]]
        for line in costs["lines"]:
            if line["backbone"] == name:
                cells = dict(zip(titles, line["cells"], strict=True))
                lines.append({"dataset": dataset["name"], "href": dataset["href"], "cells": cells})
    if not lines:
        return None
    known = {title for line in lines for title in line["cells"]}
    columns = [{"name": title, "words": words} for title, words in WORDS.values() if title in known]
    nothing = {"value": None, "text": "–", "interval": "", "flagged": False}
    return {
        "columns": columns,
        "lines": [
            {**line, "cells": [line["cells"].get(column["name"], nothing) for column in columns]}
            for line in lines
        ],
    }


def _warnings(lines: list[dict]) -> list[dict]:
    """Each warning once, with the evaluations that have it."""
    met: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for flag in line["flags"]:
            where = met.setdefault((flag["short"], flag["long"]), [])
            where.append(f"{line['dataset']} / {line['probe']}")
    return [
        {"short": short, "long": long, "where": sorted(where)}
        for (short, long), where in sorted(met.items())
    ]
