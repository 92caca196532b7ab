"""Curves of a detector: precision against recall, and correct detections against the score."""

from __future__ import annotations

from typing import Any

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS
from permafrost.statistics.leaderboard.rows import finite

MOST = len(COLOURS)  # backbones in one figure
_SIDE = 300


def draw_precision_recall(
    curves: dict[str, dict[str, list]], *, title: str, note: str, order: str = "best first"
) -> dict:
    """Precision-recall curves; the area below one is its average precision.

    Parameters
    ----------
    curves : backbone -> ``recall`` and ``precision``, lists of equal length; at most `MOST`. None
        is skipped.
    note : definition of a match; order : of the curves, a heading of the legend.
    """
    rows = [
        # some markers, at different recalls per curve
        {"x": recall, "y": precision, "series": name, "marked": place % 20 == 5 + 3 * lane}
        for lane, (name, curve) in enumerate(curves.items())
        for place, (recall, precision) in enumerate(
            zip(curve["recall"], curve["precision"], strict=True)
        )
        if finite(precision)
    ]
    x = chart.number("x", "recall: share of the objects that are found", domain=[0, 1])
    y = chart.number("y", "precision: share of right detections", domain=[0, 1])
    best: dict[str, Any] = {"title": order or None} if len(curves) > 1 else {}
    look: dict[str, Any] = {
        "width": _SIDE,
        "height": _SIDE,
        "marked": "datum.marked",
        "hollow": True,
    }
    view = chart.lines(
        rows, x, y, chart.series(chart.shortened(curves), orient="right", columns=1, **best), **look
    )
    return chart.figure(view, title=title, note=note)


def draw_calibration(bins, *, title: str) -> dict:
    """Share of correct detections against their mean score, with the line of perfect calibration.

    Parameters
    ----------
    bins : per bin ``counts``, ``mean_score``, ``accuracy``, ``low``, ``high`` (`detection_charts`);
        empty bins are skipped.
    """
    columns = ("counts", "mean_score", "accuracy", "low", "high")
    rows = [
        {"x": score, "y": share, "lower": low, "upper": high, "series": ""}
        for count, score, share, low, high in zip(*(bins[name] for name in columns), strict=True)
        if count > 0
    ]
    x, y = (
        chart.number("x", "score", domain=[0, 1]),
        chart.number("y", "share of right detections", domain=[0, 1]),
    )
    colours = chart.series({"": ""}, legend=False)
    view = chart.lines(
        rows, x, y, colours, width=_SIDE, height=_SIDE, layers=[chart.diagonal(0, 1, x, y)]
    )
    note = f"{sum(bins['counts'])} detections in bins of about equal number; bars: 95 % intervals by Wilson"
    return chart.figure(view, title=title, note=note, width=0.6 * chart.WIDTH)
