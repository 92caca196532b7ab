"""Precision against recall, a line per backbone."""

from __future__ import annotations

import numpy as np

from permafrost.report.figures.style import (
    COLOURS,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    legend_shape,
    put_legend,
    put_note,
    put_title,
    shorten,
)

MOST = len(COLOURS)  # backbones in one figure


def draw_precision_recall(curves: dict[str, dict[str, list]], *, title: str, note: str):
    """Curves that fall from left to right; the area below one is its average precision.

    Parameters
    ----------
    curves : backbone -> ``recall`` and ``precision``, lists of equal length; at most `MOST`. None is left out.
    note : what counts as found.
    """
    with drawing() as Figure:
        width, names = PAGE_WIDTH * 0.85, [shorten(name, 30) for name in curves]
        figure = Figure(figsize=(width, 3.6 + legend_shape(names, width)[1]))
        axes = figure.add_subplot()
        for number, (name, curve) in enumerate(curves.items()):
            # a marker now and then, not at the same recalls for all
            every = (5 + 3 * number, 20)
            axes.plot(
                curve["recall"],
                np.asarray(curve["precision"], float),
                color=COLOURS[number],
                lw=1.6,
                marker=MARKERS[number],
                ms=4.6,
                mfc="white",
                markevery=every,
                label=name,
            )
        axes.set_xlim(-0.01, 1.01)
        axes.set_ylim(-0.01, 1.03)
        axes.set_aspect("equal")
        axes.grid(axis="both", lw=0.5)
        axes.set_xlabel("recall: share of the objects that are found")
        axes.set_ylabel("precision: share of right detections")
        put_legend(
            axes,
            names,
            handlelength=2,
            title="best first" if len(curves) > 1 else None,
            alignment="left",
        )
        put_title(figure, title)
        put_note(figure, note)
    return figure
