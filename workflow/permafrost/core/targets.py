"""Forms of targets (ground truth), one class each, with the properties that code depends on.

`core.tasks.TASKS` maps tasks to them. A package that needs more per form (reading predictions, a
likelihood, the chance level) keeps a table whose keys are these classes, and looks it up by
`by_targets`. Planning imports this module, so NumPy is imported inside the methods that need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np


class Targets:
    """Base class: a form of targets, shared by all tasks with it.

    Attributes
    ----------
    stored : NumPy type of the labels in image and feature stores; None without one label per
        sample.
    learned : type of the labels that a loss of torch takes.
    classes : the targets are classes, some of which a split can lack.
    one_class, several : the label is one class id; or a 0 or 1 for each class.
    numbers : the targets are numbers.
    pixels : every pixel has a target, so the image store holds a raster per image.
    masks : the target of a pixel is a class.
    of_pairs : a sample is a pair of images, before and after; class 0 means no change.
    objects, points : a sample has any number of objects, which are boxes; or points.
    oriented, instances : the objects are turned boxes; or masks, one per object.
    ranked : predictions rank a gallery; labels determine which of its images are relevant.
    calibrated : probes can predict probabilities, so calibration can be measured.
    setting_column : (name, type) of the column of prediction tables for the answers of all
        settings.
    chance : chance level of the primary metric, if it is the same for every test set.
    """

    stored: ClassVar[str | None] = None
    learned: ClassVar[str] = "float32"
    classes = one_class = several = numbers = pixels = masks = of_pairs = False
    objects = points = oriented = instances = ranked = calibrated = False
    chance: ClassVar[float | None] = None
    setting_column: ClassVar[tuple[str, str] | None] = None

    @property
    def dense(self) -> bool:
        """Whether probes need feature maps: the targets belong to locations in the image."""
        return self.pixels or self.objects

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """Number of samples of each class, (K,) int64; empty without classes."""
        import numpy as np

        return np.zeros(0, np.int64)

    def scored(self, scores: np.ndarray | None, answers: np.ndarray | None) -> np.ndarray:
        """The one of `scores` and `answers` that validation metrics and `setting_column` use."""
        return answers

    def answers_of(self, scored: np.ndarray) -> np.ndarray:
        """The answers for an array that `scored` returned."""
        return scored


class Labels(Targets):
    """Base class: each sample has one class or several.

    Attributes
    ----------
    validation : metric that chooses a setting on the validation split.
    """

    classes = calibrated = True
    validation: ClassVar[str]

    if TYPE_CHECKING:

        def shape(self, rows: int, classes: int) -> tuple[int, ...]:
            """Shape of the labels, and of the answers, of `rows` samples."""

        def highest(self, classes: int) -> int:
            """The largest value of a label."""

        def probabilities(self, logits: np.ndarray) -> np.ndarray:
            """Logits -> float32 probabilities of the same shape, (N, K)."""

        def answers(self, scores: np.ndarray) -> np.ndarray:
            """Predicted labels from (N, K) probabilities."""


class OneClass(Labels):
    """One class per sample: (N,) ids."""

    stored = learned = "int64"
    one_class = True
    validation, setting_column = "accuracy", ("setting_predictions", "int32")

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        import numpy as np

        return np.bincount(labels, minlength=classes)

    def shape(self, rows: int, classes: int) -> tuple[int, ...]:
        return (rows,)

    def highest(self, classes: int) -> int:
        return classes - 1

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Softmax of (N, K) logits, -inf for impossible classes; (N, K) float32 probabilities."""
        import numpy as np

        logits = np.asarray(logits, dtype=np.float64)
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)

    def answers(self, scores: np.ndarray) -> np.ndarray:
        return scores.argmax(axis=1)


class ManyLabels(Labels):
    """Any number of classes per sample: (N, L) of 0 and 1."""

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
        """Logistic function of (N, L) logits; (N, L) float32 probabilities of each label."""
        import numpy as np

        logits = np.asarray(logits, dtype=np.float64)
        small = np.exp(-np.abs(logits))
        return (np.where(logits >= 0, 1.0, small) / (1.0 + small)).astype(np.float32)

    def answers(self, scores: np.ndarray) -> np.ndarray:
        """Predicted labels (N, L) uint8: 1 if the probability exceeds 0.5."""
        return (scores > 0.5).astype("uint8")

    def scored(self, scores: np.ndarray | None, answers: np.ndarray | None) -> np.ndarray:
        return scores

    def answers_of(self, scored: np.ndarray) -> np.ndarray:
        return self.answers(scored)


class Number(Targets):
    """One number per sample: (N,)."""

    stored = "float64"
    numbers, chance = True, 0.0
    setting_column = "setting_numbers", "float64"


class ClassMask(Targets):
    """A class for every pixel."""

    classes = pixels = masks = True


#: in masks of change, the class of unchanged pixels
NO_CHANGE = 0


class ChangeMask(ClassMask):
    """A class of change for every pixel between two images of a location."""

    of_pairs = True


class NumberRaster(Targets):
    """A number for every pixel."""

    numbers = pixels = True
    chance = 0.0


class Boxes(Targets):
    """Bounding boxes of objects."""

    classes = objects = True
    chance = 0.0


class Points(Boxes):
    """Point locations of objects."""

    points = True


class OrientedBoxes(Boxes):
    """Rectangles around objects, turned by any angle."""

    oriented = True


class InstanceMasks(Boxes):
    """A mask for each object."""

    instances = True


class Relevance(Targets):
    """Which images of a gallery are relevant to a sample (retrieval)."""

    ranked = True


def by_targets[Value](table: Mapping[type[Targets], Value], targets: Targets) -> Value | None:
    """The entry of `table` for the class of `targets` or its nearest base class; None without one."""
    return next((table[cls] for cls in type(targets).__mro__ if cls in table), None)
