"""Scores of every class with their intervals."""

from __future__ import annotations

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS, shorten
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
) -> dict:
    """One line per class, worst at the bottom, a dot per backbone; a star marks few units.

    Parameters
    ----------
    rows : score rows of one per-class metric (column ``class`` filled), of one evaluation of each
        of up to `MOST` backbones. The first row's backbone has the first colour and orders the
        classes.
    support : class -> its share of the test set, in words (shown next to the name).
    order : classes from top to bottom; by default by score.
    what : title of the horizontal axis; by default the first row's metric.
    """
    if not rows:
        raise ValueError("no per-class rows to draw")
    backbones = list(dict.fromkeys(row["backbone"] for row in rows))
    classes = order or [
        row["class"] for row in sorted(rows, key=_best_first) if row["backbone"] == backbones[0]
    ]
    few = {row["class"] for row in rows if 0 < (row.get("n_carriers") or 0) < ENOUGH_UNITS}
    labels = {name: _name(name, support) + "*" * (name in few) for name in classes}
    drawn = [
        chart.measured(row, row=row["class"], series=row["backbone"], lane=row["backbone"])
        for row in rows
    ]
    said = (
        f"{what or metric_name(rows[0]['metric'])} with {100 * rows[0]['confidence']:g} % interval"
    )
    note = f"   (* in fewer than {ENOUGH_UNITS} test units)" if few else ""
    view = chart.dots(
        drawn,
        labels,
        chart.number("value", said + note, domain=[0, 1]),
        chart.series(chart.shortened(backbones), legend=len(backbones) > 1),
        lanes=backbones,
        width=chart.NARROW - chart.room(labels),
        step=max(18 if len(classes) <= 25 else 14, 9 * (len(backbones) + 1)),
    )
    return chart.figure(view, title=title)


def _best_first(row: dict) -> tuple:
    if not finite(row["value"]):
        return (1, 0.0, row["class"])
    return (0, -row["value"] if row["higher_is_better"] else row["value"], row["class"])


def _name(name: str, support: dict[str, str] | None) -> str:
    shown = shorten(name, 30)
    return f"{shown} ({support[name]})" if support and name in support else shown
