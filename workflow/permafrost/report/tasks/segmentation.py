"""Figures of a dataset of masks: pictures, training, confusion of pixels, classes."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.tables import read_metadata
from permafrost.statistics.gates import chance_level

from ..dense import DensePredictions, read_dense
from ..figures import confusion, per_class, training
from ..material import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    names_of,
    of_evaluation,
    save,
)
from ..rows import metric_name
from .mask_pictures import draw_masks


def chance(material: Material, best: Evaluation) -> float:
    """Mean IoU of giving every pixel the largest class."""
    found = _read(material, best)
    pixels = found.confusion.sum(axis=2)
    return chance_level(pixels, "segmentation", found.metadata["dead_classes"])


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of the best evaluation and of all backbones, then what the numbers hide."""
    figures, notes = [], []
    if best is not None:
        found = _read(material, best)
        figures, notes = draw_masks(material, best, found, folder)
    figures += _training(material, folder)
    if best is not None:
        figures.append(_confusion(material, best, found, folder))
        figures += _per_class(material, found, folder)
    return figures, notes


def _read(material: Material, key: Evaluation) -> DensePredictions:
    path = material.predictions[key]
    return read_dense(path, expect=material.expected(path))


def _confusion(material, best, found: DensePredictions, folder: Path) -> Drawn:
    figure = confusion.draw_confusion(found.total, material.card["classes"], unit="pixels",
                                      title=f"{material.name}: {name_of(best, material)}")  # fmt: skip
    return save(figure, folder, "confusion", material.name,
                alt=f"Confusion matrix of pixels of {best[0]} with {best[2]} on {material.name}",
                caption="Confusion matrix of the best evaluation, summed over the test images: where the pixels "
                "of each true class (row) went, in per cent. Ignored pixels are in none.")  # fmt: skip


def _per_class(material, found: DensePredictions, folder: Path) -> list[Drawn]:
    """IoU of every class for the best evaluation of each backbone; boundary IoU where it was measured."""
    pixels = found.total.sum(axis=1)
    classes = material.card["classes"]
    support = {
        name: f"{100 * count / max(pixels.sum(), 1):.2g} %"
        for name, count in zip(classes, pixels, strict=True)
    }
    best = best_of_each(material)[: per_class.MOST]
    figures = []
    for metric, kind in (("iou", "per_class"), ("boundary_iou", "per_class_boundary")):
        rows = [row for key in best for row in of_evaluation(material.rows, key, metric)]
        if rows:
            figure = per_class.draw_per_class(
                rows, title=f"{material.name}: {metric_name(metric)} by class", support=support
            )
            which = names_of(best, material)
            figures.append(
                save(figure, folder, kind, material.name,
                     alt=f"{metric_name(metric)} of every class of {material.name}, by backbone",
                     caption=f"{metric_name(metric).replace('bound', 'Bound')} of every class (its share of the test set's pixels) with the "
                     f"best head of each backbone: {which}.")
            )  # fmt: skip
    return figures


def _training(material: Material, folder: Path) -> list[Drawn]:
    """Epochs of every head that was trained, at its first seed, for six backbones at a time."""
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
    figures = []
    for number, part in enumerate(parts, start=1):
        probes = sorted({probe for name in part for probe in logs[name]})
        by_probe = {p: {name: logs[name][p] for name in part if p in logs[name]} for p in probes}
        figures.append(
            save(training.draw_training(by_probe, dataset=material.name), folder, "training",
                 material.name, *([str(number)] if len(parts) > 1 else []), wide=True,
                 alt=f"Losses and validation mean IoU per epoch of every head on {material.name}",
                 caption="Training of the heads, at the first seed: losses and validation mean IoU of every epoch, "
                 "the scored epoch marked.")
        )  # fmt: skip
    return figures
