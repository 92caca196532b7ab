"""Pictures of predicted masks: those of the best evaluation, and those of all backbones together."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.stores import Store
from permafrost.core.tasks import task_of
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.report.figures import masks
from permafrost.report.figures.class_colours import class_colours, shared_colours
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Drawn, Evaluation, Material, name_of, names_of, save
from permafrost.report.material.masks import DensePredictions, read_dense
from permafrost.report.tasks.dense_pictures import by_backbone, drawn_of, grouped, sheets

_COLUMNS = masks.ACROSS - 2  # backbones in one comparison
_COMPARED = 2 * _COLUMNS  # backbones compared in pictures


def draw_masks(
    material: Material, best: Evaluation, predictions: DensePredictions, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of `predictions`, those of `best`; and the randomly drawn ones by backbone."""
    if material.without_images:
        return [], [material.without_images]
    if not predictions.masks:
        return [], [f"No masks are shown: {best[2]} keeps no pictures."]
    examples, how = _examples(material, predictions)
    picture = _pictures(material, best, predictions, examples, how, folder)
    compared, notes = _comparison(material, examples, how, folder)
    return [picture, *compared], notes


def _examples(material: Material, predictions: DensePredictions) -> tuple[dict, str]:
    """Test images and true masks by sample id, and how they were made pictures of.

    Truth has the size of the prediction: that at which it was scored.
    """
    store = Store(material.images, expect=material.expected(material.images), split="test")
    places = pictures.places_of(store)
    bands, how = pictures.picture_bands(material.card)
    sizes = {predictions.sample_ids[row]: mask.shape for row, mask in predictions.masks.items()}
    at = {name: places[name] for name in sizes}
    pairs = task_of(material.card.task).of_pairs
    read = pictures.read_pairs if pairs else pictures.read_pictures
    images = read(store, list(at.values()), bands)
    truth = pictures.read_masks(store, list(at.values()))
    return {
        name: masks.Example(
            name,
            images[place][1] if pairs else images[place],
            resize_mask(truth[place], sizes[name]),
            images[place][0] if pairs else None,
        )
        for name, place in at.items()
    }, how


def _answers(predictions: DensePredictions, kind: str) -> dict[str, masks.Answer]:
    """Sample id -> what was predicted, of the images shown as `kind`."""
    return {
        predictions.sample_ids[row]: masks.Answer(predictions.masks[row], predictions.accuracy(row))
        for row in predictions.shown[kind]
        if row in predictions.masks
    }


def _pictures(material, best, predictions, examples: dict, how: str, folder: Path) -> Drawn:
    groups = grouped(examples, lambda why: _answers(predictions, why))
    classes = material.card.classes
    figure = masks.draw_pictures(
        groups,
        classes,
        class_colours(classes),
        title=f"{material.name}: {name_of(best, material)}",
        note=how,
    )
    return save(
        figure,
        folder,
        "pictures",
        material.name,
        wide=True,
        pixels=True,
        alt=f"Test images of {material.name} with true mask, the mask predicted by {best[0]} with "
        f"{best[2]}, and its errors",
        caption=f"Predictions of the best evaluation, {name_of(best, material)}: test images drawn at "
        "random, then those with the largest and the smallest share of right pixels. In errors, wrong "
        f"pixels have the colour of the class they were given.{_sharing(classes)}",
    )


def _comparison(material, examples: dict, how: str, folder: Path) -> tuple[list[Drawn], list[str]]:
    """The images drawn at random, as the best evaluation of every backbone sees them."""
    shown, left = by_backbone(material, _COMPARED, read_dense, _answers)
    if not shown:
        return [], []
    drawn = drawn_of(shown, examples)
    classes, figures = material.card.classes, []
    for part, columns, number in sheets(shown, drawn, _COLUMNS):
        figure = masks.draw_comparison(
            drawn,
            columns,
            classes,
            class_colours(classes),
            title=f"{material.name}: the same images by backbone",
            note=how,
        )
        figures.append(
            save(
                figure,
                folder,
                "backbones",
                material.name,
                *number,
                wide=True,
                pixels=True,
                alt=f"True and predicted masks of {material.name} by backbone",
                caption="The images drawn at random, with the best head of each backbone "
                f"({names_of(part, material)}), and the share of pixels that are right.{_sharing(classes)}",
            )
        )
    said = (
        f"Masks of the {_COMPARED} best backbones are compared; those of {left} others are in the "
        "tables of predictions."
    )
    return figures, [said] if left else []


def _sharing(classes: list[str]) -> str:
    return (
        " There are more classes than colours: some share one." if shared_colours(classes) else ""
    )
