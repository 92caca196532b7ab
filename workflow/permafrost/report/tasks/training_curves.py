"""How the heads of a dataset were trained: losses and validation scores of every epoch."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.tables import read_metadata
from permafrost.report.figures import training
from permafrost.report.material.dataset import Drawn, Material, best_of_each, save


def draw_training_curves(material: Material, folder: Path, score: str) -> list[Drawn]:
    """Epochs of every head that was trained, at its first seed; the best backbones are in colour.

    `score` is what `figures.training.SCORES` calls by its key in the log of epochs.
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
    probes = sorted({probe for own in logs.values() for probe in own})
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
