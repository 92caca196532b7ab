"""Figures of masks (classes or change): pictures, training, confusion of pixels, classes."""

from __future__ import annotations

import math
from pathlib import Path

from permafrost.core.stores import Store
from permafrost.core.tasks import targets_of
from permafrost.metrics.tasks import primary_metric
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.report.figures import masks, matrices, per_class
from permafrost.report.figures.class_colours import class_colours, shared_colours
from permafrost.report.material import pictures
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    save,
)
from permafrost.report.material.masks import DensePredictions, read_dense
from permafrost.report.tasks.predicted_pictures import PredictedPictures, read_as
from permafrost.report.tasks.probe_figures import draw_classes, draw_gains, draw_training_curves
from permafrost.statistics.scores.gates import chance_level


def chance(material: Material, best: Evaluation) -> float | None:
    """The primary metric of a constant mask; see `chance_level`. None if undefined."""
    predictions = _read(material, best)
    pixels = predictions.confusion.sum(axis=2)
    level = chance_level(pixels, material.card.task, predictions.metadata["dead_classes"])
    return None if math.isnan(level) else level


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Pictures of the best evaluation and of all backbones, then details of the scores."""
    figures: list[Drawn]
    notes: list[str]
    figures, notes = [], []
    if best is not None:
        predictions = _read(material, best)
        figures, notes = MaskPictures(material, best, predictions).draw(folder)
    figures += draw_gains(material, folder)
    figures += draw_training_curves(material, folder, f"val_{primary_metric(material.card.task)}")
    if best is not None:
        figures.append(_confusion(material, best, predictions, folder))
        figures += _per_class(material, predictions, folder)
    return figures, notes


def _read(material: Material, key: Evaluation) -> DensePredictions:
    path = material.predictions[key]
    return read_dense(path, expect=material.expected(path))


def _confusion(material, best, predictions: DensePredictions, folder: Path) -> Drawn:
    figure = matrices.draw_confusion(
        predictions.total,
        material.card.classes,
        unit="pixels",
        title=f"{material.name}: {name_of(best, material)}",
    )
    return save(
        figure,
        folder,
        "confusion",
        material.name,
        alt=f"Confusion matrix of pixels of {best[0]} with {best[2]} on {material.name}",
        caption="Confusion matrix of the best evaluation, summed over the test images: where the pixels "
        "of each true class (row) went, in per cent. Ignored pixels are in none.",
    )


def _per_class(material, predictions: DensePredictions, folder: Path) -> list[Drawn]:
    """IoU of every class for the best evaluation of each backbone; boundary IoU where it was measured."""
    pixels = predictions.total.sum(axis=1)
    classes = material.card.classes
    support = {
        name: f"{100 * count / max(pixels.sum(), 1):.2g} %"
        for name, count in zip(classes, pixels, strict=True)
    }
    best = best_of_each(material)[: per_class.MOST]
    kinds = {"iou": "per_class", "boundary_iou": "per_class_boundary"}
    of = "its share of the test set's pixels"
    return draw_classes(material, folder, best, kinds, support, of)


class MaskPictures(PredictedPictures):
    """Masks in the colours of the classes."""

    noun = "masks"
    columns = masks.ACROSS - 2
    truth = "true mask, the mask predicted by {0} with {2}, and its errors"
    compared = "True and predicted masks of {} by backbone"

    def __init__(self, material: Material, best: Evaluation, predictions: DensePredictions) -> None:
        super().__init__(material, best, predictions)
        classes = material.card.classes
        self._colours = (classes, class_colours(classes))
        sharing = (
            " There are more classes than colours: some share one."
            if shared_colours(classes)
            else ""
        )
        self.order = (
            "the largest and the smallest share of right pixels. In errors, wrong pixels have the colour of the class"
            f" they were given.{sharing}"
        )
        self.measure = f", and the share of pixels that are right.{sharing}"

    def any(self) -> bool:
        return bool(self.predictions.masks)

    def examples(self, store: Store) -> tuple[dict, str]:
        """The truth has the size of the prediction, at which it was scored."""
        predictions, card = self.predictions, self.material.card
        places = pictures.places_of(store)
        bands, how = pictures.picture_bands(card)
        sizes = {predictions.sample_ids[row]: mask.shape for row, mask in predictions.masks.items()}
        at = {name: places[name] for name in sizes}
        pairs = targets_of(card.task).of_pairs
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

    def answers(self, predictions: DensePredictions, why: str) -> dict[str, masks.Answer]:
        return {
            predictions.sample_ids[row]: masks.Answer(
                predictions.masks[row], predictions.accuracy(row)
            )
            for row in predictions.shown[why]
            if row in predictions.masks
        }

    def read(self, key: Evaluation) -> DensePredictions:
        return read_as(self.material, key, read_dense)

    def draw_best(self, groups, **words):
        return masks.draw_pictures(groups, *self._colours, **words)

    def draw_sheet(self, examples, columns, shown, **words):
        return masks.draw_comparison(examples, columns, *self._colours, **words)
