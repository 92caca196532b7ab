"""Figures of a classification dataset: selection of C, pictures, classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from permafrost.core.store_readers import open_store
from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.metrics.tasks import metric_of
from permafrost.report.figures import matrices, per_class, strip
from permafrost.report.material import pictures
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    name_of,
    of_evaluation,
    save,
)
from permafrost.report.notation import class_words
from permafrost.report.tasks.choices import RATE, C, draw_choices
from permafrost.report.tasks.probe_figures import draw_gains, draw_settings, draw_training_curves
from permafrost.statistics.leaderboard.rows import metric_name
from permafrost.statistics.predictions.columns import array_of
from permafrost.statistics.scores.gates import chance_level

if TYPE_CHECKING:
    from permafrost.core.targets import Labels


def chance(material: Material, best: Evaluation) -> float:
    """The value of the primary metric without information from the images."""
    return chance_level(_read(material, best)["target"], material.card.task)


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Scores under every setting and C curves of all backbones; pictures, confusions and classes of the best."""
    score = metric_of(cast("Labels", targets_of(material.card.task)).validation).words
    figures = draw_settings(material, folder)
    figures += draw_choices(material, folder, C, score) + draw_choices(
        material, folder, RATE, score
    )
    figures += draw_gains(material, folder)
    figures += draw_training_curves(material, folder, f"val_{score.lower().replace('-', '_')}")
    if best is None:
        return figures, []
    truth = _read(material, best)
    if material.without_images is None:
        figures.append(_strip(material, best, truth, folder))
    if targets_of(material.card.task).one_class:
        figures.append(_confusion(material, best, truth, folder))
    figures += _per_class(material, best, truth, folder)
    return figures, [material.without_images] if material.without_images else []


def _read(material: Material, key: Evaluation) -> dict:
    path = material.predictions[key]
    wanted = ["sample_id", "target", "prediction"]
    table, _ = read_table(path, expect=material.expected(path), columns=wanted)
    columns = {name: array_of(table, name) for name in wanted[1:]}
    return {**columns, "sample_id": table["sample_id"].to_pylist()}


def _strip(material: Material, best: Evaluation, truth: dict, folder: Path) -> Drawn:
    store = open_store(material.images, expect=material.expected(material.images), split="test")
    places = pictures.places_of(store)
    correct = truth["target"] == truth["prediction"]
    correct = correct.all(axis=1) if correct.ndim == 2 else correct
    right, wrong = strip.choose_samples(
        correct,
        count=material.examples // 2,
        identity=(material.name, *best),
        seed=material.picture_seed,
    )
    bands, how = pictures.picture_bands(material.card)
    at = {index: places[truth["sample_id"][index]] for index in right + wrong}
    shown = pictures.read_pictures(store, list(at.values()), bands)
    figure = strip.draw_strip(
        lambda index: shown[at[index]],
        right,
        wrong,
        _words(material.card.classes, truth),
        title=f"{material.name}: {name_of(best, material)}",
        bands=how,
    )
    return save(
        figure,
        folder,
        "strip",
        material.name,
        wide=True,
        pixels=True,
        alt=f"Test images of {material.name} that {best[0]} got right and wrong",
        caption=f"Test images drawn at random: right above, wrong below, by {best[0]} with "
        f"{best[2]}, the best evaluation here.",
    )


def _words(classes: list[str], truth):
    def words(index: int) -> str:
        true, said = (class_words(classes, truth[name][index]) for name in ("target", "prediction"))
        return true if true == said else f"is {true}\nsaid {said}"

    return words


def _confusion(material: Material, best: Evaluation, truth: dict, folder: Path) -> Drawn:
    classes = material.card.classes
    counts = matrices.confusion_counts(truth["target"], truth["prediction"], len(classes))
    title = f"{material.name}: {name_of(best, material)}"
    return save(
        matrices.draw_confusion(counts, classes, title=title),
        folder,
        "confusion",
        material.name,
        alt=f"Confusion matrix of {best[0]} with {best[2]} on {material.name}",
        caption="Confusion matrix of the best evaluation: colours are shares of the true class, "
        "numbers are counts.",
    )


def _per_class(material: Material, best: Evaluation, truth: dict, folder: Path) -> list[Drawn]:
    targets = targets_of(material.card.task)
    metric = "average_precision" if targets.several else "recall"
    rows = of_evaluation(material.rows, best, metric)
    if not rows:
        return []
    counts = targets.counts(truth["target"], len(material.card.classes))
    support = {name: str(count) for name, count in zip(material.card.classes, counts, strict=True)}
    title = f"{material.name}: {name_of(best, material)}"
    return [
        save(
            per_class.draw_per_class(rows, title=title, support=support),
            folder,
            "per_class",
            material.name,
            alt=f"{metric_name(metric)} of every class, {best[0]} with {best[2]} on {material.name}",
            caption=f"{metric_name(metric).capitalize()} of every class (number of test samples), "
            "best evaluation.",
        )
    ]
