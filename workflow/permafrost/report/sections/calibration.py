"""The page's section on probabilities: calibration errors, temperatures, selective prediction, prediction sets, and
their figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.metrics.calibration import reliability, risk_coverage
from permafrost.metrics.tasks import (
    AURC,
    BRIER,
    CALIBRATION,
    CALIBRATION_ERRORS,
    EXCESS_AURC,
    OF_SETS,
    SCALED,
    TEMPERATURE,
)
from permafrost.report.explanations.gates import explain_at_length
from permafrost.report.figures import selective
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
COLUMNS = (
    *CALIBRATION_ERRORS, BRIER, AURC, EXCESS_AURC, TEMPERATURE, f"{_FIRST}{SCALED}", f"{BRIER}{SCALED}",
)  # fmt: skip
_OWN_GATES = ("temperature_", "few_errors", "sparse_bins", "few_to_calibrate")
_SHORT = {
    CALIBRATION_ERRORS[0]: "ECE",
    CALIBRATION_ERRORS[1]: "RMS error",
    CALIBRATION_ERRORS[2]: "largest error",
    BRIER: "Brier score",
    AURC: "AURC",
    EXCESS_AURC: "excess AURC",
    TEMPERATURE: "temperature",
    f"{_FIRST}{SCALED}": "ECE, scaled",
    f"{BRIER}{SCALED}": "Brier score, scaled",
}
# columns of prediction sets, in the order of `OF_SETS`
_OF_SETS = ("coverage", "mean size", "one class", "coverage of the worst class")
_THRESHOLDS = {"": "one", "_by_class": "per class", "_by_group": "per group"}


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
        "sets": _sets(material),
    }
    return values, _figures(material, folder)


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


def _sets(material: Material) -> dict | None:
    """The table of prediction sets, a line per probe, kind of thresholds and backbone; None if there are none."""
    lines = []
    for suffix, metrics in OF_SETS.items():
        names = [metric.name for metric in metrics if not metric.per_class]
        found: dict[tuple, dict[str, dict]] = {}
        rows = [row for row in material.rows if row["metric"] in names]
        for row in merge_seeds(overall(rows, primary=False)):
            found.setdefault((row["probe"], row["backbone"]), {})[row["metric"]] = row
        lines += [
            {
                "probe": probe,
                "thresholds": _THRESHOLDS[suffix],
                "backbone": backbone,
                "cells": [_cell(own[name]) for name in names],
                "remarks": _remarks(own),
                "size": better_first(own[names[1]]),
            }
            for (probe, backbone), own in found.items()
        ]
    if not lines:
        return None
    lines.sort(
        key=lambda one: (
            one["probe"],
            [*_THRESHOLDS.values()].index(one["thresholds"]),
            one.pop("size"),
        )
    )
    return {
        "columns": [
            {"name": name, "words": metric.words}
            for name, metric in zip(_OF_SETS, OF_SETS[""], strict=False)
        ],
        "lines": lines,
        "remarks": sorted({remark for line in lines for remark in line.pop("remarks")}),
        "said": material.sets,
    }


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


def _figures(material: Material, folder: Path) -> list[Drawn]:
    """Reliability diagrams and risk-coverage curves of the best evaluation of every backbone with probabilities."""
    judged = {
        (row["backbone"], row["seed"], row["probe"])
        for row in material.rows
        if row["metric"] == _FIRST and row["setting"] is None
    }
    known = {key: path for key, path in material.predictions.items() if key in judged}
    best = best_of_each(replace(material, predictions=known))
    if not best:
        return []
    return [_diagrams(material, best, folder), _curves(material, best, folder)]


def _diagrams(material: Material, best: list[Evaluation], folder: Path) -> Drawn:
    shown = best[:MOST]
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
    return save(
        figure,
        folder,
        "reliability",
        material.name,
        wide=len(shown) > 1,
        alt=f"Reliability diagrams of the best evaluation of every backbone on {material.name}",
        caption="Whether a probability can be believed: the share of hits against the mean probability, for the "
        "best evaluation of each backbone. Above the dashed line the probe is too cautious, below it too sure; "
        f"bins with few {entries} are noise.{_rest(best, shown)}",
    )


def _curves(material: Material, best: list[Evaluation], folder: Path) -> Drawn:
    shown = best[: selective.MOST]
    entries = "labels of images" if targets_of(material.card.task).several else "images"
    curves = {
        one[0]: (
            risk_coverage(*_answers(material, one), task=material.card.task),
            f", {_words(material, one)}, AURC {number(_value(material, one, AURC))}",
        )
        for one in shown
    }
    figure = selective.draw_risk_coverage(
        curves, title=f"{material.name}: risk against coverage", counted=entries
    )
    return save(
        figure,
        folder,
        "risk_coverage",
        material.name,
        wide=True,
        alt=f"Risk against coverage of the best evaluation of every backbone on {material.name}",
        caption="Which predictions may be kept: the share of errors among those with the highest probability, for the "
        "best evaluation of each backbone. At full coverage it is the share of errors of all; the mean height of a "
        "curve is its AURC. A curve that does not rise to the right has probabilities that say nothing about errors. "
        f"At its left end it rests on few {entries}.{_rest(best, shown)}",
    )


def _rest(best: list, shown: list) -> str:
    left = len(best) - len(shown)
    return f" The {len(shown)} best backbones of {len(best)}." if left else ""


def _answers(material: Material, one: Evaluation) -> tuple:
    """Targets and scores of an evaluation."""
    path, names = material.predictions[one], ["target", "scores"]
    table, _ = read_table(path, expect=material.expected(path), columns=names)
    return tuple(array_of(table, name) for name in names)


def _value(material: Material, one: Evaluation, metric: str) -> float:
    return next(
        row["value"]
        for row in material.rows
        if row["metric"] == metric
        and row["setting"] is None
        and (row["backbone"], row["seed"], row["probe"]) == one
    )


def _words(material: Material, one: Evaluation) -> str:
    return name_of(one, material).removeprefix(f"{one[0]}, ")


def _diagram(material: Material, one: Evaluation) -> dict:
    binning: dict[str, Any] = {"n_bins": material.bins, "like": material.bins_like}
    bins = reliability(*_answers(material, one), task=material.card.task, **binning)
    error = number(_value(material, one, _FIRST))
    return {**bins, "words": f"{_words(material, one)}, ECE {error}"}
