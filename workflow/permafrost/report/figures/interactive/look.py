"""Common parts of the interactive figures: style, parameters, and tooltips."""

from __future__ import annotations

from permafrost.report.figures.vega import CONFIG

STEP = 19  # pixels of a row
# Okabe and Ito's blue, lightened to be visible on a dark background too
FRONT, OTHER = "#2585bf", "#8b98a1"

_PARAMETERS = {
    "probe": "",
    "measure": "",  # name of `score`, for an axis
    "higher": False,  # whether a higher score is better
    "how": "",  # how it was computed, for tooltips
}


def specification(**own) -> dict:
    """A complete specification, as wide as its HTML element."""
    return {
        "config": CONFIG,
        "width": "container",
        "params": [{"name": name, "value": value} for name, value in _PARAMETERS.items()],
        "data": {"name": "points"},
        **own,
    }


def score_axis(channel_of: str = "score", **axis) -> dict:
    """A score axis whose better end is at the top or right."""
    return {
        "field": channel_of,
        "type": "quantitative",
        "scale": {"zero": False, "nice": False, "padding": 10, "reverse": {"expr": "!higher"}},
        "axis": {"title": {"signal": "measure"}, **axis},
    }


def said(*parts: str) -> list[dict]:
    """Transforms that write the interval as ``range``, and the joined expressions as ``said``."""
    interval = (
        "isValid(datum.lower) && isValid(datum.upper)"
        " ? ' [' + format(datum.lower, '.3~f') + ', ' + format(datum.upper, '.3~f') + ']' : ''"
    )
    sentence = " + ".join(["datum.backbone + ', ' + datum.probe", *parts, "'. ' + how"])
    return [
        {"calculate": interval, "as": "range"},
        {"calculate": sentence, "as": "said"},
    ]


#: the score with its interval, for `said`
SCORE = "': ' + measure + ' ' + format(datum.score, '.3~f') + datum.range"
#: tooltip and screen-reader text of a mark: its sentence
TELLS = {
    "tooltip": {"field": "said", "type": "nominal"},
    "description": {"field": "said", "type": "nominal"},
}
