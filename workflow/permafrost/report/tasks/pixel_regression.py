"""Figures of a dataset whose pixels have a number each: pictures, how alpha was chosen, all pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.report.figures.numbers import draw_histogram, target_words
from permafrost.report.material.dataset import Drawn, Evaluation, Material, name_of, save
from permafrost.report.material.rasters import RasterPredictions, read_rasters
from permafrost.report.tasks.raster_pictures import RasterPictures
from permafrost.report.tasks.regression import draw_curves
from permafrost.statistics.scores.gates import chance_level


def chance(material: Material, best: Evaluation) -> float:
    """What the primary metric gives without looking at the images."""
    return chance_level((), material.card.task)


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of the best evaluation and of all backbones, validation curves, true and predicted numbers."""
    figures, notes = [], []
    if best is not None:
        path = material.predictions[best]
        predictions = read_rasters(path, expect=material.expected(path))
        figures, notes = RasterPictures(material, best, predictions).draw(folder)
        figures.append(_histogram(material, best, predictions, folder))
    return figures + draw_curves(material, folder, of="patches "), notes


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
