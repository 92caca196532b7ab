"""The page's calibration section: calibration errors, temperatures, reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.metrics.calibration import reliability
from permafrost.metrics.tasks import BRIER, CALIBRATION, CALIBRATION_ERRORS, SCALED, TEMPERATURE
from permafrost.report.explanations.gates import explain_at_length
from permafrost.report.figures.reliability import MOST, draw_reliability
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    save,
)
from permafrost.report.notation import number
from permafrost.report.sections.scores import comparison_lines, value_cell
from permafrost.statistics.leaderboard.rows import (
    better_first,
    gates_of,
    metric_name,
    overall,
)
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.predictions.columns import array_of

_FIRST = CALIBRATION_ERRORS[0]
# the reference value of a temperature is 1; scaled metrics follow
COLUMNS = (*CALIBRATION_ERRORS, BRIER, TEMPERATURE, f"{_FIRST}{SCALED}", f"{BRIER}{SCALED}")
_OWN_GATES = ("temperature_", "few_errors", "sparse_bins")
_SHORT = {
    CALIBRATION_ERRORS[0]: "ECE",
    CALIBRATION_ERRORS[1]: "RMS error",
    CALIBRATION_ERRORS[2]: "largest error",
    BRIER: "Brier score",
    TEMPERATURE: "temperature",
    f"{_FIRST}{SCALED}": "ECE, scaled",
    f"{BRIER}{SCALED}": "Brier score, scaled",
}


def calibration_section(
    material: Material, comparisons: Mapping[str, Path], folder: Path
) -> tuple[dict | None, list[Drawn]]:
    """Template values, None if no calibration was measured, and the figures.

    Parameters
    ----------
    comparisons : probe -> comparison table.
    """
    lines = _lines(material)
    if not lines:
        return None, []
    values = {
        "columns": [{"name": _SHORT[name], "words": metric_name(name)} for name in COLUMNS],
        "lines": lines,
        "remarks": sorted({remark for line in lines for remark in line.pop("remarks")}),
        "comparisons": _comparisons(material, comparisons),
    }
    return values, _diagrams(material, folder)


def _lines(material: Material) -> list[dict]:
    """One line per probe and backbone, sorted by expected calibration error within a probe."""
    lines: dict[tuple, dict[str, dict]] = {}
    rows = [row for row in material.rows if row["metric"] in CALIBRATION]
    for row in merge_seeds(overall(rows, primary=False)):
        lines.setdefault((row["probe"], row["backbone"]), {})[row["metric"]] = row
    ordered = sorted(lines, key=lambda key: (key[0], *better_first(lines[key][_FIRST])))
    return [
        {
            "probe": probe,
            "backbone": backbone,
            "cells": [_cell(lines[probe, backbone][name]) for name in COLUMNS],
            "remarks": _remarks(lines[probe, backbone]),
        }
        for probe, backbone in ordered
    ]


def _cell(row: dict) -> dict:
    flagged = any(gate.startswith(_OWN_GATES) for gate in gates_of(row))
    return value_cell(row, flagged=flagged)


def _remarks(own: dict[str, dict]) -> set[str]:
    met = {gate for row in own.values() for gate in gates_of(row) if gate.startswith(_OWN_GATES)}
    return {explain_at_length(gate) for gate in met}


def _comparisons(material: Material, paths: Mapping[str, Path]) -> list[dict]:
    """Calibration differences of all pairs; if many, only those of the best by each metric."""

    lines = []
    for probe, path in sorted(paths.items()):
        rows = material.compared(path)
        for metric in dict.fromkeys(row["metric"] for row in rows if row["metric"] in CALIBRATION):
            own = merge_seeds(overall(material.rows, primary=False, probe=probe, metric=metric))
            if not own:
                continue
            best = min(own, key=better_first)["backbone"]
            chosen = [row for row in rows if row["metric"] == metric]
            lines += [
                {**line, "best": best, "metric_name": metric_name(metric)}
                for line in comparison_lines(chosen, best)
            ]
    return lines


def _diagrams(material: Material, folder: Path) -> list[Drawn]:
    """Reliability diagrams of the best evaluation of every backbone with probabilities."""
    judged = {
        (row["backbone"], row["seed"], row["probe"])
        for row in material.rows
        if row["metric"] == _FIRST and row["setting"] is None
    }
    known = {key: path for key, path in material.predictions.items() if key in judged}
    best = best_of_each(replace(material, predictions=known))
    shown = best[:MOST]
    if not shown:
        return []
    multilabel = targets_of(material.card.task).several
    diagrams = {one[0]: _diagram(material, one) for one in shown}
    entries = "labels of images" if multilabel else "images"
    figure = draw_reliability(
        diagrams,
        title=f"{material.name}: reliability of probabilities",
        said=f"mean probability of {'a label' if multilabel else 'the class that was predicted'}",
        right="share present" if multilabel else "share right",
        counted=entries,
        note=f"On the dashed line the two agree. Below: number of {entries} in each of {material.bins} bins"
        f"{' and at exactly 1' if material.bins_like else ''}, on a logarithmic scale.",
    )
    left = len(best) - len(shown)
    rest = f" The {len(shown)} best backbones of {len(best)}." if left else ""
    return [
        save(
            figure,
            folder,
            "reliability",
            material.name,
            wide=len(shown) > 1,
            alt=f"Reliability diagrams of the best evaluation of every backbone on {material.name}",
            caption="Whether a probability can be believed: the share of hits against the mean probability, for the "
            "best evaluation of each backbone. Above the dashed line the probe is too cautious, below it too sure; "
            f"bins with few {entries} are noise.{rest}",
        )
    ]


def _diagram(material: Material, one: Evaluation) -> dict:
    path = material.predictions[one]
    names = ["target", "scores"]
    table, _ = read_table(path, expect=material.expected(path), columns=names)
    target, scores = (array_of(table, name) for name in names)
    binning: dict[str, Any] = {"n_bins": material.bins, "like": material.bins_like}
    bins = reliability(target, scores, task=material.card.task, **binning)
    errors = [
        row["value"]
        for row in material.rows
        if row["metric"] == _FIRST
        and row["setting"] is None
        and (row["backbone"], row["seed"], row["probe"]) == one
    ]
    words = name_of(one, material).removeprefix(f"{one[0]}, ")
    return {**bins, "words": f"{words}, ECE {number(errors[0])}"}
