"""What kinds of errors cost how much average precision, a bar per backbone."""

from __future__ import annotations

import numpy as np

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    INK,
    PAGE_WIDTH,
    drawing,
    legend_shape,
    put_legend,
    put_note,
    put_title,
    shorten,
)
from permafrost.statistics.leaderboard.rows import brief_count

MOST = len(COLOURS)  # backbones in one figure
# kinds of `metrics.detection.analysis.tide` in words, in the order of drawing
WORDS = {
    "missed": "missed object",
    "background": "nothing is there",
    "localisation": "right class, badly placed",
    "duplicate": "found once more",
    "category": "well placed, wrong class",
    "both": "badly placed, wrong class",
}


def draw_errors(by_backbone: dict, *, title: str):
    """Average precision that is gained if one kind of error did not occur, with the number of errors.

    Parameters
    ----------
    by_backbone : name -> ``gain`` in AP and ``counts`` by kind of error (`detection_charts`); at most `MOST`.
        Kinds that no backbone made are left out.
    """
    kinds = [
        kind for kind in WORDS if any(errors["counts"][kind] for errors in by_backbone.values())
    ]
    kinds = kinds or ["missed"]
    step = max(0.34, 0.15 * len(by_backbone) + 0.1)
    height = 0.8 / max(len(by_backbone), 1)
    with drawing() as Figure:
        width, names = PAGE_WIDTH * 0.85, [shorten(name, 30) for name in by_backbone]
        room = legend_shape(names, width)[1] if len(by_backbone) > 1 else 0.0
        figure = Figure(figsize=(width, 1.1 + room + step * len(kinds)))
        axes = figure.add_subplot()
        for lane, (name, errors) in enumerate(by_backbone.items()):
            gains = np.asarray([errors["gain"][kind] for kind in kinds], float)
            y = [place - 0.4 + (lane + 0.5) * height for place in range(len(kinds))]
            axes.barh(y, gains, 0.86 * height, color=COLOURS[lane], label=name)
            for place, gain, kind in zip(y, gains, kinds, strict=True):
                axes.annotate(
                    brief_count(errors["counts"][kind]),
                    (max(gain, 0.0), place),
                    xytext=(3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=6.5,
                    color=FAINT,
                )
        axes.axvline(0, color=INK, lw=0.8)
        axes.set_ylim(len(kinds) - 0.4, -0.6)
        axes.set_yticks(range(len(kinds)), [WORDS[kind] for kind in kinds])
        axes.margins(x=0.09)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_xlabel("AP gained without this kind of error")
        if len(by_backbone) > 1:
            put_legend(axes, names)
        put_title(figure, title)
        put_note(figure, "numbers: errors of this kind at an IoU of 0.5, whatever the score")
    return figure
