"""Example images of a dataset, grouped by label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.report.figures.class_colours import class_colours, paint_mask
from permafrost.report.figures.masks import class_legend
from permafrost.report.figures.objects import HIT, draw_shapes
from permafrost.report.figures.sheet import Grid, Sheet
from permafrost.report.figures.style import drawing, shorten

#: pictures per line
ACROSS = 8


def draw_examples(
    lines: Sequence[tuple[str, Sequence[tuple[str, np.ndarray]]]], *, title: str, note: str
):
    """Lines of up to eight pictures, each line under a heading and each picture over its name.

    Parameters
    ----------
    lines : (heading, [(name, (h, w, 3) or (h, w) in [0, 1])]).
    """
    with drawing() as Figure:
        sheet = Sheet(Figure, Grid(ACROSS, [0.36] * len(lines)), title, note)
        for line, (heading, pictures) in enumerate(lines):
            sheet.heading(line, heading)
            for column, (name, picture) in enumerate(pictures):
                sheet.picture(line, column, picture, "")
                sheet.words(line, column, shorten(name, 20))
    return sheet.finished()


def draw_masked(
    examples: Sequence[tuple[str, np.ndarray, np.ndarray]],
    classes: list[str],
    *,
    title: str,
    note: str,
):
    """Images next to their masks, four per line.

    Parameters
    ----------
    examples : name, picture, and (h, w) class ids.
    """
    colours, half = class_colours(classes), ACROSS // 2
    lines = -(-len(examples) // half)
    with drawing() as Figure:
        legend = class_legend(classes, colours, [(mask,) for _, _, mask in examples], errors=False)
        sheet = Sheet(Figure, Grid(ACROSS, [0.05] * lines), title, note, legend)
        for place, (name, picture, mask) in enumerate(examples):
            line, column = place // half, place % half * 2
            sheet.picture(line, column, picture, "")
            sheet.picture(line, column + 1, paint_mask(mask, colours), "")
            sheet.words(line, column, shorten(name, 44))
        sheet.legend()
    return sheet.finished()


def draw_outlined(
    examples: Sequence[tuple[str, np.ndarray, tuple[float, float], np.ndarray]],
    kind: str,
    *,
    title: str,
    note: str,
):
    """Images with the outlines of their objects.

    Parameters
    ----------
    examples : name, picture, width and height in the units of the shapes, and shapes of the `kind` box or point.
    """
    lines, across = -(-len(examples) // 4), 4
    with drawing() as Figure:
        sheet = Sheet(Figure, Grid(across, [0.05] * lines), title, note)
        for place, (name, picture, size, shapes) in enumerate(examples):
            panel = sheet.canvas(place // across, place % across, picture, "", size)
            draw_shapes(panel, kind, shapes, HIT)
            words = f"{shorten(name, 36)}: {len(shapes)} objects"
            sheet.words(place // across, place % across, words)
    return sheet.finished()
