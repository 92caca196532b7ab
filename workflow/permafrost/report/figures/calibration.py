"""Whether a score of 0.8 means that eight in ten detections are right."""

from __future__ import annotations

import numpy as np

from permafrost.report.figures.style import COLOURS, FAINT, PAGE_WIDTH, drawing, put_note, put_title


def draw_calibration(found, *, title: str):
    """Share of right detections against their mean score, with the line on which the two agree.

    Parameters
    ----------
    found : by bin ``counts``, ``mean_score``, ``accuracy``, ``low``, ``high`` (`detection_charts`); empty
        bins are left out.
    """
    kept = np.flatnonzero(np.asarray(found["counts"]) > 0)
    score, share, low, high = (
        np.asarray(found[name], float)[kept] for name in ("mean_score", "accuracy", "low", "high")
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
            f"{sum(found['counts'])} detections in bins of about equal number; "
            "bars: 95 % intervals by Wilson",
        )
    return figure
