"""Predicted masks as pictures: next to image and truth, and next to those of other backbones."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from permafrost.report.figures import predicted
from permafrost.report.figures.class_colours import CORRECT, IGNORED, paint_errors, paint_mask
from permafrost.report.figures.style import plain, shorten
from permafrost.statistics.leaderboard.rows import finite

ACROSS = 8  # panels per line
PAIRS_ACROSS = 10  # for pairs of images
_MOST_IN_LEGEND = 24


@dataclass(frozen=True)
class Example:
    """A test image: its name, pixels (h, w, 3) or (h, w) in [0, 1], and (h, w) true class ids.

    For a pair, `image` is the later and `before` the earlier image.
    """

    name: str
    image: np.ndarray
    truth: np.ndarray
    before: np.ndarray | None = None

    def known(self, colours: list[str]) -> list[tuple[str, np.ndarray]]:
        """Panels of the example: its pictures, and the truth in the classes' colours."""
        pictures = [("image", self.image)]
        if self.before is not None:
            pictures = [("before", self.before), ("after", self.image)]
        return [*pictures, ("truth", paint_mask(self.truth, colours))]


@dataclass(frozen=True)
class Answer:
    """The prediction for an image, (h, w) class ids, and the share of right pixels."""

    mask: np.ndarray
    accuracy: float

    @property
    def words(self) -> str:
        """The share of right pixels, e.g. ``93.1 % right``."""
        return f"{100 * self.accuracy:.1f} % right" if finite(self.accuracy) else "no scored pixel"


def draw_pictures(
    groups: list[tuple[str, list[tuple[Example, Answer]]]],
    classes: list[str],
    colours: list[str],
    **words,
):
    """Image, truth, prediction and errors of every example, two examples to a line.

    Parameters
    ----------
    groups : (heading, examples); a group without examples is skipped.
    classes, colours : K names and their colours.
    words : ``title``, and ``note``: which bands are shown and how.
    """
    shown = [pair for _, pairs in groups for pair in pairs]
    seen = [(example.truth, answer.mask) for example, answer in shown]

    def panels(example: Example, answer: Answer) -> list[tuple[str, np.ndarray]]:
        return [
            *example.known(colours),
            ("prediction", paint_mask(answer.mask, colours)),
            ("errors", paint_errors(example.truth, answer.mask, colours)),
        ]

    legend = functools.partial(class_legend, classes, colours, seen, errors=True)
    across = across_of(example for example, _ in shown)
    return predicted.draw_pictures(groups, panels, across, legend=legend, **words)


def draw_comparison(
    examples: list[Example],
    columns: list[tuple[str, list[Answer | None]]],
    classes: list[str],
    colours: list[str],
    **words,
):
    """Image, truth and one prediction per backbone, an image per line.

    Parameters
    ----------
    columns : (name, an answer per example); at most 6, for pairs 7. None if there is no answer.
    classes, colours, words : as in `draw_pictures`.
    """
    seen = [(example.truth,) for example in examples]
    seen += [(answer.mask,) for _, answers in columns for answer in answers if answer]
    return predicted.draw_comparison(
        examples,
        columns,
        lambda example: example.known(colours),
        lambda answer: paint_mask(answer.mask, colours),
        across_of(examples),
        legend=functools.partial(class_legend, classes, colours, seen, errors=False),
        **words,
    )


def across_of(examples: Iterable[Example]) -> int:
    """Number of panels per line of a sheet with these examples."""
    return PAIRS_ACROSS if any(one.before is not None for one in examples) else ACROSS


def class_legend(classes: list[str], colours: list[str], seen, *, errors: bool) -> tuple[list, int]:
    """Handles of the classes in the masks `seen` (of all classes, if there are few), and the
    letters of the longest name; with `errors` also the meaning of dark pixels."""
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
