"""How alike backbones see a dataset: a matrix of CKA values."""

from __future__ import annotations

import numpy as np

from permafrost.report.figures.style import (
    FAINT,
    INK,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)
from permafrost.report.notation import number

_VALUES_UP_TO = 25  # more backbones than this leave no room for numbers in the cells


def draw_similarity(values: np.ndarray, names: list[str], *, title: str, note: str = ""):
    """A heat map with the value in every cell.

    Parameters
    ----------
    values : (M, M) symmetric; NaN where undefined (a grey cell with a dash). The diagonal is 1.
    names : M backbones, from top to bottom and left to right.
    """
    from matplotlib.colors import LinearSegmentedColormap

    count = len(names)
    font = 8 if count <= 10 else 6.6 if count <= 16 else 5.4
    labels = [plain(shorten(name, 26)) for name in names]
    with drawing() as Figure:
        side = min(PAGE_WIDTH - 0.7, max(3.2, 2.0 + 0.44 * count))
        figure = Figure(figsize=(side + 0.7, side), layout="compressed")
        axes = figure.add_subplot()
        colours = LinearSegmentedColormap.from_list("alike", ["#ffffff", "#56B4E9", "#00375c"])
        image = axes.imshow(values, cmap=colours.with_extremes(bad="#eeeeee"), vmin=0, vmax=1)
        edges = np.arange(count + 1) - 0.5
        axes.vlines(edges, edges[0], edges[-1], color="#e8e8e8", lw=0.8)
        axes.hlines(edges, edges[0], edges[-1], color="#e8e8e8", lw=0.8)
        if count <= _VALUES_UP_TO:
            _write(axes, values, font)
        axes.set_xticks(range(count), labels, rotation=90, fontsize=font)
        axes.set_yticks(range(count), labels, fontsize=font)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        put_title(figure, title)
        bar = figure.colorbar(image, ax=axes, fraction=0.035, pad=0.02, ticks=[0, 0.5, 1])
        bar.ax.tick_params(labelsize=7.5)
        bar.set_label("debiased linear CKA", color=FAINT)
        bar.outline.set_visible(False)
        if note:
            put_note(figure, note)
    return figure


def _write(axes, values: np.ndarray, font: float) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            axes.text(column, row, "–", ha="center", va="center", fontsize=font, color=FAINT)
        elif row == column:
            axes.text(column, row, "1", ha="center", va="center", fontsize=font, color="white")
        else:
            text = number(value, 2)
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                fontsize=font,
                color="white" if value > 0.45 else INK,
            )
