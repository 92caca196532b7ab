"""Whether a probability of 0.8 means right eight times in ten: reliability diagrams with counts."""

from __future__ import annotations

import math

import numpy as np

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    INK,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)

MOST = 12  # panels in one figure
_ACROSS = 4


def draw_reliability(
    diagrams: dict[str, dict], *, title: str, said: str, right: str, counted: str, note: str = ""
):
    """A panel per backbone: share of hits against mean confidence, and below it the counts of bins.

    Parameters
    ----------
    diagrams : name -> columns of `metrics.calibration.reliability`, and ``words`` below the name; at
        most `MOST`.
    said, right, counted : what is on the axes.
    """
    if not diagrams:
        raise ValueError("no diagrams to draw")
    across = min(_ACROSS, len(diagrams))
    down = math.ceil(len(diagrams) / across)
    with drawing() as Figure:
        # panels keep their size, so that one backbone is not drawn as large as four
        figure = Figure(
            figsize=(0.6 + (PAGE_WIDTH - 0.2) / _ACROSS * max(across, 2), 0.8 + 2.55 * down)
        )
        grid = figure.subplots(
            2 * down,
            across,
            squeeze=False,
            sharex=True,
            sharey="row",
            gridspec_kw={"height_ratios": [3, 1] * down},
        )
        for number, (name, diagram) in enumerate(diagrams.items()):
            row, column = divmod(number, across)
            upper, lower = grid[2 * row, column], grid[2 * row + 1, column]
            _shares(upper, diagram)
            _counts(lower, diagram)
            upper.set_title(f"{plain(shorten(name, 24))}", fontsize=7.5, pad=12)
            upper.annotate(
                plain(diagram["words"]),
                (0, 1),
                xytext=(0, 3),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=6.8,
                color=FAINT,
            )
        for axes in grid.flat:
            axes.tick_params(labelsize=7)
        for number in range(len(diagrams), down * across):
            row, column = divmod(number, across)
            grid[2 * row, column].set_visible(False)
            grid[2 * row + 1, column].set_visible(False)
            grid[2 * row - 1, column].tick_params(labelbottom=True)
        for row in range(down):
            grid[2 * row, 0].set_ylabel(right, fontsize=7.5)
            grid[2 * row + 1, 0].set_ylabel(counted, fontsize=7.5)
        put_title(figure, title)
        put_note(figure, f"Across: {said}.{' ' if note else ''}{note}")
    return figure


def _shares(axes, diagram: dict) -> None:
    kept = np.flatnonzero(diagram["count"] > 0)
    trust, share = diagram["confidence"][kept], diagram["accuracy"][kept]
    axes.plot([0, 1], [0, 1], color=FAINT, lw=0.9, ls=(0, (3, 2)), zorder=1)
    axes.vlines(
        trust,
        np.minimum(trust, share),
        np.maximum(trust, share),
        color=COLOURS[1],
        lw=2.2,
        alpha=0.55,
        zorder=2,
    )
    axes.plot(trust, share, color=COLOURS[0], marker="o", ms=3.2, lw=1, zorder=3)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.04)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.grid(axis="both", lw=0.5)


def _counts(axes, diagram: dict) -> None:
    # the last bin, of exactly 1, has no width of its own: it is drawn beyond the others
    widths = np.maximum(diagram["upper"] - diagram["lower"], 0.02)
    axes.bar(
        diagram["lower"],
        np.maximum(diagram["count"], 0),
        widths,
        align="edge",
        color=INK,
        alpha=0.45,
        lw=0,
    )
    axes.set_yscale("symlog", linthresh=1)
    most = int(diagram["count"].max())
    axes.set_yticks([0, 10 ** int(math.log10(max(most, 1)))])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.grid(axis="y", lw=0.5)
