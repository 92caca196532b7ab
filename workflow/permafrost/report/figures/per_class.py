"""Scores of every class with their intervals: what one overall number hides."""

from __future__ import annotations

from ..rows import finite, metric_name
from .style import COLOURS, FAINT, PAGE_WIDTH, drawing, plain, put_title, shorten


def draw_per_class(rows: list[dict], *, title: str, support: dict[str, int] | None = None):
    """One dot per class, worst at the bottom.

    Parameters
    ----------
    rows : score rows of one evaluation and one per-class metric (column ``class`` filled).
    support : class -> number of test samples (shown beside the name).
    """
    if not rows:
        raise ValueError("no per-class rows to draw")
    rows = sorted(
        rows, key=lambda row: (-(row["value"] if finite(row["value"]) else -1.0), row["class"])
    )
    font = 8.5 if len(rows) <= 25 else 7
    with drawing() as Figure:
        figure = Figure(
            figsize=(PAGE_WIDTH * 0.85, 1.0 + len(rows) * (0.22 if len(rows) <= 25 else 0.16))
        )
        axes = figure.add_subplot()
        for y, row in enumerate(rows):
            if not finite(row["value"]):
                axes.annotate("no value", (0.0, y), va="center", color=FAINT, fontsize=font)
                continue
            if finite(row["lower"]) and finite(row["upper"]):
                axes.plot([row["lower"], row["upper"]], [y, y], color=COLOURS[0], lw=2, alpha=0.45,
                          solid_capstyle="butt")  # fmt: skip
            axes.plot([row["value"]], [y], "o", ms=4.6, color=COLOURS[0])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_yticks(
            range(len(rows)), [_name(row["class"], support) for row in rows], fontsize=font
        )
        axes.set_xlim(-0.01, 1.01)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        confidence = f"{100 * rows[0]['confidence']:g} %"
        axes.set_xlabel(f"{metric_name(rows[0]['metric'])} with {confidence} interval")
        put_title(figure, title)
    return figure


def _name(name: str, support: dict[str, int] | None) -> str:
    shown = plain(shorten(name, 30))
    return f"{shown} ({support[name]})" if support and name in support else shown
