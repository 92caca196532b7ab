"""Pictures of test images with right and wrong predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from permafrost.core.identity import derive_seed
from permafrost.report.figures.style import (
    PAGE_WIDTH,
    RIGHT,
    WRONG,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)

_COLUMNS = 8  # pictures per line


def choose_samples(
    correct: np.ndarray, *, count: int, identity: tuple, seed: int = 0
) -> tuple[list[int], list[int]]:
    """Up to `count` indices of right and of wrong predictions, determined by the run's identity.

    Parameters
    ----------
    correct : (N,) bool, whether each test sample was predicted right.
    identity : key of the evaluation (dataset, backbone, probe, seed); with `seed` it determines the
        choice.
    """
    random = np.random.default_rng(derive_seed("strip", seed, *identity))
    chosen = []
    for wanted in (np.flatnonzero(correct), np.flatnonzero(~correct)):
        size = min(count, wanted.size)
        chosen.append(sorted(int(i) for i in random.choice(wanted, size=size, replace=False)))
    return chosen[0], chosen[1]


def draw_strip(
    images: Callable[[int], np.ndarray],
    right: list[int],
    wrong: list[int],
    words: Callable[[int], str],
    *,
    title: str,
    bands: str,
):
    """Pictures of right predictions above, of wrong ones below, up to eight per line.

    Parameters
    ----------
    images : index of a test sample -> (h, w, 3) or (h, w) array in [0, 1].
    right, wrong : indices of the samples to show.
    words : index -> the text under its picture.
    bands : which bands are shown and how, for the caption.
    """
    groups = [
        ("right" if right else "no right prediction", RIGHT, right),
        ("wrong" if wrong else "no wrong prediction", WRONG, wrong),
    ]
    return _draw(images, groups, words, title=title, note=bands)


def draw_hardest(
    images: Callable[[int], np.ndarray],
    chosen: list[int],
    words: Callable[[int], str],
    *,
    title: str,
    bands: str,
):
    """Pictures that every backbone gets wrong, hardest first; parameters as in `draw_strip`."""
    return _draw(images, [("", WRONG, chosen)], words, title=title, note=bands)


def _draw(images, groups: list[tuple[str, str, list[int]]], words, *, title: str, note: str):
    """Lines of pictures per group (label, colour, indices); each group starts a new line."""
    columns = max(4, *(_columns(len(chosen)) for *_, chosen in groups))
    lines = [
        (label if first == 0 else "", colour, chosen[first : first + columns])
        for label, colour, chosen in groups
        for first in range(0, max(1, len(chosen)), columns)
    ]
    cell = PAGE_WIDTH / _COLUMNS
    text = sum(max((len(_lines(words(i))) for i in chosen), default=0) for *_, chosen in lines)
    with drawing() as Figure:
        figure = Figure(figsize=(cell * columns, 0.55 + len(lines) * (cell + 0.2) + 0.11 * text))
        grid = figure.subplots(len(lines), columns, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        for row, (label, colour, chosen) in zip(grid, lines, strict=True):
            for axes, index in zip(row, chosen, strict=False):
                _picture(axes, images(index), words(index), colour)
            _label(row[0], label, colour)
        put_title(figure, title)
        put_note(figure, note)
    return figure


def _columns(count: int) -> int:
    """Pictures per line, so that lines have similar lengths."""
    return math.ceil(count / math.ceil(count / _COLUMNS)) if count else 0


def _lines(text: str) -> list[str]:
    return [part for line in text.split("\n") for part in wrap_name(shorten(line, 32), 17)]


def _picture(axes, image: np.ndarray, text: str, colour: str) -> None:
    axes.set_axis_on()
    axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    height, width = image.shape[:2]
    side = max(height, width) / 2  # centre pictures of any shape in squares of one size
    axes.set_xlim(width / 2 - 0.5 - side, width / 2 - 0.5 + side)
    axes.set_ylim(height / 2 - 0.5 + side, height / 2 - 0.5 - side)
    axes.set_facecolor("#eeeeee")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=1.6)
    axes.set_xlabel(plain("\n".join(_lines(text))), fontsize=6.2, labelpad=3, linespacing=1.15)


def wrap_name(text: str, width: int) -> list[str]:
    """Break a class name at spaces, after ``_ - /`` and at inner capitals, else at `width`."""
    parts: list[str] = []
    for part in re.split(r"(?<=[ _/-])|(?<=[a-z0-9])(?=[A-Z])", text):
        for piece in [part[i : i + width] for i in range(0, len(part), width)]:
            if parts and len(parts[-1]) + len(piece.rstrip()) <= width:
                parts[-1] += piece
            else:
                parts.append(piece)
    return [part.rstrip() for part in parts]


def _label(axes, text: str, colour: str) -> None:
    axes.annotate(
        text,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 4),
        fontsize=8,
        textcoords="offset points",
        color=colour,
        weight="bold",
    )
