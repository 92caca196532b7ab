"""Score as a function of the depth of the block whose features are read, one line per backbone."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.report.figures import chart
from permafrost.report.figures.setting_curves import Point
from permafrost.report.figures.style import COLOURS

_APART = 0.008  # offset between markers of neighbouring backbones, in depth
_NOTE = (
    "Bars: confidence intervals of each score; the table has those of the differences. Dashed: the"
    " backbone's own output. Depth 1 is the last block."
)


@dataclass(frozen=True)
class Depths:
    """The score of a backbone's output, and those of its blocks by depth, ascending."""

    output: float
    points: list[Point]


def draw_depth_curves(curves: dict[str, Depths], *, title: str, up: str) -> dict:
    """Lines in the order of `curves`, name to its scores, as many as there are colours.

    `up` is the name of the score.
    """
    shown = dict(list(curves.items())[: len(COLOURS)])
    rows = []
    for place, (name, curve) in enumerate(shown.items()):
        moved = _APART * (place - (len(shown) - 1) / 2)
        rows += [{"x": x, "y": curve.output, "series": name, "dashed": True} for x in (0.0, 1.0)]
        rows += [
            {
                "x": point.x + moved,
                "y": point.value,
                "lower": point.lower,
                "upper": point.upper,
                "series": name,
            }
            for point in curve.points
        ]
    x = chart.number("x", "depth", domain=[-0.02, 1.04])
    y, colours = chart.number("y", up, padding=6), chart.series(chart.shortened(shown, 40))
    view = chart.lines(rows, x, y, colours, marked="!datum.dashed", width=0.7 * chart.WIDTH)
    left_out = len(curves) - len(shown)
    note = f"{_NOTE} {left_out} more lines are left out." if left_out else _NOTE
    return chart.figure(view, title=title, note=note)
