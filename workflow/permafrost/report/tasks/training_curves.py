"""How the heads of a dataset were trained: losses and validation scores of every epoch."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.tables import read_metadata

from ..figures import training
from ..material import Drawn, Material, best_of_each, save


def draw_training_curves(material: Material, folder: Path, score: str) -> list[Drawn]:
    """Epochs of every head that was trained, at its first seed, for six backbones at a time.

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
    names = list(logs)
    parts = [names[start : start + training.MOST] for start in range(0, len(names), training.MOST)]
    figures, words = [], training.SCORES[score]
    for number, part in enumerate(parts, start=1):
        probes = sorted({probe for name in part for probe in logs[name]})
        by_probe = {p: {name: logs[name][p] for name in part if p in logs[name]} for p in probes}
        figures.append(
            save(training.draw_training(by_probe, dataset=material.name, score=score), folder, "training",
                 material.name, *([str(number)] if len(parts) > 1 else []), wide=True,
                 alt=f"Losses and validation {words} per epoch of every head on {material.name}",
                 caption=f"Training of the heads, at the first seed: losses and validation {words} of every "
                 "epoch, the scored epoch marked.")
        )  # fmt: skip
    return figures
