"""Pictures of predicted rasters: those of the best evaluation, and those of all backbones together."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.stores import Store
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.dense.shown import thinned
from permafrost.report.figures import rasters
from permafrost.report.figures.numbers import target_words
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Drawn, Evaluation, Material, name_of, names_of, save
from permafrost.report.material.rasters import RasterPredictions, read_rasters
from permafrost.report.tasks.dense_pictures import by_backbone, drawn_of, grouped, sheets

_COLUMNS = rasters.ACROSS - 2  # backbones in one comparison
_COMPARED = 2 * _COLUMNS  # backbones compared in pictures


def draw_rasters(
    material: Material, best: Evaluation, predictions: RasterPredictions, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of `predictions`, those of `best`; and the randomly drawn ones by backbone."""
    if material.without_images:
        return [], [material.without_images]
    if not predictions.rasters:
        return [], [f"No rasters are shown: {best[2]} keeps no pictures."]
    examples, how = _examples(material, predictions)
    picture = _pictures(material, best, predictions, examples, how, folder)
    compared, notes = _comparison(material, examples, how, folder)
    return [picture, *compared], notes


def _examples(material: Material, predictions: RasterPredictions) -> tuple[dict, str]:
    """Test images and true rasters by sample id, and how they were made pictures of.

    Truth has the size of the prediction: that at which it was scored, thinned out as it is.
    """
    store = Store(material.images, expect=material.expected(material.images), split="test")
    places = pictures.places_of(store)
    bands, how = pictures.picture_bands(material.card)
    at = {
        predictions.sample_ids[row]: places[predictions.sample_ids[row]]
        for row in predictions.rasters
    }
    images = pictures.read_pictures(store, list(at.values()), bands)
    truth = pictures.read_native(store, "targets", list(at.values()))
    if predictions.metadata["resolution"] == "working":
        size = predictions.metadata["working_size"]
        truth = {place: resize_mask(one, size) for place, one in truth.items()}
    return {
        name: rasters.Example(name, images[place], thinned(truth[place]))
        for name, place in at.items()
    }, how


def _answers(predictions: RasterPredictions, kind: str) -> dict[str, rasters.Answer]:
    """Sample id -> what was predicted, of the images shown as `kind`."""
    return {
        predictions.sample_ids[row]: rasters.Answer(
            predictions.rasters[row], float(predictions.rmse[row])
        )
        for row in predictions.shown[kind]
        if row in predictions.rasters
    }


def _pictures(material, best, predictions, examples: dict, how: str, folder: Path) -> Drawn:
    groups = grouped(examples, lambda why: _answers(predictions, why))
    truths = [example.truth for example in examples.values()]
    scale = rasters.Scale.over(
        [*truths, *predictions.rasters.values()], target_words(material.card)
    )
    figure = rasters.draw_pictures(
        groups, scale, title=f"{material.name}: {name_of(best, material)}", note=how
    )
    return save(
        figure,
        folder,
        "pictures",
        material.name,
        wide=True,
        pixels=True,
        alt=f"Test images of {material.name} with true numbers, those predicted by {best[0]} with "
        f"{best[2]}, and their errors",
        caption=f"Predictions of the best evaluation, {name_of(best, material)}: test images drawn at "
        "random, then those with the smallest and the largest RMSE. Colours go from the 1st to the 99th "
        "percentile of the numbers shown; pixels without data are hatched.",
    )


def _comparison(material, examples: dict, how: str, folder: Path) -> tuple[list[Drawn], list[str]]:
    """The images drawn at random, as the best evaluation of every backbone sees them."""
    shown, left = by_backbone(material, _COMPARED, read_rasters, _answers)
    if not shown:
        return [], []
    drawn = drawn_of(shown, examples)
    everything = [answer.raster for answers in shown.values() for answer in answers.values()]
    truths = [example.truth for example in drawn]
    scale = rasters.Scale.over([*truths, *everything], target_words(material.card))
    figures = []
    for part, columns, number in sheets(shown, drawn, _COLUMNS):
        figure = rasters.draw_comparison(
            drawn, columns, scale, title=f"{material.name}: the same images by backbone", note=how
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
                alt=f"True and predicted numbers of {material.name} by backbone",
                caption="The images drawn at random, with the best probe of each backbone "
                f"({names_of(part, material)}), and the root mean squared error.",
            )
        )
    said = (
        f"Rasters of the {_COMPARED} best backbones are compared; those of {left} others are in the "
        "tables of predictions."
    )
    return figures, [said] if left else []
