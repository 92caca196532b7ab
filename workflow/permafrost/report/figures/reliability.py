"""Reliability diagrams: accuracy against confidence, with counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS, FAINT, shorten

MOST = 12  # panels in one figure
_ACROSS = 4
_SIDE = chart.WIDTH / _ACROSS - 36
_WHOLE: dict[str, Any] = {"domain": [0, 1], "axis": {"values": [0, 0.5, 1]}}


def draw_reliability(
    diagrams: dict[str, dict], *, title: str, said: str, right: str, counted: str, note: str = ""
) -> dict:
    """A panel per backbone: share of hits against mean confidence, with the counts per bin below.

    Parameters
    ----------
    diagrams : name -> columns of `metrics.calibration.reliability`, and ``words`` below the name;
        at most `MOST`.
    said, right, counted : axis titles.
    """
    if not diagrams:
        raise ValueError("no diagrams to draw")
    most = max(int(diagram["count"].max()) for diagram in diagrams.values())
    views = [
        {
            "title": {"text": shorten(name, 24), "subtitle": diagram["words"]},
            "vconcat": [
                _shares(diagram, "" if place % _ACROSS else right),
                _counts(diagram, "" if place % _ACROSS else counted, most),
            ],
            "spacing": 8,
        }
        for place, (name, diagram) in enumerate(diagrams.items())
    ]
    note = f"Across: {said}.{' ' if note else ''}{note}"
    width = max(2, min(_ACROSS, len(views))) * chart.WIDTH / _ACROSS
    return chart.figure(chart.panels(views, _ACROSS), title=title, note=note, width=width)


def _shares(diagram: dict, right: str) -> dict:
    """The share of hits in each non-empty bin, and its distance from the diagonal."""
    kept = np.flatnonzero(diagram["count"] > 0)
    rows = [
        {
            "x": trust,
            "y": share,
            "lower": min(trust, share),
            "upper": max(trust, share),
            "series": "",
        }
        for trust, share in zip(
            *(diagram[name][kept].tolist() for name in ("confidence", "accuracy")), strict=True
        )
    ]
    x, y = chart.number("x", **_WHOLE), chart.number("y", right, **_WHOLE)
    gap = {
        "mark": {"type": "rule", "strokeWidth": 2.5, "opacity": 0.55},
        "encoding": {"x": x, "y": {**y, "field": "lower"}, "y2": {"field": "upper"}}
        | {"color": {"value": COLOURS[1]}},
    }
    look: dict[str, Any] = {
        "width": _SIDE,
        "height": _SIDE,
        "bars": False,
        "layers": [chart.diagonal(0, 1, x, y), gap],
    }
    return chart.lines(rows, x, y, chart.series({"": ""}, legend=False), **look)


def _counts(diagram: dict, counted: str, most: int) -> dict:
    # the last bin, for exactly 1, has no width: draw it beyond the others
    ends = zip(*(diagram[name].tolist() for name in ("lower", "upper", "count")), strict=True)
    rows = [{"x": low, "x2": max(high, low + 0.02), "y": n, "from": 0} for low, high, n in ends]
    top = 10 ** int(np.log10(max(most, 1)))
    axis = {"values": [0, top], "format": "d"}
    y = chart.number("y", counted, axis=axis, type="symlog", constant=1, domain=[0, most])
    return {
        "data": {"values": rows},
        "mark": {"type": "rect", "color": FAINT, "opacity": 0.6},
        "encoding": {
            "x": chart.number("x", domain=[0, 1.02], axis={"values": [0, 0.5, 1]}),
            "x2": {"field": "x2"},
        }
        | {"y": y, "y2": {"field": "from"}},
        "width": _SIDE,
        "height": 44,
    }
