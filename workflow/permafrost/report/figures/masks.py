"""Predicted masks as pictures: next to image and truth, and next to those of other backbones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from permafrost.report.figures.class_colours import CORRECT, IGNORED, paint_errors, paint_mask
from permafrost.report.figures.sheet import Grid, Sheet, in_pairs
from permafrost.report.figures.style import drawing, plain, shorten
from permafrost.statistics.leaderboard.rows import finite

ACROSS = 8  # panels in a line
PAIRS_ACROSS = 10  # where images are pairs
_MOST_IN_LEGEND = 24


@dataclass(frozen=True)
class Example:
    """A test image: its name, pixels (h, w, 3) or (h, w) in [0, 1], and (h, w) true class ids.

    Of a pair, `image` shows what is after, and `before` what was.
    """

    name: str
    image: np.ndarray
    truth: np.ndarray
    before: np.ndarray | None = None

    @property
    def known(self) -> list[tuple[str, np.ndarray]]:
        """What is shown of it beside the truth, in words and pixels."""
        if self.before is None:
            return [("image", self.image)]
        return [("before", self.before), ("after", self.image)]


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
    lines = in_pairs(groups)
    across = across_of(example for _, found in groups for example, _ in found)
    seen = [(example.truth, answer.mask) for _, found in groups for example, answer in found]
    with drawing() as Figure:
        legend = class_legend(classes, colours, seen, errors=True)
        sheet = Sheet(Figure, Grid.of_pairs(across, lines), title, note, legend)
        for line, (heading, pairs) in enumerate(lines):
            sheet.heading(line, heading)
            for place, (example, answer) in enumerate(pairs):
                truth = example.truth
                panels = (
                    *example.known,
                    ("truth", paint_mask(truth, colours)),
                    ("prediction", paint_mask(answer.mask, colours)),
                    ("errors", paint_errors(truth, answer.mask, colours)),
                )
                first = place * across // 2
                for column, (word, picture) in enumerate(panels, start=first):
                    sheet.picture(line, column, picture, word if heading else "")
                sheet.words(line, first, f"{shorten(example.name, 44)}: {_right(answer.accuracy)}")
        sheet.legend()
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
    columns : (name, an answer per example); at most 6, or of pairs 7. None where there is no answer.
    classes, colours, note : as for `draw_pictures`.
    """
    across = across_of(examples)
    left = 2 if across == ACROSS else 3
    if len(columns) > across - left:
        raise ValueError(f"{len(columns)} columns do not fit")
    seen = [(example.truth,) for example in examples]
    seen += [(answer.mask,) for _, answers in columns for answer in answers if answer]
    with drawing() as Figure:
        legend = class_legend(classes, colours, seen, errors=False)
        grid = Grid.of_columns(across, len(examples), left + len(columns))
        sheet = Sheet(Figure, grid, title, note, legend)
        for line, example in enumerate(examples):
            panels = [*example.known, ("truth", paint_mask(example.truth, colours))]
            for column, (word, picture) in enumerate(panels):
                sheet.picture(line, column, picture, word if line == 0 else "")
            sheet.words(line, 0, shorten(example.name, 30))
            for column, (name, answers) in enumerate(columns, start=left):
                if answers[line] is not None:
                    painted = paint_mask(answers[line].mask, colours)
                    sheet.picture(line, column, painted, name if line == 0 else "")
                    sheet.words(line, column, _right(answers[line].accuracy))
        sheet.legend()
    return sheet.figure


def across_of(examples: Iterable[Example]) -> int:
    """Panels in a line of a sheet with these examples."""
    return PAIRS_ACROSS if any(one.before is not None for one in examples) else ACROSS


def _right(value: float) -> str:
    """A share of right pixels in words, e.g. ``93.1 % right``."""
    return f"{100 * value:.1f} % right" if finite(value) else "no scored pixel"


def class_legend(classes: list[str], colours: list[str], seen, *, errors: bool) -> tuple[list, int]:
    """Handles of the classes that the masks `seen` hold (all, where they are few), and the letters of the
    longest name; with `errors` also what is dark there."""
    from matplotlib.patches import Patch

    met = {int(c) for masks in seen for mask in masks for c in np.unique(mask)}
    everything = range(len(classes))
    named = [c for c in everything if c in met or len(classes) <= _MOST_IN_LEGEND]
    words = [shorten(classes[c], 24) for c in named]
    handles = [
        Patch(fc=colours[c], label=plain(word)) for c, word in zip(named, words, strict=True)
    ]
    handles += [Patch(fc=CORRECT, label="right (in errors)")] if errors else []
    if any(c not in everything for c in met):
        handles.append(
            Patch(fc=IGNORED[0], ec=IGNORED[1], hatch="/////", lw=0, label="no true class")
        )
    return handles, max(map(len, words), default=1)
