"""Curves of a detector: precision at every recall, and the share of right detections at every score."""

from __future__ import annotations

import numpy as np

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
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


def draw_calibration(bins, *, title: str):
    """Share of right detections against their mean score, with the line on which the two agree.

    Parameters
    ----------
    bins : by bin ``counts``, ``mean_score``, ``accuracy``, ``low``, ``high`` (`detection_charts`); empty
        bins are left out.
    """
    kept = np.flatnonzero(np.asarray(bins["counts"]) > 0)
    score, share, low, high = (
        np.asarray(bins[name], float)[kept] for name in ("mean_score", "accuracy", "low", "high")
    )
    # rounding may leave a share a little outside of its own interval
    spread = np.maximum([share - low, high - share], 0)
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH * 0.6, 3.6))
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=FAINT, lw=1, ls=(0, (3, 2)), zorder=1)
        axes.errorbar(
            score,
            share,
            spread,
            color=COLOURS[0],
            marker="o",
            ms=4.6,
            lw=1.3,
            ecolor=COLOURS[0] + "77",
            elinewidth=2,
        )
        axes.set_xlim(-0.01, 1.01)
        axes.set_ylim(-0.01, 1.03)
        axes.set_aspect("equal")
        axes.grid(axis="both", lw=0.5)
        axes.set_xlabel("score")
        axes.set_ylabel("share of right detections")
        put_title(figure, title)
        put_note(
            figure,
            f"{sum(bins['counts'])} detections in bins of about equal number; "
            "bars: 95 % intervals by Wilson",
        )
    return figure
