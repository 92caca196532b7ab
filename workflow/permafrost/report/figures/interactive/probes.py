"""Probes against each other: do backbones rank the same under different probes?"""

from __future__ import annotations

from permafrost.report.figures.chart import SHAPES
from permafrost.report.figures.interactive.look import TELLS, specification
from permafrost.report.figures.style import COLOURS

TITLE = "Probes against each other"
WORDS = (
    "The place of each backbone by the chosen probe and by every other one; on the line both give it the same place."
    " Kendall's τ is 1 where two probes rank alike, 0 where they have nothing in common."
)


def draw_probes(probes: list[str]) -> dict:
    """Ranks by the chosen probe to the right, by the others upwards; the data set ``agreement`` has
    τ for each pair."""
    others = {
        "field": "label",
        "type": "nominal",
        "scale": {"range": list(COLOURS)},
        "legend": {"columns": {"expr": "width < 400 ? 1 : 3"}},
    }
    rank = {
        "type": "quantitative",
        "scale": {"zero": False, "reverse": True, "nice": False, "padding": 10},
    }
    # between whole ranks there is nothing to mark
    is_whole = {"condition": {"test": "datum.value % 1 === 0", "value": 1}, "value": 0}
    whole = {
        "labelOpacity": is_whole,
        "gridOpacity": is_whole,
        "tickOpacity": is_whole,
        "format": "d",
    }
    x = {"field": "own", **rank, "axis": {"title": {"signal": "'rank with ' + probe"}, **whole}}
    y = {"field": "rank", **rank, "axis": {"title": "rank with the other probe", **whole}}
    return specification(
        height=340,
        transform=[
            {"filter": "isValid(datum.rank)"},
            # a sum over nothing is 0, which is not a rank
            {"pivot": "probe", "value": "rank", "groupby": ["backbone"]},
            {"calculate": "datum[probe]", "as": "own"},
            {"fold": probes, "as": ["other", "rank"]},
            {"filter": "datum.other !== probe && datum.own > 0 && datum.rank > 0"},
            {
                "lookup": "other",
                "from": {"data": {"name": "agreement"}, "key": "other", "fields": ["label"]},
            },
            {
                "calculate": "datum.backbone + ': place ' + datum.own + ' with ' + probe + ', ' + datum.rank"
                " + ' with ' + datum.other + ', of ' + measure",
                "as": "said",
            },
        ],
        layer=[
            {
                "mark": {"type": "line", "color": "currentColor", "opacity": 0.3},
                "encoding": {"x": x, "y": {**y, "field": "own"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 0.85, "size": 70},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": others,
                    "shape": {**others, "scale": {"range": list(SHAPES)}},
                    **TELLS,
                },
            },
        ],
    )
