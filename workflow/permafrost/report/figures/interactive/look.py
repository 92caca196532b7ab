"""What the interactive figures share: look, parameters, marks that say how their number was made."""

from __future__ import annotations

from permafrost.report.figures.vega import CONFIG

STEP = 19  # pixels of a row
# Okabe and Ito's blue, lighter by what it takes to be seen on dark paper too
FRONT, OTHER = "#2585bf", "#8b98a1"

_PARAMETERS = {
    "probe": "",
    "measure": "",  # what `score` is, for an axis
    "higher": False,  # whether a higher score is better
    "how": "",  # how it was made, for tooltips
}


def specification(**own) -> dict:
    """A whole specification, as wide as the element that holds it."""
    return {
        "config": CONFIG,
        "width": "container",
        "params": [{"name": name, "value": value} for name, value in _PARAMETERS.items()],
        "data": {"name": "points"},
        **own,
    }


def score_axis(channel_of: str = "score", **axis) -> dict:
    """An axis of scores whose good end is above or to the right."""
    return {
        "field": channel_of,
        "type": "quantitative",
        "scale": {"zero": False, "nice": False, "padding": 10, "reverse": {"expr": "!higher"}},
        "axis": {"title": {"signal": "measure"}, **axis},
    }


def said(*parts: str) -> list[dict]:
    """Transforms that write an interval as ``range`` and, of these expressions, one sentence as ``said``."""
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
#: a mark tells its sentence to the pointer and to screen readers
TELLS = {
    "tooltip": {"field": "said", "type": "nominal"},
    "description": {"field": "said", "type": "nominal"},
}
