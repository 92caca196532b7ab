"""Gain from fine-tuning a backbone, relative to the same head on the frozen one."""

from __future__ import annotations

from permafrost.report.figures import chart
from permafrost.report.notation import interval_of, signed
from permafrost.statistics.leaderboard.rows import finite, metric_name

_SHOWN = {"frozen": "frozen", "fine-tuned": "fine-tuned"}
_WORDS = 140  # pixels for the text of a difference


def draw_tuned(lines: dict[str, dict[str, dict]], *, title: str, metric: str) -> dict:
    """One row per backbone, in input order: dots for frozen and fine-tuned, and the difference.

    Parameters
    ----------
    lines : backbone -> ``frozen``, ``fine-tuned`` and ``gain`` -> row with ``value, lower, upper``.
    """
    if not lines:
        raise ValueError("nothing to draw")
    labels = chart.shortened(lines, 34)
    drawn = [
        chart.measured(own[which], row=backbone, series=which, lane=which, aside=aside)
        for backbone, own in lines.items()
        for which, aside in (("frozen", ""), ("fine-tuned", _words(own["gain"])))
    ]
    view = chart.dots(
        drawn,
        labels,
        chart.number("value", metric_name(metric), padding=8),
        chart.series(_SHOWN),
        lanes=list(_SHOWN),
        step=30,
        width=chart.WIDTH - chart.room(labels) - _WORDS,
    )
    note = "On the right: fine-tuned minus frozen, with the interval of that difference."
    return chart.figure(view, title=title, note=note)


def _words(row: dict) -> str:
    if not finite(row["value"]):
        return ""
    return f"{signed(row['value'])} {interval_of(row, signed)}"
