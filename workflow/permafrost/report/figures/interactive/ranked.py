"""Ranked backbones: a dot with an interval each, and significance letters."""

from __future__ import annotations

from permafrost.report.figures.interactive.look import (
    FRONT,
    OTHER,
    SCORE,
    STEP,
    TELLS,
    said,
    score_axis,
    specification,
)

TITLE = "Ranked backbones"
WORDS = (
    "Dots are scores or mean ranks, bars their intervals. Blue: the first, and those that share a letter with it and do"
    " not differ significantly from it."
)


def draw_ranked() -> dict:
    """A row for each backbone, best at the top."""
    letters = "(datum.letters ? ', letters ' + datum.letters : '')"
    return specification(
        height={"step": STEP},
        padding={"left": 5, "top": 5, "bottom": 5, "right": 50},  # letters
        transform=[
            {"filter": "datum.probe === probe && isValid(datum.score)"},
            *said(SCORE, "', rank ' + datum.rank", letters),
        ],
        encoding={
            "y": {
                "field": "backbone",
                "type": "nominal",
                "sort": {"field": "rank", "op": "min"},
                "axis": {"title": None, "domain": False, "ticks": False},
            },
            "color": {"condition": {"test": "datum.alike", "value": FRONT}, "value": OTHER},
        },
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.55},
                "encoding": {
                    "x": score_axis("lower", orient="top"),
                    "x2": {"field": "upper"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 60},
                "encoding": {"x": score_axis(orient="top"), **TELLS},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "limit": 42, "aria": False},
                "encoding": {
                    "x": {"value": "width"},
                    "text": {"field": "letters"},
                    "color": {"value": "currentColor"},
                },
            },
        ],
    )
