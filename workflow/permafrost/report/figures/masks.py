"""Predicted masks as pictures: next to image and truth, and next to those of other backbones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..rows import finite
from .class_colours import CORRECT, IGNORED, paint_errors, paint_mask
from .style import DPI, FAINT, INK, drawing, plain, shorten

WIDTH = 10.4  # inches: pictures need more room than charts
ACROSS = 8  # panels in a line
_GAP, _PART, _MARGIN = 0.06, 0.14, 0.05  # between panels, between two examples, around
_CELL = (WIDTH - 2 * _MARGIN - (ACROSS - 1) * _GAP - _PART) / ACROSS
_LARGEST = int(2 * _CELL * DPI)  # pixels of a picture; more would not be seen
_MOST_IN_LEGEND = 24


@dataclass(frozen=True)
class Example:
    """A test image: its name, pixels (h, w, 3) or (h, w) in [0, 1], and (h, w) true class ids."""

    name: str
    image: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True)
class Answer:
    """What was predicted for an image, (h, w) class ids, and the share of its pixels that are right."""

    mask: np.ndarray
    accuracy: float


def draw_pictures(
    groups: list[tuple[str, list[tuple[Example, Answer]]]],
    classes: list[str],
    colours: list[str],
    *,
    title: str,
    note: str,
):
    """Image, truth, prediction and errors of every example, two examples to a line.

    Parameters
    ----------
    groups : (heading, examples); a group without examples is left out.
    classes, colours : K names and their colours.
    note : which bands are shown and how.
    """
    lines = [
        (heading if first == 0 else "", examples[first : first + 2])
        for heading, examples in groups
        for first in range(0, len(examples), 2)
    ]
    seen = [(example.truth, answer.mask) for _, found in groups for example, answer in found]
    with drawing() as Figure:
        above = [0.36 if heading else 0.05 for heading, _ in lines]
        sheet = _Sheet(Figure, above, classes, seen, title, note, errors=True)
        for line, (heading, pairs) in enumerate(lines):
            sheet.heading(line, heading)
            for place, (example, answer) in enumerate(pairs):
                truth = example.truth
                panels = (
                    ("image", example.image),
                    ("truth", paint_mask(truth, colours)),
                    ("prediction", paint_mask(answer.mask, colours)),
                    ("errors", paint_errors(truth, answer.mask, colours)),
                )
                for column, (word, picture) in enumerate(panels, start=4 * place):
                    sheet.picture(line, column, picture, word if heading else "")
                sheet.words(
                    line, 4 * place, f"{shorten(example.name, 44)}: {_right(answer.accuracy)}"
                )
        sheet.legend(classes, colours)
    return sheet.figure


def draw_comparison(
    examples: list[Example],
    columns: list[tuple[str, list[Answer | None]]],
    classes: list[str],
    colours: list[str],
    *,
    title: str,
    note: str,
):
    """Image, truth and one prediction per backbone, an image to a line.

    Parameters
    ----------
    columns : (name, an answer per example); at most `ACROSS` - 2. None where there is no answer.
    classes, colours, note : as for `draw_pictures`.
    """
    if len(columns) > ACROSS - 2:
        raise ValueError(f"{len(columns)} columns do not fit")
    seen = [(example.truth,) for example in examples]
    seen += [(answer.mask,) for _, answers in columns for answer in answers if answer]
    with drawing() as Figure:
        above = [0.17] + [0.05] * (len(examples) - 1)
        sheet = _Sheet(Figure, above, classes, seen, title, note, across=2 + len(columns))
        for line, example in enumerate(examples):
            sheet.picture(line, 0, example.image, "image" if line == 0 else "")
            sheet.picture(line, 1, paint_mask(example.truth, colours), "truth" if line == 0 else "")
            sheet.words(line, 0, shorten(example.name, 30))
            for column, (name, answers) in enumerate(columns, start=2):
                if answers[line] is not None:
                    painted = paint_mask(answers[line].mask, colours)
                    sheet.picture(line, column, painted, shorten(name, 23) if line == 0 else "")
                    sheet.words(line, column, _right(answers[line].accuracy))
        sheet.legend(classes, colours)
    return sheet.figure


def _right(value: float) -> str:
    """A share of right pixels in words, e.g. ``93.1 % right``."""
    return f"{100 * value:.1f} % right" if finite(value) else "no scored pixel"


class _Sheet:
    """A figure of square panels in lines, with room for words, measured in inches.

    `above` is the room over each line, `seen` the masks that will be shown, `across` the panels in
    a line; with `errors` each holds two examples with their errors, a wider gap between them.
    """

    def __init__(
        self, Figure, above: list[float], classes, seen, title, note, *, across=ACROSS, errors=False
    ) -> None:
        from matplotlib.layout_engine import PlaceHolderLayoutEngine

        met = {int(c) for masks in seen for mask in masks for c in np.unique(mask)}
        everything = range(len(classes))
        self._named = [c for c in everything if c in met or len(classes) <= _MOST_IN_LEGEND]
        self._has_ignored = any(c not in everything for c in met)
        self._errors, self._part = errors, _PART if errors else 0.0
        self.width = max(6.2, across * (_CELL + _GAP) - _GAP + self._part + 2 * _MARGIN)
        widest = max((len(shorten(classes[c], 24)) for c in self._named), default=1)
        self._ncols = max(1, int(self.width / (0.42 + 0.078 * max(widest, 10))))
        entries = len(self._named) + self._has_ignored + errors
        rows = math.ceil(entries / self._ncols)
        self._tops, y = [], 0.32
        for room in above:
            self._tops.append(y + room)
            y += room + _CELL + 0.2
        self._legend_top = y + 0.04
        self.height = self._legend_top + 0.19 * rows + 0.27
        self.figure = Figure(figsize=(self.width, self.height))
        # "none" is no layout engine only until the figure is saved under our settings
        self.figure.set_layout_engine(PlaceHolderLayoutEngine(True, True))
        self._text(_MARGIN, 0.2, title, size=9.5, weight="bold")
        self._text(_MARGIN, self.height - 0.08, note, size=7, color=FAINT)

    def _text(
        self, x: float, y: float, text: str, *, size: float, color=INK, weight="normal"
    ) -> None:
        """Text whose baseline is `y` inches below the top, `x` from the left."""
        self.figure.text(x / self.width, 1 - y / self.height, plain(text), fontsize=size, color=color,
                         weight=weight, ha="left", va="baseline")  # fmt: skip

    def heading(self, line: int, text: str) -> None:
        if text:
            self._text(_MARGIN, self._tops[line] - 0.2, text, size=8.5, weight="bold")

    def picture(self, line: int, column: int, picture: np.ndarray, word: str) -> None:
        x, top = self._x(column), self._tops[line]
        axes = self.figure.add_axes(
            (
                x / self.width,
                1 - (top + _CELL) / self.height,
                _CELL / self.width,
                _CELL / self.height,
            )
        )
        picture = thinned(picture)
        axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        height, width = picture.shape[:2]
        side = max(height, width) / 2  # pictures of any shape stand in squares of one size
        axes.set_xlim(width / 2 - 0.5 - side, width / 2 - 0.5 + side)
        axes.set_ylim(height / 2 - 0.5 + side, height / 2 - 0.5 - side)
        axes.set_axis_off()
        if word:
            self._text(x, top - 0.05, word, size=7.5, color=FAINT)

    def words(self, line: int, column: int, text: str) -> None:
        self._text(self._x(column), self._tops[line] + _CELL + 0.13, text, size=7)

    def legend(self, classes: list[str], colours: list[str]) -> None:
        from matplotlib.patches import Patch

        handles = [Patch(fc=colours[c], label=plain(shorten(classes[c], 24))) for c in self._named]
        handles += [Patch(fc=CORRECT, label="right (in errors)")] if self._errors else []
        if self._has_ignored:
            handles.append(
                Patch(fc=IGNORED[0], ec=IGNORED[1], hatch="/////", lw=0, label="no true class")
            )
        self.figure.legend(handles=handles, loc="upper left", ncols=self._ncols, fontsize=7.5,
                           bbox_to_anchor=(0, 1 - self._legend_top / self.height), borderaxespad=0.2,
                           handlelength=1.3, handleheight=1.0, columnspacing=1.2)  # fmt: skip

    def _x(self, column: int) -> float:
        return _MARGIN + column * (_CELL + _GAP) + (self._part if column >= ACROSS // 2 else 0)


def thinned(picture: np.ndarray) -> np.ndarray:
    """Every n-th pixel of a picture that has more than can be seen."""
    step = max(1, math.ceil(max(picture.shape[:2]) / _LARGEST))
    return picture[::step, ::step]
