"""Vega-Lite specifications: the style of all figures, and conversion to JSON and SVG."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from permafrost.core.extras import need
from permafrost.report.figures.style import FAINT, INK

_COUNTED = re.compile(r'<(?:linearGradient|clipPath) id="([^"]+)"')
_PLACES, _LONG = re.compile(r' (?:d|transform)="[^"]*"'), re.compile(r"(\.\d\d)\d+")

# text is measured in Liberation Sans, which vl-convert holds in memory, so positions are the same on
# every machine, and a figure takes a third of the time (a font of the machine is opened for each
# glyph). The next three have the same widths, and the last two are hardly wider.
FONT = "'Liberation Sans', Arial, Arimo, Helvetica, Roboto, 'DejaVu Sans Condensed', sans-serif"
# ``currentColor`` is the page's text colour, on a light or dark background; in a file it is black
CONFIG: dict[str, Any] = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "style": {"guide-label": {"fill": "currentColor"}, "guide-title": {"fill": "currentColor"}},
    "axis": {
        "domainColor": "currentColor",
        "domainOpacity": 0.4,
        "tickColor": "currentColor",
        "tickOpacity": 0.4,
        "gridColor": "currentColor",
        "gridOpacity": 0.12,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "axisY": {"labelLimit": 150},
    "legend": {"labelFontSize": 12, "orient": "top", "title": None},
    "text": {"color": "currentColor", "fontSize": 11},
    "rule": {"aria": False},
    "line": {"aria": False},
}
# for a figure in a file; the page's ``alt`` describes it
FILE = {
    **CONFIG,
    "font": FONT,
    "aria": False,
    "axis": {
        **CONFIG["axis"],
        "labelFontSize": 10.5,
        "titleFontSize": 10.5,
        "labelOverlap": "greedy",
    },
    "axisY": {"labelLimit": 320},
    "legend": {**CONFIG["legend"], "labelFontSize": 10.5, "titleFontSize": 10.5, "labelLimit": 0}
    | {
        "titleFontWeight": "normal",
        "orient": "top",
        "symbolStrokeWidth": 1.6,
        "symbolSize": 50,
        "symbolOpacity": 1,
        "offset": 8,
    },
    "title": {"fontSize": 11, "fontWeight": "normal", "color": INK, "subtitleFontSize": 10}
    | {"subtitleColor": FAINT, "anchor": "start", "offset": 6},
    "concat": {"spacing": 18},
}


def as_json(specification: Mapping) -> str:
    """A specification as text: arrays become lists, and numbers that JSON lacks become null."""
    return json.dumps(_plain(specification))


def as_svg(specification: Mapping) -> str:
    """The SVG of a specification; positions are rounded down to hundredths of a pixel."""
    svg = converter().vegalite_to_svg(as_json(specification))
    # the library numbers element ids across all figures of a process
    for place, name in enumerate(_COUNTED.findall(svg)):
        svg = svg.replace(f'id="{name}"', f'id="own{place}"').replace(f"#{name})", f"#own{place})")
    return _PLACES.sub(lambda attribute: _LONG.sub(r"\1", attribute[0]), svg)


def converter():
    """The module ``vl_convert``; refused if it is missing."""
    need("vl_convert")
    import vl_convert

    return vl_convert


def _plain(value):
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    return [_plain(one) for one in value] if isinstance(value, Iterable) else value
