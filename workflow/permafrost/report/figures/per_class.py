"""Scores of every class with their intervals: what one overall number hides."""

from __future__ import annotations

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    legend_shape,
    plain,
    put_legend,
    put_title,
    shorten,
    stripe_rows,
)
from permafrost.statistics.leaderboard.rows import finite, metric_name
from permafrost.statistics.resampling.carriers import ENOUGH_UNITS

MOST = len(COLOURS)  # backbones in one figure


def draw_per_class(
    rows: list[dict],
    *,
    title: str,
    support: dict[str, str] | None = None,
    order: list[str] | None = None,
    what: str | None = None,
):
    """One line per class, worst at the bottom, and in it one dot per backbone; classes of few units have a star.

    Parameters
    ----------
    rows : score rows of one per-class metric (column ``class`` filled), of one evaluation of each of
        up to `MOST` backbones. The first row's backbone has the first colour and orders the classes.
    support : class -> how much of the test set it makes up, in words (shown beside the name).
    order : classes from top to bottom, instead.
    what : is on the horizontal axis; by default the first row's metric.
    """
    if not rows:
        raise ValueError("no per-class rows to draw")
    backbones = list(dict.fromkeys(row["backbone"] for row in rows))
    classes = order or [
        row["class"] for row in sorted(rows, key=_best_first) if row["backbone"] == backbones[0]
    ]
    few = {row["class"] for row in rows if 0 < (row.get("n_carriers") or 0) < ENOUGH_UNITS}
    font, step = (8.5, 0.22) if len(classes) <= 25 else (7, 0.16)
    step = max(step, 0.1 * len(backbones) + 0.08)
    with drawing() as Figure:
        width, names = PAGE_WIDTH * 0.85, [shorten(name, 30) for name in backbones]
        room = legend_shape(names, width)[1] if len(backbones) > 1 else 0.0
        figure = Figure(figsize=(width, 0.75 + room + len(classes) * step))
        axes = figure.add_subplot()
        apart = 0.74 / len(backbones)
        places = {name: place for place, name in enumerate(classes)}
        for lane, name in enumerate(backbones):
            of_backbone = [row for row in rows if row["backbone"] == name]
            offset = (lane - (len(backbones) - 1) / 2) * apart
            _dots(
                axes,
                of_backbone,
                [places[row["class"]] + offset for row in of_backbone],
                lane,
                font,
            )
        if len(backbones) > 1:
            stripe_rows(axes, len(classes))
            put_legend(axes, names, _handles(len(backbones)))
        axes.set_ylim(len(classes) - 0.4, -0.6)
        axes.set_yticks(
            range(len(classes)),
            [_name(name, support) + "*" * (name in few) for name in classes],
            fontsize=font,
        )
        axes.set_xlim(-0.01, 1.01)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        confidence = f"{100 * rows[0]['confidence']:g} %"
        note = f"   (* in fewer than {ENOUGH_UNITS} test units)" if few else ""
        axes.set_xlabel(
            f"{what or metric_name(rows[0]['metric'])} with {confidence} interval{note}"
        )
        put_title(figure, title)
    return figure


def _best_first(row: dict) -> tuple:
    if not finite(row["value"]):
        return (1, 0.0, row["class"])
    return (0, -row["value"] if row["higher_is_better"] else row["value"], row["class"])


def _dots(axes, rows: list[dict], heights: list[float], lane: int, font: float) -> None:
    """Values of one backbone with their intervals."""
    known = []
    for row, y in zip(rows, heights, strict=True):
        if finite(row["value"]):
            known.append((row, y))
        else:
            axes.annotate("no value", (0.0, y), va="center", color=FAINT, fontsize=font)
    bounded = [(row, y) for row, y in known if finite(row["lower"]) and finite(row["upper"])]
    axes.hlines(
        [y for _, y in bounded],
        [row["lower"] for row, _ in bounded],
        [row["upper"] for row, _ in bounded],
        color=COLOURS[lane],
        lw=2,
        alpha=0.45,
    )
    axes.plot(
        [row["value"] for row, _ in known],
        [y for _, y in known],
        MARKERS[lane],
        ms=4.6,
        color=COLOURS[lane],
    )


def _handles(count: int) -> list:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=COLOURS[i], marker=MARKERS[i], lw=1.6, ms=4.6) for i in range(count)
    ]


def _name(name: str, support: dict[str, str] | None) -> str:
    shown = plain(shorten(name, 30))
    return f"{shown} ({support[name]})" if support and name in support else shown
