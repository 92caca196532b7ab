"""All figures of one dataset: those that every dataset has, around those of its task."""

from __future__ import annotations

from pathlib import Path

from .figures import dataset, dotplot
from .material import Drawn, Material, best_evaluation, save
from .rows import metric_name, overall
from .tasks.registry import task_figures


def draw_dataset(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """Draw everything about a dataset into `folder`; return the figures and notes on what is missing."""
    task = task_figures(material.card["task"])
    best = best_evaluation(material)
    figures = []
    if overall(material.rows):
        figures.append(_dotplot(material, task.chance(material, best) if best else None, folder))
    drawn, notes = task.draw(material, best, folder)
    figures += drawn
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
