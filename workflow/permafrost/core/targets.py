"""What can be true of a sample: one class for each form of targets, which answers for it.

`core.tasks.TASKS` registers them. A room that must add something of its own (how predictions are read, a
likelihood, what chance gives) keeps a table whose keys are these classes and looks it up by `by_targets`.
Planning reads the registry, so NumPy is imported only by what computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np


class Targets:
    """One form of targets; its properties hold for all tasks that have it.

    Attributes
    ----------
    stored : NumPy's name of the type of the labels in a store of images or features; None if a sample has no label
        of its own.
    learned : name of the type of the labels that a loss of torch takes.
    classes : there are classes, which a split can lack.
    one_class, several : the label is one class id, or a 0 or 1 for each class.
    numbers : numbers are predicted.
    pixels : every pixel has a target, so the image store holds an array for each image.
    masks : the target of a pixel is a class.
    of_pairs : a sample is two images of a place, before and after, and class 0 means that nothing changed.
    objects, points : a sample holds any number of objects, which are boxes or points.
    ranked : the predictions rank a gallery; which of its images are relevant follows from the labels.
    calibrated : probes can give probabilities, whose calibration can be judged.
    setting_column : column of a table of predictions with the answers of all settings, and its type.
    chance : what the primary metric gives without a look at the images, if that is the same for every test set.
    """

    stored: ClassVar[str | None] = None
    learned: ClassVar[str] = "float32"
    classes = one_class = several = numbers = pixels = masks = of_pairs = False
    objects = points = ranked = calibrated = False
    chance: ClassVar[float | None] = None
    setting_column: ClassVar[tuple[str, str] | None] = None

    @property
    def dense(self) -> bool:
        """Whether its probes read maps of layers: something is true of single places."""
        return self.pixels or self.objects

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """(K,) int64 number of samples of each class; empty without classes."""
        import numpy as np

        return np.zeros(0, np.int64)

    def scored(self, scores: np.ndarray | None, answers: np.ndarray | None) -> np.ndarray:
        """Of a prediction, the array that a metric on validation and `setting_column` need."""
        return answers

    def answers_of(self, scored: np.ndarray) -> np.ndarray:
        """The answers that belong to what `scored` gave."""
        return scored


class Labels(Targets):
    """Classes of every sample; a subclass says how many.

    Attributes
    ----------
    validation : metric by which a setting is chosen on validation.
    """

    classes = calibrated = True
    validation: ClassVar[str]


class OneClass(Labels):
    """One class of every sample: (N,) ids."""

    stored = learned = "int64"
    one_class = True
    validation, setting_column = "accuracy", ("setting_predictions", "int32")

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        import numpy as np

        return np.bincount(labels, minlength=classes)

    def shape(self, rows: int, classes: int) -> tuple[int, ...]:
        """The shape that labels and answers of so many samples have."""
        return (rows,)

    def highest(self, classes: int) -> int:
        """The largest value of a label."""
        return classes - 1

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(N, K) logits, -inf for what can not occur -> float32 probabilities, by softmax."""
        import numpy as np

        logits = np.asarray(logits, dtype=np.float64)
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)

    def answers(self, scores: np.ndarray) -> np.ndarray:
        """Labels as they are predicted from (N, K) probabilities."""
        return scores.argmax(axis=1)


class ManyLabels(Labels):
    """Any number of classes of every sample: (N, L) of 0 and 1."""

    stored = "uint8"
    several = True
    validation, setting_column = "micro_ap", ("setting_scores", "float32")

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        import numpy as np

        return np.asarray(labels, dtype=np.int64).sum(axis=0)

    def shape(self, rows: int, classes: int) -> tuple[int, ...]:
        return (rows, classes)

    def highest(self, classes: int) -> int:
        return 1

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(N, L) logits -> float32 probabilities of each label, by the logistic function."""
        import numpy as np

        logits = np.asarray(logits, dtype=np.float64)
        small = np.exp(-np.abs(logits))
        return (np.where(logits >= 0, 1.0, small) / (1.0 + small)).astype(np.float32)

    def answers(self, scores: np.ndarray) -> np.ndarray:
        """The labels whose probability is more than one half."""
        return (scores > 0.5).astype("uint8")

    def scored(self, scores: np.ndarray | None, answers: np.ndarray | None) -> np.ndarray:
        return scores

    def answers_of(self, scored: np.ndarray) -> np.ndarray:
        return self.answers(scored)


class Number(Targets):
    """A number of every sample: (N,)."""

    stored = "float64"
    numbers, chance = True, 0.0
    setting_column = "setting_numbers", "float64"


class ClassMask(Targets):
    """A class of every pixel."""

    classes = pixels = masks = True


class ChangeMask(ClassMask):
    """What changed at every pixel between two images of a place."""

    of_pairs = True


class NumberRaster(Targets):
    """A number of every pixel."""

    numbers = pixels = True
    chance = 0.0


class Boxes(Targets):
    """Boxes of objects."""

    classes = objects = True
    chance = 0.0


class Points(Boxes):
    """Points where objects are."""

    points = True


class Relevance(Targets):
    """Which images of a gallery are like a sample."""

    ranked = True


def by_targets[Value](table: Mapping[type[Targets], Value], targets: Targets) -> Value | None:
    """The table's entry for the class of the targets, or for the nearest class that it derives from; else None."""
    return next((table[cls] for cls in type(targets).__mro__ if cls in table), None)
