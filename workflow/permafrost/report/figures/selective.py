"""Risk against coverage: the share of errors among the predictions that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS

MOST = len(COLOURS)  # backbones in one figure
_SIDE = 300


def draw_risk_coverage(
    curves: Mapping[str, tuple[Mapping[str, np.ndarray], str]], *, title: str, counted: str
) -> dict:
    """A line per backbone; its mean height is AURC.

    Parameters
    ----------
    curves : name -> columns of `metrics.calibration.risk_coverage`, and the label in the legend; at most `MOST`.
    counted : what is kept, in words.
    """
    if not curves:
        raise ValueError("no curves to draw")
    rows = [
        # some markers, at different coverages per curve
        {"x": kept, "y": risk, "series": name, "marked": place % 40 == 39 - 4 * lane}
        for lane, (name, (curve, _)) in enumerate(curves.items())
        for place, (kept, risk) in enumerate(
            zip(curve["coverage"].tolist(), curve["risk"].tolist(), strict=True)
        )
    ]
    x = chart.number("x", f"coverage: share of the {counted} that are kept", domain=[0, 1])
    y = chart.number("y", "risk: share of errors among them", zero=True, nice=True)
    labels = chart.shortened({name: None for name in curves})
    labels = {name: f"{labels[name]}{words}" for name, (_, words) in curves.items()}
    best: dict[str, Any] = {"title": "best first"} if len(curves) > 1 else {}
    look: dict[str, Any] = {
        "width": _SIDE,
        "height": _SIDE,
        "marked": "datum.marked",
        "hollow": True,
        "bars": False,
    }
    view = chart.lines(rows, x, y, chart.series(labels, orient="right", columns=1, **best), **look)
    note = "The predictions with the smallest probability are dropped first."
    return chart.figure(view, title=title, note=note)
