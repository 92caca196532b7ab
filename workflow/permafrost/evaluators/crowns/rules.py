"""Declared rules for images without truth or without predictions.

``without_predictions``  an image with true crowns but no predictions. Its recall is 0. Its
    precision is ``zero``, which lowers the mean, or it is excluded (``skip``, DeepForest). With
    ``skip``, deleting the predictions of a bad image *raises* the mean precision.
``without_truth``  an annotated image without crowns, but with predictions. It has no recall. Its
    precision is ``zero``, or the image and its predictions are excluded (``skip``, DeepForest).
``unlisted``  predictions on an image that the truth does not name: an ``error``, because the name
    is usually misspelt; counted as an image without truth (``empty``); or excluded (``skip``,
    DeepForest).

The result counts everything that is excluded. The defaults exclude nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from permafrost.core.errors import look_up

AVERAGES = ("image", "dataset")
CHOICES = {
    "without_predictions": ("zero", "skip"),
    "without_truth": ("zero", "skip"),
    "unlisted": ("error", "empty", "skip"),
    "average": AVERAGES,
}


@dataclass(frozen=True)
class Rules:
    """How images count; ``average`` is ``image`` (mean over images) or ``dataset`` (pooled)."""

    average: str = "image"
    without_predictions: str = "zero"
    without_truth: str = "zero"
    unlisted: str = "error"

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            look_up(CHOICES[name], value, f"{name} cannot be")


# the rules of `deepforest.evaluate.evaluate_geometry`
DEEPFOREST = {"without_predictions": "skip", "without_truth": "skip", "unlisted": "skip"}
