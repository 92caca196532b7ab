"""Predicted numbers per pixel as pictures, all in one scale of colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.report.figures.class_colours import hatching
from permafrost.report.figures.sheet import Grid, Sheet, in_pairs
from permafrost.report.figures.style import drawing, shorten
from permafrost.statistics.leaderboard.rows import finite

ACROSS = 8  # panels in a line
# one hue after the other for numbers, two that part at white for errors
COLOURS, ERRORS = "viridis", "RdBu_r"


@dataclass(frozen=True)
class Example:
    """A test image: its name, pixels (h, w, 3) or (h, w) in [0, 1], and (h, w) true numbers, NaN without data."""

    name: str
    image: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True)
class Answer:
    """What was predicted for an image, (h, w) numbers, and the root of their mean squared error."""

    raster: np.ndarray
    rmse: float


@dataclass(frozen=True)
class Scale:
    """Numbers that have the first and the last colour, and what they are in words."""

    low: float
    high: float
    words: str

    @classmethod
    def over(cls, rasters: list[np.ndarray], words: str) -> Scale:
        """From the 1st to the 99th percentile of all numbers shown, so that a few do not darken the rest."""
        known = np.concatenate([raster[~np.isnan(raster)] for raster in rasters] or [np.zeros(1)])
        low, high = np.percentile(known, [1, 99]) if known.size else (0.0, 1.0)
        return cls(float(low), float(high if high > low else low + 1), words)

    def paint(self, raster: np.ndarray, colours: str = COLOURS) -> np.ndarray:
        """(h, w, 3) in [0, 1]; hatched where there is no number."""
        from matplotlib import colormaps

        known = ~np.isnan(raster)
        shares = np.clip((np.where(known, raster, 0) - self.low) / (self.high - self.low), 0, 1)
        return np.where(
            known[..., None], colormaps[colours](shares)[..., :3], hatching(raster.shape)
        )


def draw_pictures(
    groups: list[tuple[str, list[tuple[Example, Answer]]]],
    scale: Scale,
    *,
    title: str,
    note: str,
):
    """Image, truth, prediction and errors of every example, two examples to a line.

    Parameters
    ----------
    groups : (heading, examples); a group without examples is left out.
    scale : of truth and prediction.
    note : which bands are shown and how.
    """
    lines = in_pairs(groups)
    errors = [answer.raster - example.truth for _, found in lines for example, answer in found]
    far = max((np.nanpercentile(np.abs(e), 99) for e in errors if not np.isnan(e).all()), default=1)
    off = Scale(-float(far or 1), float(far or 1), f"predicted − true {scale.words}")
    with drawing() as Figure:
        sheet = Sheet(Figure, Grid.of_pairs(ACROSS, lines, bars=True), title, note)
        for line, (heading, pairs) in enumerate(lines):
            sheet.heading(line, heading)
            for place, (example, answer) in enumerate(pairs):
                panels = (
                    ("image", example.image),
                    ("truth", scale.paint(example.truth)),
                    ("prediction", scale.paint(answer.raster)),
                    ("error", off.paint(answer.raster - example.truth, ERRORS)),
                )
                for column, (word, picture) in enumerate(panels, start=4 * place):
                    sheet.picture(line, column, picture, word if heading else "")
                words = f"{shorten(example.name, 44)}: {_error(answer.rmse)}"
                sheet.words(line, 4 * place, words)
        sheet.bar(0, scale.low, scale.high, COLOURS, scale.words)
        sheet.bar(1, off.low, off.high, ERRORS, off.words)
    return sheet.figure


def draw_comparison(
    examples: list[Example],
    columns: list[tuple[str, list[Answer | None]]],
    scale: Scale,
    *,
    title: str,
    note: str,
):
    """Image, truth and one prediction per backbone, an image to a line.

    Parameters
    ----------
    columns : (name, an answer per example); at most `ACROSS` - 2. None where there is no answer.
    scale, note : as for `draw_pictures`.
    """
    if len(columns) > ACROSS - 2:
        raise ValueError(f"{len(columns)} columns do not fit")
    with drawing() as Figure:
        grid = Grid.of_columns(ACROSS, len(examples), 2 + len(columns), bars=True)
        sheet = Sheet(Figure, grid, title, note)
        for line, example in enumerate(examples):
            sheet.picture(line, 0, example.image, "image" if line == 0 else "")
            sheet.picture(line, 1, scale.paint(example.truth), "truth" if line == 0 else "")
            sheet.words(line, 0, shorten(example.name, 30))
            for column, (name, answers) in enumerate(columns, start=2):
                if answers[line] is not None:
                    painted = scale.paint(answers[line].raster)
                    sheet.picture(line, column, painted, name if line == 0 else "")
                    sheet.words(line, column, _error(answers[line].rmse))
        sheet.bar(0, scale.low, scale.high, COLOURS, scale.words)
    return sheet.figure


def _error(rmse: float) -> str:
    return f"RMSE {rmse:.3g}" if finite(rmse) else "no pixel with data"
