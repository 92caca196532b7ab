"""Where a backbone fails: scores by slice of the test set, and a map of the errors of its images."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from permafrost.report.figures import chart
from permafrost.statistics.leaderboard.rows import metric_name
from permafrost.statistics.slices.sliced import Sliced

_CELLS = 48  # of the map, along its longer side
_NAME = 26  # letters of a slice's name
_HEIGHT = 360


def draw_slices(scores: Mapping[str, Sliced], *, by: str, title: str) -> dict:
    """A dot for each slice and backbone, slices in their natural order.

    Parameters
    ----------
    scores : of each backbone, the best first, on the same slices. Only the first has intervals.
    """
    first = next(iter(scores.values()))
    counts = {one.slice: one.n_test for one in first.slices}
    labels = {
        name: f"{text} ({counts[name]})" for name, text in chart.shortened(counts, _NAME).items()
    }
    rows = [
        {"row": one.slice, "series": backbone, "lane": backbone, "hollow": not one.judged}
        | {"value": one.value, "lower": one.lower, "upper": one.upper}
        for backbone, found in scores.items()
        for one in found.slices
    ]
    rows = [{key: None if value != value else value for key, value in row.items()} for row in rows]
    x = chart.number("value", metric_name(first.metric), padding=8)
    step = max(20, 9 * len(scores) + 9)
    view = chart.dots(
        rows, labels, x, chart.series(chart.shortened(scores, 22)), lanes=[*scores], step=step
    )
    note = (
        f"{100 * first.confidence:g} % intervals over {first.unit}s; number of images in brackets"
    )
    if any(not one.judged for one in first.slices):
        note += f"; hollow: too few {first.unit}s to be judged"
    return chart.figure(view, title=f"{title}, by {by}", note=note)


def draw_error_map(
    lon: np.ndarray, lat: np.ndarray, error: np.ndarray, *, words: str, title: str
) -> dict:
    """Mean error of the test images at each place, in cells, so that none hides another.

    Parameters
    ----------
    lon, lat : (N,) degrees. error : (N,) finite, at least 0.
    words : what the error is, for the legend.
    """
    limits = _limits(lon), _limits(lat)
    (west, east), (south, north) = limits
    # a degree of longitude is shorter away from the equator
    ratio = (east - west) * math.cos(math.radians((south + north) / 2)) / (north - south)
    room = chart.WIDTH - 130
    height = max(90.0, min(_HEIGHT, room / ratio))
    width = max(90.0, min(room, ratio * height))
    bins = [max(1, round(_CELLS * side / max(width, height))) for side in (width, height)]
    count, *edges = np.histogram2d(lon, lat, bins=bins, range=limits)
    total = np.histogram2d(lon, lat, bins=bins, range=limits, weights=error)[0]
    right, up = (each.tolist() for each in edges)
    rows = [
        {"x": right[i], "x2": right[i + 1], "y": up[j], "y2": up[j + 1]}
        | {"value": float(total[i, j] / count[i, j])}
        for i, j in zip(*(places.tolist() for places in np.nonzero(count)), strict=True)
    ]
    x = chart.number("x", "longitude", domain=[west, east])
    ticks = {"tickCount": max(2, int(height / 45))}
    y = chart.number("y", "latitude", domain=[south, north], axis=ticks)
    scale = {"scheme": "viridis", "reverse": True}
    scale["domain"] = [0.0, max(row["value"] for row in rows) or 1.0]
    view = chart.cells(rows, x, y, scale, words, width=width, height=height, empty="white")
    note = f"{len(error)} test images; a cell has the mean error of its images, darker is larger"
    return chart.figure(view, title=title, note=note)


def _limits(degrees: np.ndarray) -> tuple[float, float]:
    low, high = float(degrees.min()), float(degrees.max())
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin
