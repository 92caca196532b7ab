"""Pictures of detections: those of the best evaluation, and those of all backbones together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from permafrost.core.stores import Store
from permafrost.report.figures import detections
from permafrost.report.figures.detections import Answer, Example
from permafrost.report.material import pictures
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    names_of,
    save,
)
from permafrost.report.material.objects import SHOWN, ObjectPredictions

_HEADINGS = {
    "drawn": "drawn at random",
    "best": "best of the other test images",
    "worst": "worst of the other test images",
}
_COLUMNS = detections.COMPARED - 1  # backbones in one comparison
MOST = 2 * _COLUMNS  # backbones compared in pictures


def draw_objects(
    material: Material,
    best: Evaluation,
    predictions: ObjectPredictions,
    drawn: Mapping[Evaluation, dict[str, Answer]],
    folder: Path,
) -> tuple[list[Drawn], list[str]]:
    """Pictures of `predictions`, those of `best`; and the randomly drawn ones by backbone.

    Parameters
    ----------
    drawn : evaluation -> answers to the images that were drawn at random, by their names; best first.
    """
    if material.without_images:
        return [], [material.without_images]
    if not any(predictions.shown.values()):
        return [], [f"No detections are shown: {best[2]} keeps no pictures."]
    examples, how = _examples(material, predictions)
    figures = [_pictures(material, best, predictions, examples, how, folder)]
    compared, notes = _comparison(material, predictions, drawn, examples, how, folder)
    return [*figures, *compared], notes


def _examples(material: Material, predictions: ObjectPredictions) -> tuple[dict[str, Example], str]:
    """The test images to show by their ids, and how they were made pictures of."""
    store = Store(material.images, expect=material.expected(material.images), split="test")
    bands, how = pictures.picture_bands(material.card)
    names = [name for kind in SHOWN for name in predictions.shown[kind]]
    wholes = pictures.read_wholes(store, names, bands, detections.LONGEST)
    return {name: Example(name, *wholes[name]) for name in names}, how


def _pictures(
    material, best, predictions: ObjectPredictions, examples: dict, how: str, folder
) -> Drawn:
    groups = [
        (
            _HEADINGS[kind],
            [(examples[name], predictions.answer(name)) for name in predictions.shown[kind]],
        )
        for kind in SHOWN
    ]
    figure = detections.draw_pictures(
        groups, predictions.kind, title=f"{material.name}: {name_of(best, material)}", note=how
    )
    return save(
        figure,
        folder,
        "detections",
        material.name,
        wide=True,
        pixels=True,
        alt=f"Test images of {material.name} with true objects and those that {best[0]} with {best[2]} "
        "detected",
        caption=f"Detections of the best evaluation, {name_of(best, material)}: test images drawn at "
        f"random, then those with the highest and the lowest F1. {rule_words(predictions)}",
    )


def rule_words(predictions: ObjectPredictions) -> str:
    """What is shown, and when an object counts as found."""
    threshold = f"{predictions.detected.scoring.score_threshold:.3g}"
    rule = (
        f"within {predictions.threshold:g} pixels"
        if predictions.kind == "point"
        else f"at an IoU above {predictions.threshold:g}"
    )
    return f"Detections that score at least {threshold} are shown, and find an object {rule}."


def _comparison(
    material, predictions: ObjectPredictions, drawn, examples: dict, how: str, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """The images drawn at random, as the best evaluation of every backbone sees them."""
    keys = [key for key, answers in drawn.items() if answers]
    if len(keys) < 2:
        return [], []
    # all draw the same images; one that kept fewer has empty places
    names = [name for name in drawn[keys[0]] if name in examples]
    shown = [(examples[name], drawn[keys[0]][name]) for name in names]
    parts = [keys[start : start + _COLUMNS] for start in range(0, len(keys), _COLUMNS)]
    figures = []
    for number, part in enumerate(parts, start=1):
        columns = [(key[0], [drawn[key].get(name) for name in names]) for key in part]
        figure = detections.draw_comparison(
            shown,
            columns,
            predictions.kind,
            title=f"{material.name}: the same images by backbone",
            note=how,
        )
        figures.append(
            save(
                figure,
                folder,
                "detections_backbones",
                material.name,
                *([str(number)] if len(parts) > 1 else []),
                wide=True,
                pixels=True,
                alt=f"True objects of {material.name} and detections by backbone",
                caption="The images drawn at random, with the best head of each backbone "
                f"({names_of(part, material)}). Detections are shown that reach the head's score "
                "threshold.",
            )
        )
    left = len(best_of_each(material)) - MOST
    said = (
        f"Detections of the {MOST} best backbones are compared; those of {left} others are in the "
        "tables of predictions."
    )
    return figures, [said] if left > 0 else []
