"""Figures of a pixel regression dataset: pictures, selection of alpha, all pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.stores import Store
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.dense.shown import thinned
from permafrost.report.figures import rasters
from permafrost.report.figures.numbers import draw_histogram, target_words
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Drawn, Evaluation, Material, name_of, save
from permafrost.report.material.rasters import RasterPredictions, read_rasters
from permafrost.report.tasks.choices import ALPHA, draw_choices
from permafrost.report.tasks.predicted_pictures import PredictedPictures, read_as
from permafrost.statistics.scores.gates import chance_level


def chance(material: Material, best: Evaluation) -> float:
    """The value of the primary metric without information from the images."""
    return chance_level((), material.card.task)


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of the best evaluation and of all backbones, validation curves, true and predicted numbers."""
    figures: list[Drawn]
    notes: list[str]
    figures, notes = [], []
    if best is not None:
        path = material.predictions[best]
        predictions = read_rasters(path, expect=material.expected(path))
        figures, notes = RasterPictures(material, best, predictions).draw(folder)
        figures.append(_histogram(material, best, predictions, folder))
    return figures + draw_choices(material, folder, ALPHA, "RMSE", of="of patches "), notes


def _histogram(material, best: Evaluation, predictions: RasterPredictions, folder: Path) -> Drawn:
    histogram = predictions.metadata["histogram"]
    figure = draw_histogram(
        np.array(histogram["counts"]),
        tuple(histogram["range"]),
        words=target_words(material.card),
        title=f"{material.name}: {name_of(best, material)}",
    )
    return save(
        figure,
        folder,
        "numbers",
        material.name,
        alt=f"Predicted against true numbers of all test pixels, {best[0]} with {best[2]} on {material.name}",
        caption="Every test pixel of the best evaluation: predicted against true number.",
    )


class RasterPictures(PredictedPictures):
    """Pixel values with one colour scale per figure."""

    noun = "rasters"
    columns = rasters.ACROSS - 2
    probe = "probe"
    truth = "true numbers, those predicted by {0} with {2}, and their errors"
    order = (
        "the smallest and the largest RMSE. Colours go from the 1st to the 99th percentile of the numbers shown; pixels"
        " without data are hatched."
    )
    compared = "True and predicted numbers of {} by backbone"
    measure = ", and the root mean squared error."

    def any(self) -> bool:
        return bool(self.predictions.rasters)

    def examples(self, store: Store) -> tuple[dict, str]:
        """The truth is resampled and subsampled like the prediction, at the scored size."""
        predictions = self.predictions
        places = pictures.places_of(store)
        bands, how = pictures.picture_bands(self.material.card)
        names = [predictions.sample_ids[row] for row in predictions.rasters]
        at = {name: places[name] for name in names}
        images = pictures.read_pictures(store, list(at.values()), bands)
        truth = pictures.read_native(store, "targets", list(at.values()))
        if predictions.metadata["resolution"] == "working":
            size = predictions.metadata["working_size"]
            truth = {place: resize_mask(one, size) for place, one in truth.items()}
        return {
            name: rasters.Example(name, images[place], thinned(truth[place]))
            for name, place in at.items()
        }, how

    def answers(self, predictions: RasterPredictions, why: str) -> dict[str, rasters.Answer]:
        return {
            predictions.sample_ids[row]: rasters.Answer(
                predictions.rasters[row], float(predictions.rmse[row])
            )
            for row in predictions.shown[why]
            if row in predictions.rasters
        }

    def read(self, key: Evaluation) -> RasterPredictions:
        return read_as(self.material, key, read_rasters)

    def draw_best(self, groups, **words):
        truths = [example.truth for _, pairs in groups for example, _ in pairs]
        scale = self._scale(truths, self.predictions.rasters.values())
        return rasters.draw_pictures(groups, scale, **words)

    def draw_sheet(self, examples, columns, shown, **words):
        answers = [answer.raster for found in shown.values() for answer in found.values()]
        scale = self._scale([example.truth for example in examples], answers)
        return rasters.draw_comparison(examples, columns, scale, **words)

    def _scale(self, truths, predicted) -> rasters.Scale:
        return rasters.Scale.over([*truths, *predicted], target_words(self.material.card))
