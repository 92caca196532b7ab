"""What is to be done with images that have no truth or no predictions: declared, never silent.

``without_predictions``  an image with crowns on which nothing was predicted. Its recall is 0. Its
    precision is ``zero`` (it lowers the mean), or it is left out (``skip``, DeepForest), whereby
    deleting the predictions of a bad image *raises* the mean precision.
``without_truth``  an image that was searched and holds no crown, but something was predicted there.
    It has no recall. Its precision is ``zero``, or the image and its predictions are left out
    (``skip``, DeepForest).
``unlisted``  predictions on an image that the truth does not name: an ``error``, since most often a
    name is misspelt; counted as an image without truth (``empty``); or left out (``skip``,
    DeepForest).

Whatever is left out is counted in the result. The defaults leave nothing out.
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
    """How images are counted; ``average`` is over images, or pools all crowns (``dataset``)."""

    average: str = "image"
    without_predictions: str = "zero"
    without_truth: str = "zero"
    unlisted: str = "error"

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            look_up(CHOICES[name], value, f"{name} cannot be")


# what `deepforest.evaluate.evaluate_geometry` does
DEEPFOREST = {"without_predictions": "skip", "without_truth": "skip", "unlisted": "skip"}
