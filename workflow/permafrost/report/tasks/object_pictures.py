"""Pictures of detections: those of the best evaluation, and those of all backbones together."""

from __future__ import annotations

from collections.abc import Mapping

from permafrost.core.stores import Store
from permafrost.report.figures import detections
from permafrost.report.figures.detections import Answer, Example
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Evaluation, Material
from permafrost.report.material.objects import SHOWN, ObjectPredictions
from permafrost.report.tasks.predicted_pictures import PredictedPictures


class ObjectPictures(PredictedPictures):
    """Boxes or points over whole images.

    Parameters
    ----------
    drawn : evaluation -> answers to the randomly drawn images, by their names; best first.
    """

    noun = "detections"
    files = ("detections", "detections_backbones")
    columns = detections.COMPARED - 1
    title = "Detections"
    truth = "true objects and those that {0} with {2} detected"
    compared = "True objects of {} and detections by backbone"
    measure = ". Detections are shown that reach the head's score threshold."

    def __init__(
        self,
        material: Material,
        best: Evaluation,
        predictions: ObjectPredictions,
        drawn: Mapping[Evaluation, dict[str, Answer]],
    ) -> None:
        super().__init__(material, best, predictions)
        self._drawn = drawn
        self.order = f"the highest and the lowest F1. {_rule(predictions)}"

    def any(self) -> bool:
        return any(self.predictions.shown.values())

    def examples(self, store: Store) -> tuple[dict[str, Example], str]:
        bands, how = pictures.picture_bands(self.material.card)
        names = [name for kind in SHOWN for name in self.predictions.shown[kind]]
        wholes = pictures.read_wholes(store, names, bands, detections.LONGEST)
        return {name: Example(name, *wholes[name]) for name in names}, how

    def answers(self, predictions: ObjectPredictions, why: str) -> dict[str, Answer]:
        return {name: predictions.answer(name) for name in predictions.shown[why]}

    def by_backbone(self, most: int) -> dict[Evaluation, dict[str, Answer]]:
        return {key: answers for key, answers in self._drawn.items() if answers}

    def draw_best(self, groups, **words):
        return detections.draw_pictures(groups, self.predictions.kind, **words)

    def draw_sheet(self, examples, columns, shown, **words):
        first = next(iter(shown.values()))
        pairs = [(example, first[example.name]) for example in examples]
        return detections.draw_comparison(pairs, columns, self.predictions.kind, **words)


#: number of backbones compared in pictures
MOST = 2 * ObjectPictures.columns


def _rule(predictions: ObjectPredictions) -> str:
    """What is shown, and the definition of a match."""
    threshold = f"{predictions.detected.scoring.score_threshold:.3g}"
    rule = (
        f"within {predictions.threshold:g} pixels"
        if predictions.kind == "point"
        else f"at an IoU above {predictions.threshold:g}"
    )
    return f"Detections that score at least {threshold} are shown, and find an object {rule}."
