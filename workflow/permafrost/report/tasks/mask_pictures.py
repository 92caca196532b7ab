"""Pictures of predicted masks: those of the best evaluation, and those of all backbones together."""

from __future__ import annotations

from permafrost.core.stores import Store
from permafrost.core.tasks import task_of
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.report.figures import masks
from permafrost.report.figures.class_colours import class_colours, shared_colours
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Evaluation, Material
from permafrost.report.material.masks import DensePredictions, read_dense
from permafrost.report.tasks.predicted_pictures import PredictedPictures, read_as


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
        """Truth has the size of the prediction: that at which it was scored."""
        predictions, card = self.predictions, self.material.card
        places = pictures.places_of(store)
        bands, how = pictures.picture_bands(card)
        sizes = {predictions.sample_ids[row]: mask.shape for row, mask in predictions.masks.items()}
        at = {name: places[name] for name in sizes}
        pairs = task_of(card.task).of_pairs
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
