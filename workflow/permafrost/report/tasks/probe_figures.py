"""Figures of probes: scores per setting, training of heads, fine-tuned and frozen backbones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.leakage import CLEAN
from permafrost.core.tables import read_metadata
from permafrost.metrics.tasks import primary_metric
from permafrost.report.figures import training
from permafrost.report.figures.per_class import draw_per_class
from permafrost.report.figures.setting_curves import Point, draw_setting_curves
from permafrost.report.figures.tuned import draw_tuned
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    names_of,
    of_evaluation,
    save,
)
from permafrost.statistics.leaderboard.rows import better_first, distinct, finite, metric_name
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.predictions.relative_loss import RELATIVE_LOSS


@dataclass(frozen=True)
class Layout:
    """Layout of the settings of a kind of probe.

    Attributes
    ----------
    place : settings -> (name of the figure, heading of the panel, x), or None to skip.
    across : name of the figure -> name of x.
    note : meaning of the bars.
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


LAYOUTS = {
    "knn_sweep": Layout(
        _of_neighbours,
        {"k": "neighbours (k)"},
        "Bars are intervals over the test set. A weighted vote counts exp(cosine similarity / temperature).",
        "{metric} with every number of neighbours, metric and weighting. The setting that is ranked was "
        "chosen on validation, not here.",
    ),
    "few_shot": Layout(
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
    """One figure per probe with settings, or several if its settings are of different kinds."""
    metric = primary_metric(material.card.task)
    rows = [
        row
        for row in material.rows
        if row["setting"] not in (None, CLEAN, RELATIVE_LOSS)
        and row["class"] is None
        and row["metric"] == metric
        and row["kind"] in LAYOUTS
        and finite(row["value"])
    ]
    return [
        drawn
        for probe in distinct(rows, "probe")
        for drawn in _of_probe(material, [row for row in rows if row["probe"] == probe], folder)
    ]


def _of_probe(material: Material, rows: list[dict], folder: Path) -> list[Drawn]:
    probe, shown, metric = (
        rows[0]["probe"],
        LAYOUTS[rows[0]["kind"]],
        metric_name(rows[0]["metric"]),
    )
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


def draw_training_curves(material: Material, folder: Path, score: str) -> list[Drawn]:
    """Training curves of every trained head, at its first seed; the best backbones are coloured.

    `score` is a key of `figures.training.SCORES`.
    """
    order = {key[0]: place for place, key in enumerate(best_of_each(material))}
    logs: dict[str, dict[str, dict]] = {}
    for key in sorted(material.first_seeds(), key=lambda key: (order.get(key[0], len(order)), key)):
        path = material.predictions[key]
        settings = read_metadata(path, expect=material.expected(path))["settings"]
        if settings.get("epochs_log"):
            backbone, _, probe = key
            log = {"epochs": settings["epochs_log"], "epoch": settings["epoch"]}
            logs.setdefault(backbone, {})[probe] = log
    if not logs:
        return []
    probes = sorted({probe for by_probe_of in logs.values() for probe in by_probe_of})
    by_probe = {p: {name: logs[name][p] for name in logs if p in logs[name]} for p in probes}
    words, shown = training.SCORES[score], list(logs)[: training.MOST]
    which = (
        f", of the {len(shown)} best backbones of {len(logs)} in colour"
        if len(logs) > len(shown)
        else ""
    )
    figure = training.draw_training(by_probe, dataset=material.name, score=score, order=list(logs))
    return [
        save(
            figure,
            folder,
            "training",
            material.name,
            wide=True,
            alt=f"Losses and validation {words} per epoch of every head on {material.name}",
            caption=f"Training of the heads{which}, at the first seed: losses and validation {words} of every "
            "epoch, the scored epoch marked.",
        )
    ]


def draw_classes(
    material: Material,
    folder: Path,
    keys: list[Evaluation],
    kinds: dict[str, str],
    support: dict[str, str],
    of: str,
) -> list[Drawn]:
    """A figure for every per-class metric of these evaluations.

    Parameters
    ----------
    kinds : metric -> first part of the file's name.
    support : class -> its share of the test set, in words; `of` names the unit.
    """
    figures = []
    for metric, kind in kinds.items():
        rows = [row for key in keys for row in of_evaluation(material.rows, key, metric)]
        if rows:
            name = metric_name(metric)
            title = f"{material.name}: {name} by class"
            figures.append(
                save(
                    draw_per_class(rows, title=title, support=support),
                    folder,
                    kind,
                    material.name,
                    alt=f"{name} of every class of {material.name}, by backbone",
                    caption=f"{_capital(name)} of every class ({of}) with the best head of each backbone: "
                    f"{names_of(keys, material)}.",
                )
            )
    return figures


# names of the probe's settings
FINE_TUNE_SETTINGS = {
    "frozen": "frozen",
    "fine-tuned": "fine-tuned",
    "gain": "fine-tuned minus frozen",
}


def draw_gains(material: Material, folder: Path) -> list[Drawn]:
    """One figure per probe of the kind ``fine_tune``, best backbone first; seeds are averaged."""
    metric = primary_metric(material.card.task)
    rows = [
        row
        for row in material.rows
        if row["kind"] == "fine_tune" and row["class"] is None and row["metric"] == metric
    ]
    figures = []
    for probe in distinct(rows, "probe"):
        of_probe = [row for row in rows if row["probe"] == probe]
        lines = {
            name: {
                line["backbone"]: line
                for line in merge_seeds(row for row in of_probe if row["setting"] == setting)
            }
            for name, setting in FINE_TUNE_SETTINGS.items()
        }
        order = [
            line["backbone"] for line in sorted(lines["fine-tuned"].values(), key=better_first)
        ]
        drawn = {name: {what: lines[what][name] for what in FINE_TUNE_SETTINGS} for name in order}
        if not drawn:
            continue
        figures.append(
            save(
                draw_tuned(drawn, title=f"{material.name}: {probe}", metric=metric),
                folder,
                "tuned",
                material.name,
                probe,
                wide=True,
                alt=f"{metric_name(metric)} of every backbone on {material.name}, frozen and fine-tuned",
                caption=f"What {probe} gains: {metric_name(metric)} of every backbone with a head on what it gives "
                "frozen, and with the same head after both were trained further.",
            )
        )
    return figures
