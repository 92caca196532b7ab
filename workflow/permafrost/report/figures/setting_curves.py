"""Score as a function of a probe setting (neighbours, training samples), one line per backbone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS

_COLUMNS = 2  # panels side by side
_APART = 0.035  # offset between markers of neighbouring backbones, as a share of the axis


@dataclass(frozen=True)
class Point:
    """A score at `x` (> 0) with its interval, and the standard deviation over draws, if any."""

    x: float
    value: float
    lower: float
    upper: float
    spread: float | None = None


def draw_setting_curves(
    panels_of: dict[str, dict[str, list[Point]]],
    *,
    title: str,
    across: str,
    up: str,
    note: str,
    scale: float = 1.0,
) -> dict:
    """Panels with a common scale of scores; with many backbones, only the best are coloured.

    Parameters
    ----------
    panels_of : heading -> backbone -> points.
    across : name of x, on a logarithmic scale; its ticks show `scale` times x.
    up : name of the score; note : meaning of the bars.
    """
    if not panels_of:
        raise ValueError("no curves to draw")
    ordered = sorted(
        {name for curves in panels_of.values() for name in curves},
        key=lambda name: (-_best(panels_of, name), name),
    )
    coloured, others = ordered[: len(COLOURS)], ordered[len(COLOURS) :]
    columns = min(_COLUMNS, len(panels_of))
    y, colours = chart.number("y", up, padding=6), chart.series(chart.shortened(coloured, 24))
    views = []
    for heading, curves in panels_of.items():
        x = _scale(curves, across, scale)
        spread = {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.3},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        }
        rows = _rows(curves, coloured, others)
        width = chart.WIDTH / columns - 50 if columns > 1 else 0.6 * chart.WIDTH
        views.append(chart.lines(rows, x, y, colours, layers=[spread], width=width, title=heading))
    grey = f" Grey: {len(others)} other backbones." if others else ""
    return chart.figure(chart.panels(views, columns, y="shared"), title=title, note=note + grey)


def _wide(curves: dict[str, list[Point]]) -> float:
    """Range of log x."""
    every = [point.x for points in curves.values() for point in points]
    return math.log(max(every) / min(every)) or 1.0


def _scale(curves: dict[str, list[Point]], across: str, scale: float) -> dict:
    ticks = sorted({point.x for points in curves.values() for point in points})
    room = math.exp(0.06 * _wide(curves))
    axis = {"values": ticks, "labelExpr": f"format({scale} * datum.value, '.4~g')"}
    domain = [ticks[0] / room, ticks[-1] * room]
    return chart.number("x", across, type="log", domain=domain, axis=axis)


def _rows(curves: dict[str, list[Point]], coloured: list[str], others: list[str]) -> list[dict]:
    """Pale lines first; points of coloured lines are offset, so that bars do not overlap."""
    rows = [
        {"x": point.x, "y": point.value, "series": name, "pale": True}
        for name in others
        for point in curves.get(name, [])
    ]
    shown = [name for name in coloured if name in curves]
    for place, name in enumerate(shown):
        share = (place - (len(shown) - 1) / 2) / max(1, len(shown) - 1)
        moved = math.exp(_wide(curves) * _APART * share)
        for point in curves[name]:
            row = {"x": point.x * moved, "y": point.value, "series": name}
            row |= {"lower": point.lower, "upper": point.upper}
            if point.spread is not None:
                row |= {"low": point.value - point.spread, "high": point.value + point.spread}
            rows.append(row)
    return rows


def _best(panels_of: dict, name: str) -> float:
    values = [p.value for curves in panels_of.values() for p in curves.get(name, [])]
    return max((value for value in values if math.isfinite(value)), default=-math.inf)
