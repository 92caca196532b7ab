"""The page's cost section: a table with the scores, and figures with the Pareto front."""

from __future__ import annotations

from pathlib import Path

from permafrost.report.explanations.costs import (
    DRAWN,
    WORDS,
    brief_cost,
    cost_lines,
    machines,
    remarks,
    uncounted,
)
from permafrost.report.explanations.measures import is_flagged
from permafrost.report.figures.costs import draw_costs
from permafrost.report.material.dataset import Drawn, Material, save
from permafrost.report.sections.scores import best_cell, value_cell
from permafrost.statistics.leaderboard.rows import finite


def costs_section(material: Material, folder: Path) -> tuple[dict | None, list[Drawn]]:
    """Template values, None if nothing was profiled, and the figures."""
    lines = cost_lines(material.rows)
    if not lines:
        return None, []
    names = [name for name in WORDS if any(name in line["costs"] for line in lines)]
    values = {
        "columns": [{"name": WORDS[name][0], "words": WORDS[name][1]} for name in names],
        "lines": [
            {
                "backbone": line["backbone"],
                "best": best_cell(line["best"]),
                "cells": [_cell(line["costs"].get(name)) for name in names],
            }
            for line in lines
        ],
        "machines": machines(lines),
        "remarks": remarks(lines),
        "words": _words(lines),
    }
    return values, _figures(material, lines, folder)


def _words(lines: list[dict]) -> str:
    words = "The quartiles of the repeats are below each median."
    left_out = uncounted(lines)
    return f"{words} FLOPs leave out: {', '.join(left_out)}." if left_out else words


def _cell(row: dict | None) -> dict:
    return value_cell(row, brief_cost, flagged=row is not None and is_flagged(row))


def _figures(material: Material, lines: list[dict], folder: Path) -> list[Drawn]:
    costs = [name for name in DRAWN if any(_known(line["costs"].get(name)) for line in lines)]
    scores = material.lines
    if not costs or not any(_known(line) for line in scores):
        return []
    figure = draw_costs(lines, scores, costs, title=f"{material.name}: score against cost")
    return [
        save(
            figure,
            folder,
            "costs",
            material.name,
            wide=True,
            alt=f"Score of every probe against {', '.join(WORDS[name][0] for name in costs)} of every backbone on "
            f"{material.name}",
            caption="Each probe's score with its interval against what the backbone costs. "
            "The line is the Pareto front: backbones that no other one beats in both. "
            "Only the intervals say how certain a step of it is.",
        )
    ]


def _known(row: dict | None) -> bool:
    return row is not None and finite(row["value"])
