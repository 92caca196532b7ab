"""Validation score as a function of a tried setting, with the chosen value marked."""

from __future__ import annotations

import math
from typing import Any

from permafrost.report import notation
from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS, INK, shorten

_TOGETHER = len(COLOURS)  # with more backbones than colours, draw a heat map with a row each
_STEP = 14  # pixels of such a row
_FEW = 6  # up to this many values, label each on the axis


def draw_c_curve(
    curves: dict[str, dict],
    *,
    dataset: str,
    probe: str,
    score: str = "accuracy",
    setting: str = "C",
    meaning: str = "C (inverse regularisation strength, log scale)",
    lower_is_better: bool = False,
) -> dict:
    """One curve per backbone; with more backbones than colours, one row of a heat map each.

    Parameters
    ----------
    curves : backbone -> {"c": list of C (> 0), "score": validation score per C, "best": chosen C}.
    score : the validation score, for the axis.
    setting, meaning : the setting, if not C: short, and for the axis.
    """
    if not curves:
        raise ValueError("no curves to draw")
    sign = -1 if lower_is_better else 1
    ordered = sorted(curves, key=lambda name: (-_top(curves[name], sign), name))
    draw = _together if len(ordered) <= _TOGETHER else _behind
    view, note = draw(
        {name: curves[name] for name in ordered}, setting, meaning, f"validation {score}", sign
    )
    return chart.figure(view, title=f"{dataset}: {probe}", note=note)


def _top(curve: dict, sign: int) -> float:
    scores = (sign * value for value in curve["score"] if math.isfinite(value))
    return max(scores, default=-math.inf)


def _together(curves: dict, setting: str, meaning: str, score: str, _sign: int) -> tuple[dict, str]:
    rows = []
    for name, curve in curves.items():
        chosen, last = _nearest(curve["c"], curve["best"]), len(curve["c"]) - 1
        rows += [
            {"x": x, "y": y, "series": name, "chosen": place == chosen, "edge": chosen in (0, last)}
            for place, (x, y) in enumerate(zip(curve["c"], curve["score"], strict=True))
        ]
    tried = sorted({row["x"] for row in rows})
    ticks = tried if len(tried) <= _FEW else chart.log_ticks(tried[0], tried[-1])
    x = chart.number(
        "x", meaning, type="log", axis={"labelExpr": chart.SHORT_NUMBER, "values": ticks}
    )
    y = chart.number("y", score, padding=8)
    edge = {
        "transform": [{"filter": "datum.chosen && datum.edge"}],
        "mark": {"type": "text", "dy": -11, "fontSize": 10},
        "encoding": {"x": x, "y": y, "text": {"value": "edge"}, "color": {"value": INK}},
    }
    labels = {name: f"{_label(name, curve)}" for name, curve in curves.items()}
    colours = chart.series(labels, title=f"chosen {setting}", orient="right", columns=1, offset=24)
    look: dict[str, Any] = {
        "marked": "datum.chosen",
        "hollow": True,
        "width": chart.WIDTH - chart.room(labels) - 80,
    }
    return chart.lines(rows, x, y, colours, layers=[edge], height=240, **look), ""


def _behind(curves: dict, setting: str, meaning: str, score: str, sign: int) -> tuple[dict, str]:
    """A heat map row per backbone: loss of each value of the setting against the best one."""
    tried = sorted({value for curve in curves.values() for value in curve["c"]})
    rows, behind = [], []
    for name, curve in curves.items():
        best, chosen = _top(curve, sign), tried[_nearest(tried, curve["best"])]
        for value, metric in zip(curve["c"], curve["score"], strict=True):
            far = best - sign * metric
            behind += [far] if math.isfinite(far) else []
            rows.append({"x": value, "row": name, "value": far, "chosen": value == chosen})
    # a setting that fails completely must not hide the differences between the others
    most = sorted(behind)[int(0.9 * (len(behind) - 1))] if behind else 0.0
    labels = {
        name: f"{_label(name, curve, 24)} ({notation.number(sign * _top(curve, sign))})"
        for name, curve in curves.items()
    }
    marks = tried[:: max(1, len(tried) // 8)]
    axis = {"labelExpr": chart.SHORT_NUMBER, "labelAngle": 0, "values": marks, "ticks": False}
    x = {"field": "x", "type": "ordinal", "title": meaning, "axis": axis}
    y = chart.names("row", labels, labelFontSize=10)
    dot = {
        "transform": [{"filter": "datum.chosen"}],
        "mark": {
            "type": "point",
            "filled": True,
            "fill": "white",
            "stroke": INK,
            "opacity": 1,
            "size": 20,
        },
    }
    view = chart.cells(
        rows,
        x,
        y,
        {"scheme": "viridis", "reverse": True, "domain": [0, most or 1.0], "clamp": True},
        [score, "behind the", "best of the line"],
        # whole pixels make a smaller file
        width=max(4, int((chart.WIDTH - chart.room(labels) - 60) / len(tried))) * len(tried),
        height=_STEP * len(curves),
        layers=[dot],
    )
    return (
        view,
        f"behind each name the chosen {setting} and its best {score}; the dot marks the choice",
    )


def _label(name: str, curve: dict, limit: int = 26) -> str:
    return f"{shorten(name, limit)}: {_short(curve['best'])}"


def _nearest(tried: list[float], chosen: float) -> int:
    """Index of the chosen value, compared on the log scale, because JSON may have rounded it."""
    return min(range(len(tried)), key=lambda place: abs(math.log(tried[place] / chosen)))


def _short(value: float) -> str:
    """Three significant digits, without an exponent from 1e-3 to 1e5."""
    return f"{value:.0f}" if 1000 <= value < 1e5 else f"{value:.3g}"
