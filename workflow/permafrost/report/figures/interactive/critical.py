"""Critical-difference diagram (Demšar 2006): mean ranks, with bars over groups that Nemenyi's test
does not separate."""

from __future__ import annotations

from permafrost.report.figures.interactive.look import (
    FRONT,
    SCORE,
    STEP,
    TELLS,
    said,
    specification,
)

TITLE = "Critical differences"
WORDS = (
    "Mean ranks over the datasets of the group. A bar joins backbones that Nemenyi's test does not tell apart: their"
    " mean ranks are closer than the critical difference. The test takes datasets as exchangeable and knows nothing"
    " of test items."
)


def draw_critical() -> dict:
    """Leaders from an axis of mean ranks to names left and right; data sets ``leaders`` and ``bars``."""
    row = {"field": "row", "type": "ordinal", "axis": None, "sort": "ascending"}
    # the scale extends beyond the ranks, to leave room for names
    label = "datum.value < 1 || datum.value > length(data('leaders')) ? '' : datum.label"
    axis = {"title": {"signal": "measure"}, "orient": "top", "grid": False, "labelExpr": label}
    x = {
        "field": "score",
        "type": "quantitative",
        "scale": {"zero": False, "nice": False, "padding": 75},
        "axis": axis,
    }
    line = {"type": "rule", "color": "currentColor", "opacity": 0.55}
    leaders = {"data": {"name": "leaders"}, "transform": said(SCORE)}

    def side(left: bool) -> dict:
        name = {"field": "backbone"}
        mark = {"type": "text", "baseline": "bottom", "dy": -2, "limit": 170, "aria": False}
        return {
            "data": {"name": "leaders"},
            "transform": [{"filter": "datum.left" if left else "!datum.left"}],
            "layer": [
                {
                    "mark": line,
                    "encoding": {"x": x, "x2": {"value": 0 if left else "width"}, "y": row},
                },
                {
                    "mark": {**mark, "align": "left" if left else "right"},
                    "encoding": {"x": {"value": 0 if left else "width"}, "y": row, "text": name},
                },
            ],
        }

    return specification(
        height={"step": STEP},
        layer=[
            {
                "data": {"name": "leaders"},
                "mark": line,
                "encoding": {"x": x, "y": row, "y2": {"value": 0}},
            },
            side(True),
            side(False),
            {
                "data": {"name": "bars"},
                "mark": {
                    "type": "rule",
                    "strokeWidth": 5,
                    "strokeCap": "round",
                    "color": FRONT,
                    "aria": True,
                },
                "encoding": {
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                    "y": row,
                    **TELLS,
                },
            },
            {
                **leaders,
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 45, "color": FRONT},
                "encoding": {"x": x, "y": row, **TELLS},
            },
        ],
    )
