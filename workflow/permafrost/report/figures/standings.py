"""Backbones by mean rank over datasets, with intervals and sets of ranks."""

from __future__ import annotations

from permafrost.report.figures import chart
from permafrost.statistics.across_datasets.letters import ranks_text


def draw_standings(ranked: list[dict], *, title: str, note: str) -> dict:
    """Mean ranks with intervals, the best backbone at the top; next to a dot the ranks that it may have.

    Parameters
    ----------
    ranked : rows of the standings with a rank, in its order.
    """
    dots = [
        chart.measured(row, row=row["backbone"], lane="", series="", hollow=False)
        | ({"aside": ranks_text(row["rank_low"], row["rank_high"])} if row["rank_low"] else {})
        for row in ranked
    ]
    labels = chart.shortened([row["backbone"] for row in ranked], 60)
    x = chart.number("value", "mean rank", domain=[1, max(2, len(ranked))], reverse=True)
    colours = chart.series({"": ""}, legend=False)
    view = chart.dots(dots, labels, x, colours, step=16, width=380)
    return chart.figure(view, title=title, note=note)
