"""All figures of one dataset: general ones, and those of its task, whose module `core.tasks` names.

The module of a task has ``chance(material, best)``, the level that the dot plot marks (or None),
and ``draw(material, best, folder)``, which returns figures and sentences on what could not be
drawn."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import TASKS, targets_of
from permafrost.report.figures import dataset, dotplot, numbers, object_sizes
from permafrost.report.material.dataset import Drawn, Material, best_evaluation, save
from permafrost.report.material.objects import read_truth
from permafrost.report.tasks.hardest_pictures import draw_hardest
from permafrost.statistics.leaderboard.rows import distinct, metric_name, overall


def task_figures(task: str):
    """The module that draws the figures of `task`.

    Raises
    ------
    PermafrostError : the task has no figures.
    """
    known = {name: about.figures for name, about in TASKS.items() if about.figures}
    if task not in known:
        raise PermafrostError(
            f"the report has no figures for the task {task!r}",
            remedy=f"correct the task in the dataset's card: {', '.join(known)}",
        )
    return import_module(known[task])


def draw_dataset(material: Material, folder: Path) -> tuple[list[Drawn], list[str]]:
    """Draw all figures of a dataset into `folder`; return them and notes on missing ones."""
    task = task_figures(material.card.task)
    best = best_evaluation(material)
    figures = []
    for name in dict.fromkeys([material.card.task, *distinct(material.rows, "task")]):
        rows = overall(material.rows, task=name)
        if rows:
            own = best and name == material.card.task
            chance = task.chance(material, best) if own else None
            figures.append(_dotplot(material, rows, chance, folder))
    drawn, notes = task.draw(material, best, folder)
    hardest, said = draw_hardest(material, folder)
    figures += [*drawn, *hardest]
    notes = [*notes, *said]
    if targets_of(material.card.task).objects:
        figures += _objects(material, folder)
    figures += [
        _labels(material, folder),
        save(
            dataset.draw_bands(material.card),
            folder,
            "bands",
            material.name,
            alt=f"Mean, standard deviation and range of each band of {material.name}",
            caption="Bands: statistics of the train split.",
        ),
    ]
    return figures, notes


def _labels(material: Material, folder: Path) -> Drawn:
    """Distribution of classes, or numbers, over the splits."""
    if material.card.target is not None:
        return save(
            numbers.draw_targets(material.card),
            folder,
            "targets",
            material.name,
            alt=f"Distribution of the target in the splits of {material.name}",
            caption="Target: how its values are spread in train, validation and test.",
        )
    return save(
        dataset.draw_balance(material.card),
        folder,
        "balance",
        material.name,
        alt=f"Share of each class in the splits of {material.name}",
        caption="Classes: the share of each class in train, validation and test.",
    )


def _dotplot(material: Material, rows: list[dict], chance: float | None, folder: Path) -> Drawn:
    """A dot plot of the primary metric of one task: the dataset's own, or that of a probe."""
    figure = dotplot.draw_dotplot(rows, dataset=material.name, chance=chance)
    metric = metric_name(rows[0]["metric"])
    of_dataset = rows[0]["task"] == material.card.task
    names = [material.name] if of_dataset else [material.name, rows[0]["task"]]
    return save(
        figure,
        folder,
        "dotplot",
        *names,
        wide=True,
        alt=f"Dot plot of {metric} with intervals of every backbone on {material.name}",
        caption=f"{metric[0].upper()}{metric[1:]} of every backbone with its interval, "
        f"best on top.{_baselines(material, chance)}",
    )


def _baselines(material: Material, chance: float | None) -> str:
    """The constant predictor behind the marked chance level, for change detection."""
    if chance is None or not targets_of(material.card.task).of_pairs:
        return ""
    return f" Saying everywhere that there was a change gives {chance:.3f}, the dashed line; never saying so gives 0."


def _objects(material: Material, folder: Path) -> list[Drawn]:
    splits = read_truth(material)
    if not splits:
        return []
    sized = not targets_of(material.card.task).points
    figure = object_sizes.draw_objects(splits, dataset=material.name, sized=sized)
    missing = [split for split in material.card.splits if split not in splits]
    left = f" The image stores of {' and '.join(missing)} are not here." if missing else ""
    return [
        save(
            figure,
            folder,
            "objects",
            material.name,
            wide=True,
            alt=f"Numbers{' and sizes' if sized else ''} of objects in the splits of {material.name}",
            caption=f"Objects: how many an image holds{', and how large they are' if sized else ''}, in each "
            f"split. Crowds are left out.{left}",
        )
    ]
