"""Pictures of test images with right and wrong predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from permafrost.core.identity import derive_seed
from permafrost.report.figures.sheet import LINE, Grid, Sheet
from permafrost.report.figures.style import RIGHT, WRONG, drawing, shorten

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


def draw_suspects(
    images: Callable[[int], np.ndarray],
    classes: dict[str, list[int]],
    words: Callable[[int], str],
    *,
    title: str,
    bands: str,
):
    """A line of pictures per given class (at most eight each); parameters as in `draw_strip`."""
    groups = [(name, WRONG, chosen[:_COLUMNS]) for name, chosen in classes.items()]
    return _draw(images, groups, words, title=title, note=bands)


def _draw(images, groups: list[tuple[str, str, list[int]]], words, *, title: str, note: str):
    """Lines of pictures per group (label, colour, indices); each group starts a new line."""
    columns = max(4, *(_columns(len(chosen)) for *_, chosen in groups))
    lines = [
        (label if first == 0 else "", colour, chosen[first : first + columns])
        for label, colour, chosen in groups
        for first in range(0, max(1, len(chosen)), columns)
    ]
    below = {index: _wrapped(words(index)) for *_, chosen in lines for index in chosen}
    most = max((text.count("\n") for text in below.values()), default=0)
    above = [0.36 if label else 0.05 for label, *_ in lines]
    with drawing() as Figure:
        grid = Grid(_COLUMNS, above, columns, below=0.2 + most * LINE)
        sheet = Sheet(Figure, grid, title, note)
        for line, (label, colour, chosen) in enumerate(lines):
            sheet.heading(line, label, colour)
            for column, index in enumerate(chosen):
                sheet.picture(line, column, images(index), "", frame=colour)
                sheet.words(line, column, below[index])
    return sheet.finished()


def _columns(count: int) -> int:
    """Pictures per line, so that lines have similar lengths."""
    return math.ceil(count / math.ceil(count / _COLUMNS)) if count else 0


def _wrapped(text: str) -> str:
    return "\n".join(part for line in text.split("\n") for part in wrap_name(shorten(line, 38), 20))


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
