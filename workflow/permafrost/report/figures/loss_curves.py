"""Relative loss as a function of the severity of a degradation, one line per backbone and a panel per degradation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS

_COLUMNS = 3  # panels side by side
_APART = 0.09  # offset between markers of neighbouring backbones, in severities


def draw_loss_curves(
    panels: Mapping[str, Mapping[str, Sequence[Mapping]]], *, title: str, up: str
) -> dict:
    """Panels with a common scale of losses; severity 0 is the clean image, where the loss is 0.

    Parameters
    ----------
    panels : degradation -> backbone -> points with ``severity, loss, lower, upper``. As many backbones are drawn as
        there are colours.
    up : what was lost, for the axis.
    """
    every = dict.fromkeys(name for curves in panels.values() for name in curves)
    shown = list(every)[: len(COLOURS)]
    x = chart.number("x", "severity", domain=[-0.3, 5.4], axis={"values": list(range(6))})
    y = chart.number("y", up, padding=6, axis={"format": "%"})
    colours = chart.series(chart.shortened(shown, 24))
    views = []
    for degradation, curves in panels.items():
        rows = []
        for place, name in enumerate(shown):
            points = sorted(curves.get(name, ()), key=lambda one: one["severity"])
            moved = _APART * (place - (len(shown) - 1) / 2)
            rows += [{"x": 0, "y": 0, "series": name}] if points else []
            rows += [
                {
                    "x": one["severity"] + moved,
                    "y": one["loss"],
                    # a loss may have no interval
                    **{end: one[end] for end in ("lower", "upper") if math.isfinite(one[end])},
                    "series": name,
                }
                for one in points
            ]
        heading = degradation.replace("_", " ")
        width = chart.WIDTH / _COLUMNS - 50
        views.append(
            chart.lines(
                rows, x, y, colours, width=width, height=150, title=heading, marked="datum.x"
            )
        )
    left_out = len(every) - len(shown)
    note = "Bars: confidence intervals of the loss, paired on the test images."
    note += f" {left_out} more backbones are left out." if left_out else ""
    return chart.figure(
        chart.panels(views, min(_COLUMNS, len(views)), y="shared"), title=title, note=note
    )
