"""Pictures of predictions: those of the best evaluation, and those of all backbones together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from permafrost.core.store_readers import open_store
from permafrost.core.stores import Store
from permafrost.report.material.dataset import (
    Drawn,
    Evaluation,
    Material,
    best_of_each,
    name_of,
    names_of,
    save,
)
from permafrost.report.material.masks import SHOWN

_HEADINGS = {
    "drawn": "drawn at random",
    "best": "best of the other test images",
    "worst": "worst of the other test images",
}


class PredictedPictures:
    """Pictures of one kind of predictions; subclasses read and draw them.

    Attributes
    ----------
    noun : name of the prediction.
    files : names of the figures of the best evaluation and of all backbones.
    columns : backbones in one comparison; twice as many are compared.
    probe : name of such a probe.
    truth, order, compared, measure : parts of the figures' texts; ``{0}`` is the backbone, ``{2}``
        its probe.
    """

    noun: str
    files = ("pictures", "backbones")
    columns: int
    probe = "head"
    title = "Predictions"
    truth: str
    order: str
    compared: str
    measure: str

    def __init__(self, material: Material, best: Evaluation, predictions) -> None:
        self.material, self.best, self.predictions = material, best, predictions

    def any(self) -> bool:
        """Whether the best evaluation kept predictions to show."""
        raise NotImplementedError

    def examples(self, store: Store) -> tuple[dict, str]:
        """Test images with their truth by sample id, and a sentence on how pictures were made."""
        raise NotImplementedError

    def answers(self, predictions, why: str) -> dict:
        """Predictions for the images that are shown as `why`, by sample id."""
        raise NotImplementedError

    def read(self, key: Evaluation):
        """The predictions of another evaluation."""
        raise NotImplementedError

    def draw_best(self, groups: list[tuple[str, list]], **words):
        """The figure of the best evaluation; `groups` are headings with pairs (example, answer)."""
        raise NotImplementedError

    def draw_sheet(self, examples: list, columns: list[tuple[str, list]], shown: dict, **words):
        """A figure of some backbones; `columns` are (backbone, answers in the order of `examples`),
        None if missing.

        `shown` are the answers of all backbones by evaluation and sample id.
        """
        raise NotImplementedError

    def by_backbone(self, most: int) -> dict[Evaluation, dict]:
        """Answers of each backbone's best evaluation to the randomly drawn images, for backbones
        that kept any."""
        keys = best_of_each(self.material)[:most]
        answers = {key: self.answers(self.read(key), "drawn") for key in keys}
        return {key: found for key, found in answers.items() if found}

    def draw(self, folder: Path) -> tuple[list[Drawn], list[str]]:
        """Pictures of the best evaluation and, per backbone, of random images; and remarks."""
        material, best = self.material, self.best
        if material.without_images:
            return [], [material.without_images]
        if not self.any():
            return [], [f"No {self.noun} are shown: {best[2]} keeps no pictures."]
        store = open_store(material.images, expect=material.expected(material.images), split="test")
        examples, how = self.examples(store)
        groups = [
            (
                _HEADINGS[why],
                [(examples[n], a) for n, a in self.answers(self.predictions, why).items()],
            )
            for why in SHOWN
        ]
        name = f"{material.name}: {name_of(best, material)}"
        picture = self._saved(
            self.draw_best(groups, title=name, note=how),
            folder,
            self.files[0],
            alt=f"Test images of {material.name} with {self.truth.format(*best)}",
            caption=f"{self.title} of the best evaluation, {name_of(best, material)}: test images drawn at "
            f"random, then those with {self.order}",
        )
        compared, notes = self._comparison(examples, how, folder)
        return [picture, *compared], notes

    def _comparison(self, examples: dict, how: str, folder: Path) -> tuple[list[Drawn], list[str]]:
        """The randomly drawn images, as predicted by the best evaluation of every backbone."""
        material, most = self.material, 2 * self.columns
        shown = self.by_backbone(most)
        if len(shown) < 2:
            return [], []
        # all use the same drawn images; if one kept fewer, its panels stay empty
        keys, names = list(shown), [name for name in next(iter(shown.values())) if name in examples]
        parts = [keys[start : start + self.columns] for start in range(0, len(keys), self.columns)]
        figures = []
        for number, part in enumerate(parts, start=1):
            columns = [(key[0], [shown[key].get(name) for name in names]) for key in part]
            title = f"{material.name}: the same images by backbone"
            drawn = [examples[name] for name in names]
            figures.append(
                self._saved(
                    self.draw_sheet(drawn, columns, shown, title=title, note=how),
                    folder,
                    self.files[1],
                    *([str(number)] if len(parts) > 1 else []),
                    alt=self.compared.format(material.name),
                    caption=f"The images drawn at random, with the best {self.probe} of each backbone "
                    f"({names_of(part, material)}){self.measure}",
                )
            )
        left = len(best_of_each(material)) - most
        said = (
            f"{self.noun.capitalize()} of the {most} best backbones are compared; those of {left} others are in the "
            "tables of predictions."
        )
        return figures, [said] if left > 0 else []

    def _saved(self, figure, folder: Path, kind: str, *number: str, **words) -> Drawn:
        name = self.material.name
        return save(figure, folder, kind, name, *number, wide=True, pixels=True, **words)


def read_as(material: Material, key: Evaluation, read: Callable):
    """The predictions of an evaluation, read from its table by `read`."""
    path = material.predictions[key]
    return read(path, expect=material.expected(path))
