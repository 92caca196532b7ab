"""Loss of average precision by kind of error, a bar per backbone."""

from __future__ import annotations

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS, FAINT
from permafrost.statistics.leaderboard.rows import brief_count

MOST = len(COLOURS)  # backbones in one figure
# kinds of `metrics.detection.analysis.tide` in words, in the order of drawing
WORDS = {
    "missed": "missed object",
    "background": "nothing is there",
    "localisation": "right class, badly placed",
    "duplicate": "found once more",
    "category": "well placed, wrong class",
    "both": "badly placed, wrong class",
}


def draw_errors(by_backbone: dict, *, title: str) -> dict:
    """Average precision gained if one kind of error did not occur, with the number of errors.

    Parameters
    ----------
    by_backbone : name -> ``gain`` in AP and ``counts`` by kind of error (`detection_charts`); at
        most `MOST`. Kinds that no backbone made are skipped.
    """
    kinds = {
        kind: words
        for kind, words in WORDS.items()
        if any(errors["counts"][kind] for errors in by_backbone.values())
    } or {"missed": WORDS["missed"]}
    rows = [
        {
            "row": kind,
            "series": name,
            "value": errors["gain"][kind],
            "end": max(errors["gain"][kind], 0),
        }
        | {"text": brief_count(errors["counts"][kind])}
        for name, errors in by_backbone.items()
        for kind in kinds
    ]
    colours = chart.series(chart.shortened(by_backbone), legend=len(by_backbone) > 1)
    x = chart.number("value", "AP gained without this kind of error", zero=True, padding=24)
    lane = {"field": "series", "type": "nominal", "scale": {"domain": list(by_backbone)}}
    text = {"x": {**x, "field": "end"}, "text": {"field": "text"}, "color": {"value": FAINT}}
    view = {
        "data": {"values": rows},
        "width": chart.NARROW - chart.room(kinds),
        "height": {"step": 34 if len(by_backbone) == 1 else 14, "for": "offset"},
        "encoding": {"y": chart.names("row", kinds, title=None), "yOffset": lane},
        "layer": [
            {"mark": "bar", "encoding": {"x": x, "color": colours["color"]}},
            {"mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 9}, "encoding": text},
        ],
    }
    note = "numbers: errors of this kind at an IoU of 0.5, whatever the score"
    return chart.figure(view, title=title, note=note)
