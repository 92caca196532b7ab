"""Builders of line, dot and bar figures: Vega-Lite specifications from plain rows.

A figure is a `figure` of one view, or of `panels` of views. The builders `dots`, `lines` and
`cells` turn rows into views and document the columns they use; values that are None or not finite
are omitted.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from permafrost.report.figures.style import COLOURS, FAINT, INK, shorten
from permafrost.report.figures.vega import FILE

WIDTH = 640  # total pixels of the panels of a wide figure
NARROW = 480  # pixels of a figure that shares its line on the page
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
#: format of a label with few digits; with an exponent if it has many zeros
SHORT_NUMBER = (
    "datum.value && abs(log(abs(datum.value)) / LN10) > 3.5"
    " ? format(datum.value, '.3~e') : format(datum.value, '.3~g')"
)
_LETTER = 6.8  # pixels per letter of a label
_DASHES = [4, 3]
_NAMED = 30  # longest name in a legend or on an axis, in letters


def figure(view: Mapping, *, title: str, note: str = "", width: float = WIDTH) -> dict:
    """A complete specification: a title and a note above a view; both wrap at `width` pixels."""
    heading = {
        "text": textwrap.wrap(title, int(width / 8)) or "",
        "subtitle": textwrap.wrap(note, int(width / 5.9)),
        "fontSize": 13,
        "fontWeight": "bold",
        "subtitleFontSize": 10.5,
        "offset": 10,
    }
    own = {"config": FILE, "background": "white", "padding": 8, "title": heading}
    return {**own, "vconcat": [view]} if "title" in view else {**own, **view}


def panels(views: Sequence[Mapping], columns: int, **resolve: str) -> dict:
    """Views in a grid of `columns`, with common colours; `resolve` sets other common scales."""
    scales = {"color": "shared", "shape": "shared", **resolve}
    return {"concat": list(views), "columns": columns, "resolve": {"scale": scales}}


# --- channels


def number(field: str, title: str = "", *, axis: Mapping | None = None, **scale) -> dict:
    """A channel of numbers on a scale that may start above 0."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title or None,
        "scale": {"zero": False, "nice": False, **scale},
        "axis": {"tickCount": 6, "grid": True, **(axis or {})},
    }


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high` (both > 0): at least one, and about `most` at most."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [step * 10.0**power for power in powers for step in steps]
        ticks = [tick for tick in ticks if low <= tick * 1.001 and tick <= high * 1.001]
        if len(ticks) > 2:
            break
    return ticks[:: math.ceil(len(ticks) / most)] if ticks else [low]


def names(field: str, texts: Mapping[str, str], **axis) -> dict:
    """A channel of names in the order of `texts`, which maps names to labels."""
    about = {"labelExpr": _written(texts), "labelOverlap": False, "ticks": False}
    about |= {"domain": False, **axis}
    scale = {"domain": list(texts)}
    return {"field": field, "type": "nominal", "title": None, "scale": scale, "axis": about}


def series(labels: Mapping[str, str], *, legend: bool = True, **about) -> dict:
    """Colours and shapes of the column ``series``, for names in the order of `labels`, which maps
    them to texts."""
    widest = max(map(len, labels.values()), default=1)
    columns = max(1, min(3, len(labels), int(WIDTH / (_LETTER * widest + 30))))
    shown = {"columns": columns, "labelExpr": _written(labels), **about} if legend else None
    common = {"field": "series", "type": "nominal", "legend": shown}
    return {
        "color": {**common, "scale": {"domain": list(labels), "range": COLOURS}},
        "shape": {**common, "scale": {"domain": list(labels), "range": SHAPES}},
    }


def shortened(named: Iterable[str], limit: int = _NAMED) -> dict[str, str]:
    """Names mapped to their shortened forms; see `shorten`."""
    return {name: shorten(name, limit) for name in named}


def _written(labels: Mapping[str, str]) -> str:
    """A Vega expression for the label of an axis' or a legend's value."""
    return f"({json.dumps(dict(labels))})[datum.value]"


def _ends(channel: str, of: Mapping) -> dict:
    """The channels of an interval from ``lower`` to ``upper``, instead of a single number."""
    return {channel: {**of, "field": "lower"}, f"{channel}2": {"field": "upper"}}


def measured(score: Mapping, **about) -> dict:
    """The columns of a score, ``value``, ``lower`` and ``upper``, with further ones."""
    return {**{name: score[name] for name in ("value", "lower", "upper")}, **about}


# --- views


def reference(**at: float) -> dict:
    """A dashed line through a view at ``x=`` or ``y=``."""
    ((channel, value),) = at.items()
    other, end = ("y", "height") if channel == "x" else ("x", "width")
    return {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "strokeDash": _DASHES},
        "encoding": {
            channel: {"datum": value, "type": "quantitative"},
            other: {"value": 0},
            f"{other}2": {"value": end},
            "color": {"value": FAINT},
        },
    }


def diagonal(low: float, high: float, x: Mapping, y: Mapping) -> dict:
    """A dashed line on which the channels x and y agree."""
    return {
        "data": {"values": [{"x": low, "y": low}, {"x": high, "y": high}]},
        "mark": {"type": "line", "strokeDash": _DASHES, "strokeWidth": 1},
        "encoding": {"x": x, "y": y, "color": {"value": FAINT}},
    }


def room(labels: Mapping[str, str]) -> float:
    """Pixels that the longest label needs next to an axis."""
    return (
        _LETTER
        * max((len(line) for text in labels.values() for line in text.split("\n")), default=0)
        + 8
    )


def dots(
    rows: Iterable[Mapping],
    labels: Mapping[str, str],
    x: Mapping,
    colours: Mapping,
    *,
    lanes: Sequence = (),
    step: float = 18,
    width: float | None = None,
    size: float = 40,
    beside: bool = False,
    layers: Sequence[Mapping] = (),
    **more,
) -> dict:
    """A dot with an interval for each row of numbers, with names from top to bottom.

    Parameters
    ----------
    rows : with ``row`` (a name), ``lane``, ``series``, and, if known, ``value``, ``lower``,
        ``upper``, ``hollow``; ``said`` is written instead of a missing value, ``aside`` to the
        right of the panel.
    labels : names to labels, in display order.
    x : channel of the values, with the field ``value``; colours : from `series`.
    lanes : values of ``lane``, placed below each other within a row; `step` is the row height in
        pixels.
    beside : whether a panel to the left has the same names.
    layers : drawn first; more : further properties of the view.
    """
    y = {"y": names("row", labels, grid=True, tickBand="extent", labels=not beside)}
    height: dict[str, Any] = {"step": step}
    if len(lanes) > 1:
        offset = {"domain": list(lanes), "paddingOuter": 0.5}
        y["yOffset"] = {"field": "lane", "type": "nominal", "scale": offset}
        height = {"step": step / (len(lanes) + 1), "for": "offset"}
    known = {"filter": "isValid(datum.value)"}
    point = {"type": "point", "filled": True, "opacity": 1}
    text = {"type": "text", "align": "left", "fontSize": 9}
    at = {**y, "x": x, "shape": colours["shape"]}
    return {
        "data": {"values": [{"said": "no value", **row} for row in rows]},
        "width": WIDTH - room(labels) if width is None else width,
        "height": height,
        "encoding": {"color": colours["color"]},
        "layer": [
            *layers,
            {
                "transform": [known],
                "mark": {"type": "rule", "strokeWidth": size / 20, "opacity": 0.55},
                "encoding": {**y, **_ends("x", x)},
            },
            {"transform": [known], "mark": {**point, "size": size}, "encoding": at},
            {
                "transform": [known, {"filter": "datum.hollow"}],
                "mark": {**point, "size": 0.35 * size},
                "encoding": {**at, "color": {"value": "white"}},
            },
            {
                "transform": [{"filter": "!isValid(datum.value)"}],
                "mark": text,
                "encoding": {**y, "x": {"value": 4}, "text": {"field": "said"}},
            },
            {
                "transform": [{"filter": "datum.aside"}],
                "mark": {**text, "fontSize": 11, "dx": 8},
                "encoding": {**y, "x": {"value": "width"}, "text": {"field": "aside"}}
                | {"color": {"value": INK}},
            },
        ],
        **more,
    }


def lines(
    rows: Iterable[Mapping],
    x: Mapping,
    y: Mapping,
    colours: Mapping,
    *,
    width: float = WIDTH / 2 - 60,
    height: float = 190,
    marked: str = "true",
    hollow: bool = False,
    bars: bool = True,
    interpolate: str = "linear",
    layers: Sequence[Mapping] = (),
    **more,
) -> dict:
    """Lines with intervals and points.

    Parameters
    ----------
    rows : with ``series`` and the fields of x and y; ``lower`` and ``upper`` for intervals,
        ``dashed`` for the second line of a series, ``pale`` for a line in the background (it comes
        first).
    colours : from `series`.
    marked : expression that selects rows with a point; `hollow` leaves the points unfilled.
    bars : whether intervals are drawn.
    layers : drawn first; more : further properties of the view.
    """
    pale = {"condition": {"test": "datum.pale", "value": "#d0d0d0"}, **colours["color"]}
    dash = {"condition": {"test": "datum.dashed", "value": _DASHES}, "value": [1, 0]}
    point = {"type": "point", "filled": not hollow, "opacity": 1, "size": 34}
    point |= {"fill": "white", "strokeWidth": 1.6, "size": 50} if hollow else {}
    at = {"x": x, "y": y}
    interval = {
        "mark": {"type": "rule", "strokeWidth": 1.2},
        "encoding": {"x": x, **_ends("y", y)},
    }
    return {
        "data": {"values": list(rows)},
        "width": width,
        "height": height,
        "encoding": {"color": pale},
        "layer": [
            *layers,
            *([interval] if bars else []),
            {
                "mark": {"type": "line", "strokeWidth": 1.4, "interpolate": interpolate},
                "encoding": {
                    **at,
                    "detail": [{"field": "series"}, {"field": "dashed"}],
                    "strokeDash": dash,
                },
            },
            {
                "transform": [{"filter": f"!datum.pale && ({marked})"}],
                "mark": point,
                "encoding": {**at, "shape": colours["shape"]},
            },
        ],
        **more,
    }


def cells(
    rows: Iterable[Mapping],
    x: Mapping,
    y: Mapping,
    scale: Mapping,
    title: str | Sequence[str],
    *,
    width: float,
    height: float,
    written: float = 0,
    empty: str = "#f0f0f0",
    layers: Sequence[Mapping] = (),
    **legend,
) -> dict:
    """A heat map: a cell per row, coloured by ``value``; `empty` is the colour of missing cells.

    Parameters
    ----------
    x, y : channels, with ``x2`` and ``y2`` in the rows if they are numeric.
    scale : of the colours; title : of their legend.
    written : font size of the rows' ``text``, white if ``dark``; 0 writes nothing.
    layers : drawn last.
    """
    legend = {"title": title, "orient": "right", "gradientLength": min(160, height), **legend}
    colour = {"field": "value", "type": "quantitative", "scale": scale, "legend": legend}
    ends = {
        f"{name}2": {"field": f"{name}2"}
        for name, channel in (("x", x), ("y", y))
        if channel["type"] == "quantitative"
    }
    ink = {"condition": {"test": "datum.dark", "value": "white"}, "value": INK}
    text = {
        "mark": {"type": "text", "fontSize": written},
        "encoding": {"text": {"field": "text"}, "color": ink},
    }
    edge = {"stroke": "#e4e4e4", "strokeWidth": 0.5} if written else {}
    shown = {
        "transform": [{"filter": "isValid(datum.value)"}],
        "mark": {"type": "rect", **edge},
        "encoding": {"color": colour, **ends},
    }
    return {
        "data": {"values": list(rows)},
        "width": width,
        "height": height,
        "view": {"fill": empty},
        "encoding": {"x": x, "y": y},
        "layer": [shown, *([text] if written else []), *layers],
    }
