"""Predicted numbers per pixel as pictures, with a common colour scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.report.figures import predicted
from permafrost.report.figures.class_colours import hatching
from permafrost.statistics.leaderboard.rows import finite

ACROSS = 8  # panels per line
# a sequential scale for numbers, a diverging one with white at 0 for errors
COLOURS, ERRORS = "viridis", "RdBu_r"


@dataclass(frozen=True)
class Example:
    """A test image: its name, pixels (h, w, 3) or (h, w) in [0, 1], and (h, w) true numbers, NaN without data."""

    name: str
    image: np.ndarray
    truth: np.ndarray

    def known(self, scale: Scale) -> list[tuple[str, np.ndarray]]:
        """Panels of the example: pictures with their titles."""
        return [("image", self.image), ("truth", scale.paint(self.truth))]


@dataclass(frozen=True)
class Answer:
    """The prediction for an image, (h, w) numbers, and its root mean squared error."""

    raster: np.ndarray
    rmse: float

    @property
    def words(self) -> str:
        return f"RMSE {self.rmse:.3g}" if finite(self.rmse) else "no pixel with data"


@dataclass(frozen=True)
class Scale:
    """Limits of a colour scale, and its title."""

    low: float
    high: float
    words: str

    @classmethod
    def over(cls, rasters: list[np.ndarray], words: str) -> Scale:
        """From the 1st to the 99th percentile of all shown numbers, so that outliers do not
        compress the scale."""
        known = np.concatenate([raster[~np.isnan(raster)] for raster in rasters] or [np.zeros(1)])
        low, high = np.percentile(known, [1, 99]) if known.size else (0.0, 1.0)
        return cls(float(low), float(high if high > low else low + 1), words)

    def bar(self, colours: str = COLOURS) -> tuple[float, float, str, str]:
        """Arguments of `Sheet.bar`."""
        return self.low, self.high, colours, self.words

    def paint(self, raster: np.ndarray, colours: str = COLOURS) -> np.ndarray:
        """(h, w, 3) in [0, 1]; hatched where there is no number."""
        from matplotlib import colormaps

        known = ~np.isnan(raster)
        shares = np.clip((np.where(known, raster, 0) - self.low) / (self.high - self.low), 0, 1)
        return np.where(
            known[..., None], colormaps[colours](shares)[..., :3], hatching(raster.shape)
        )


def draw_pictures(groups: list[tuple[str, list[tuple[Example, Answer]]]], scale: Scale, **words):
    """Image, truth, prediction and errors of every example, two examples to a line.

    Parameters
    ----------
    groups : (heading, examples); a group without examples is skipped.
    scale : of truth and prediction.
    words : ``title``, and ``note``: which bands are shown and how.
    """
    errors = [answer.raster - example.truth for _, found in groups for example, answer in found]
    far = max((np.nanpercentile(np.abs(e), 99) for e in errors if not np.isnan(e).all()), default=1)
    off = Scale(-float(far or 1), float(far or 1), f"predicted − true {scale.words}")

    def panels(example: Example, answer: Answer) -> list[tuple[str, np.ndarray]]:
        return [
            *example.known(scale),
            ("prediction", scale.paint(answer.raster)),
            ("error", off.paint(answer.raster - example.truth, ERRORS)),
        ]

    bars = [scale.bar(), off.bar(ERRORS)]
    return predicted.draw_pictures(groups, panels, ACROSS, bars=bars, **words)


def draw_comparison(
    examples: list[Example],
    columns: list[tuple[str, list[Answer | None]]],
    scale: Scale,
    **words,
):
    """Image, truth and one prediction per backbone, an image per line.

    Parameters
    ----------
    columns : (name, an answer per example); at most `ACROSS` - 2. None if there is no answer.
    scale, words : as in `draw_pictures`.
    """
    return predicted.draw_comparison(
        examples,
        columns,
        lambda example: example.known(scale),
        lambda answer: scale.paint(answer.raster),
        ACROSS,
        bars=[scale.bar()],
        **words,
    )
