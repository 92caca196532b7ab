"""All figures of one dataset: those that every dataset has, around those of its task."""

from __future__ import annotations

from pathlib import Path

from permafrost.data.objects import OBJECT_TASKS

from .figures import dataset, dotplot, object_sizes
from .material import Drawn, Material, best_evaluation, save
from .rows import metric_name, overall
from .tasks.registry import task_figures
from .truth import read_truth


def draw_dataset(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """Draw everything about a dataset into `folder`; return the figures and notes on what is missing."""
    task = task_figures(material.card["task"])
    best = best_evaluation(material)
    figures = []
    if overall(material.rows):
        figures.append(_dotplot(material, task.chance(material, best) if best else None, folder))
    drawn, notes = task.draw(material, best, folder)
    figures += drawn
    if material.card["task"] in OBJECT_TASKS:
        figures += _objects(material, folder)
    figures += [
        save(dataset.draw_balance(material.card), folder, "balance", material.name,
             alt=f"Share of each class in the splits of {material.name}",
             caption="Classes: the share of each class in train, validation and test."),
        save(dataset.draw_bands(material.card), folder, "bands", material.name,
             alt=f"Mean, standard deviation and range of each band of {material.name}",
             caption="Bands: statistics of the train split."),
    ]  # fmt: skip
    return figures, notes


def _dotplot(material: Material, chance: float | None, folder: Path) -> Drawn:
    figure = dotplot.draw_dotplot(material.rows, dataset=material.name, chance=chance)
    metric = metric_name(overall(material.rows)[0]["metric"])
    return save(figure, folder, "dotplot", material.name, wide=True,
                alt=f"Dot plot of {metric} with intervals of every backbone on {material.name}",
                caption=f"{metric[0].upper()}{metric[1:]} of every backbone with its interval, "
                "best on top.")  # fmt: skip


def _objects(material: Material, folder: Path) -> list[Drawn]:
    splits = read_truth(material)
    if not splits:
        return []
    sized = material.card["task"] == "detection"
    figure = object_sizes.draw_objects(splits, dataset=material.name, sized=sized)
    missing = [split for split in material.card["splits"] if split not in splits]
    left = f" The image stores of {' and '.join(missing)} are not here." if missing else ""
    return [
        save(figure, folder, "objects", material.name, wide=True,
             alt=f"Numbers{' and sizes' if sized else ''} of objects in the splits of {material.name}",
             caption=f"Objects: how many an image holds{', and how large they are' if sized else ''}, in each "
             f"split. Crowds are left out.{left}")
    ]  # fmt: skip
