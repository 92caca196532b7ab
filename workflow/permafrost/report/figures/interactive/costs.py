"""Score against cost, and the Pareto front: backbones that no other one dominates."""

from __future__ import annotations

from permafrost.report.figures.interactive.look import (
    FRONT,
    OTHER,
    SCORE,
    TELLS,
    said,
    score_axis,
    specification,
)

COSTS = {
    "ms": ("Score against time", "ms per image, median over datasets", "' ms per image'"),
    "parameters": ("Score against size", "parameters of what is run", "' parameters'"),
}
WORDS = (
    "Better is higher, cheaper is further left. Blue: on the Pareto front, no other backbone costs no more"
    " and scores no worse. A cost of 0 is at the left edge. The intervals show whether a step of the front"
    " may be chance."
)

# on the front: no backbone of at most this cost scores better, and no cheaper one scores as well
_FRONT = [
    {"calculate": "higher ? datum.score : -datum.score", "as": "goodness"},
    {
        "window": [{"op": "max", "field": "goodness", "as": "reached"}],
        "sort": [{"field": "cost"}],
        "frame": [None, 0],
        "ignorePeers": False,
    },
    {
        "joinaggregate": [{"op": "min", "field": "cost", "as": "cheapest"}],
        "groupby": ["goodness"],
    },
    {
        "calculate": "datum.goodness >= datum.reached && datum.cost <= datum.cheapest",
        "as": "front",
    },
]
# a cost of 0 has no logarithm: draw it left of all others
_EDGE = [
    {"calculate": "datum.cost > 0 ? datum.cost : null", "as": "positive"},
    {"joinaggregate": [{"op": "min", "field": "positive", "as": "least"}]},
    {"calculate": "datum.cost > 0 ? datum.cost : (datum.least || 1) / 4", "as": "place"},
]
# names on the front that would overlap the previous one are only in the tooltip
_NAMED = [
    {
        "joinaggregate": [
            {"op": op, "field": field, "as": f"{op}_{field}"}
            for field in ("place", "score")
            for op in ("min", "max")
        ]
    },
    {"filter": "datum.front"},
    {
        "window": [
            {"op": "lag", "field": "place", "as": "place_before"},
            {"op": "lag", "field": "score", "as": "score_before"},
        ],
        "sort": [{"field": "place"}],
    },
    {
        "filter": "!isValid(datum.place_before)"
        " || log(datum.place / datum.place_before) > 0.3 * log(datum.max_place / datum.min_place)"
        " || abs(datum.score - datum.score_before) > 0.05 * (datum.max_score - datum.min_score)"
    },
]
# names grow away from the axes
_INWARDS = "log(datum.place / datum.min_place) <= 0.5 * log(datum.max_place / datum.min_place) ? 'left' : 'right'"


def draw_costs(cost: str) -> dict:
    """Points of one probe against a cost on a logarithmic axis; unknown costs are skipped, a cost
    of 0 is at the edge."""
    _, title, unit = COSTS[cost]
    on_front = "(datum.front ? ', on the Pareto front' : '')"
    x = {
        "field": "place",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "axis": {"title": title, "format": "~s", "labelOverlap": True, "grid": False},
    }
    colour = {"condition": {"test": "datum.front", "value": FRONT}, "value": OTHER}
    return specification(
        height=320,
        transform=[
            {
                "filter": f"datum.probe === probe && isValid(datum.score) && isValid(datum['{cost}'])"
            },
            {"calculate": f"datum['{cost}']", "as": "cost"},
            *_FRONT,
            *_EDGE,
            *said(SCORE, "', '", "format(datum.cost, '.3~s')", unit, on_front),
        ],
        encoding={"x": x},
        layer=[
            {
                "transform": [{"filter": "datum.front"}],
                "mark": {
                    "type": "line",
                    "interpolate": "step-after",
                    "color": FRONT,
                    "opacity": 0.5,
                },
                "encoding": {"y": score_axis()},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.3},
                "encoding": {
                    "y": score_axis("lower"),
                    "y2": {"field": "upper"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 70},
                "encoding": {"y": score_axis(), "color": colour, **TELLS},
            },
            {
                "transform": _NAMED,
                "mark": {
                    "type": "text",
                    "dy": -9,
                    "limit": 150,
                    "aria": False,
                    "align": {"expr": _INWARDS},
                },  # fmt: skip
                "encoding": {"y": score_axis(), "text": {"field": "backbone"}},
            },
        ],
    )
