"""Figures of probes that score several settings: the score of every setting, with its interval."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from permafrost.metrics.tasks import primary_metric
from permafrost.report.figures.setting_curves import Point, draw_setting_curves
from permafrost.report.material.dataset import Drawn, Material, save
from permafrost.report.values.rows import distinct, finite, metric_name


@dataclass(frozen=True)
class Shown:
    """How the settings of a kind of probe are laid out.

    Attributes
    ----------
    place : settings -> (name of the figure, heading of the panel, x), or None for what is not shown.
    across : name of the figure -> what x is.
    note : what bars mean.
    caption : of the figures, with the metric.
    """

    place: Callable[[dict], tuple[str, str, float] | None]
    across: dict[str, str]
    note: str
    caption: str


def _of_neighbours(settings: dict) -> tuple[str, str, float]:
    weights = "equal votes" if settings.get("temperature") is None else "weighted votes"
    return "k", f"{settings['metric']}, {weights}", settings["k"]


def _of_draws(settings: dict) -> tuple[str, str, float]:
    if settings["per_class"] is None:
        return "share", settings["classifier"], settings["share"]
    return "per_class", settings["classifier"], settings["per_class"]


SHOWN = {
    "knn_sweep": Shown(
        _of_neighbours,
        {"k": "neighbours (k)"},
        "Bars are intervals over the test set. A weighted vote counts exp(cosine similarity / temperature).",
        "{metric} with every number of neighbours, metric and weighting. The setting that is ranked was "
        "chosen on validation, not here.",
    ),
    "few_shot": Shown(
        _of_draws,
        {
            "share": "% of train and validation",
            "per_class": "training samples per class",
        },
        "Points are means over draws; thin bars are intervals over the test set, wide ones standard deviations over "
        "draws.",
        "{metric} after small draws of the training set. The interval says how far another test set would move the "
        "mean over draws, the standard deviation how far another draw moves one value.",
    ),
}


def draw_settings(material: Material, folder: Path) -> list[Drawn]:
    """One figure per probe with several settings, or more where its settings differ in kind."""
    metric = primary_metric(material.card.task)
    rows = [
        row
        for row in material.rows
        if row["setting"] is not None
        and row["class"] is None
        and row["metric"] == metric
        and row["kind"] in SHOWN
        and finite(row["value"])
    ]
    return [
        drawn
        for probe in distinct(rows, "probe")
        for drawn in _of_probe(material, [row for row in rows if row["probe"] == probe], folder)
    ]


def _of_probe(material: Material, rows: list[dict], folder: Path) -> list[Drawn]:
    probe, shown, metric = rows[0]["probe"], SHOWN[rows[0]["kind"]], metric_name(rows[0]["metric"])
    figures: dict[str, dict[str, dict[str, list[Point]]]] = {}
    for row in rows:
        place = shown.place(json.loads(row["settings"]))
        if place is not None:
            name, panel, x = place
            lines = figures.setdefault(name, {}).setdefault(panel, {})
            lines.setdefault(row["backbone"], []).append(
                Point(x, row["value"], row["lower"], row["upper"], row["draw_std"])
            )
    return [
        save(
            draw_setting_curves(
                panels,
                title=f"{material.name}: {probe}",
                across=shown.across[name],
                up=metric,
                note=shown.note,
                scale=100.0 if name == "share" else 1.0,
            ),
            folder,
            "settings",
            material.name,
            probe,
            name,
            wide=True,
            alt=f"{metric} against {shown.across[name]} for every backbone with {probe} on {material.name}",
            caption=_capital(shown.caption.format(metric=metric)),
        )
        for name, panels in sorted(figures.items())
    ]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
