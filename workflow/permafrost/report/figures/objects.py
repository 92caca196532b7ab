"""Outlines of objects and detections over a picture, coloured by outcome."""

from __future__ import annotations

import numpy as np
import shapely

from permafrost.data.labels.geometries import MASK
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.masks import rasters_of
from permafrost.report.figures.sheet import Panel

# visible on dark forest, and distinct with any colour vision (Okabe and Ito, 2008)
FOUND, HIT, MISSED, ALARM = "#ffffff", "#56B4E9", "#F0E442", "#D55E00"
CONFUSED, UNCOUNTED = "#CC79A7", "#bdbdbd"
BACK = "#303030"  # background of the legend, so that the white line is visible
_RIM = "#000000"  # separates light lines from sand and rock


def draw_shapes(
    panel: Panel, kind: str, shapes, colour: str, *, dashed: bool = False, width: float = 1.2
) -> None:
    """Outline `shapes` of a kind (see `metrics.objects.overlaps.find_pairs`) in one colour.

    Parameters
    ----------
    dashed : dashed lines, or crosses instead of circles.
    width : of the lines in points; circles and crosses scale with it.
    """
    if not len(shapes):
        return
    if kind == "point":
        _draw_points(panel, shapes, colour, crosses=dashed, width=width)
        return
    from matplotlib.collections import LineCollection

    if kind == MASK:
        lines = [line for raster, corner in _cut(shapes) for line in pixel_edges(raster) + corner]
    else:
        lines = [line for shape in shapes for line in _outlines(kind, shape)]
    look = {"capstyle": "projecting"} if kind == MASK else {}
    panel.add(LineCollection(lines, colors=_RIM, lw=2 * width, alpha=0.4, **look))
    panel.add(LineCollection(lines, colors=colour, lw=width, ls=dashes(dashed), **look))


def dashes(dashed: bool) -> str:
    """The line style of `draw_shapes`."""
    return "--" if dashed else "-"


def legend_line(kind: str, colour: str, label: str, *, dashed: bool = False):
    """A legend handle in the style of `draw_shapes`."""
    from matplotlib.lines import Line2D

    if kind != "point":
        return Line2D([], [], color=colour, lw=2, ls=dashes(dashed), label=label)
    return Line2D(
        [],
        [],
        color=colour,
        lw=0,
        marker="x" if dashed else "o",
        ms=6,
        mew=1.6,
        mfc=colour if dashed else "none",
        label=label,
    )


def on_dark_paper(legend) -> None:
    """Give a legend a dark background, on which all colours are visible."""
    frame = legend.get_frame()
    frame.set(facecolor=BACK, linewidth=0, alpha=1)
    for text in legend.get_texts():
        text.set_color("white")


def _draw_points(panel: Panel, points, colour: str, *, crosses: bool, width: float) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.markers import MarkerStyle
    from matplotlib.transforms import IdentityTransform

    marker = MarkerStyle("x" if crosses else "o")
    path = marker.get_path().transformed(marker.get_transform())
    places = np.asarray(points, np.float64).reshape(-1, 2)
    for tint, line, alpha in ((_RIM, 2 * width, 0.4), (colour, width, 1.0)):
        face = tint if crosses else "none"
        look = {"edgecolors": tint, "facecolors": face, "lw": line, "alpha": alpha}
        look["transform"] = IdentityTransform()  # sizes are in points
        marks = PathCollection([path], [30 * width], offsets=places, **look)
        panel.add(marks, offsets=True)


def _cut(masks: Masks):
    """The pixels and the upper left corner of each mask."""
    return zip(*rasters_of(masks), strict=True)


def pixel_edges(raster: np.ndarray) -> np.ndarray:
    """(S, 2, 2) straight lines, each from x, y to x, y, between pixels (h, w) inside and outside of a mask."""
    framed = np.pad(raster, 1)
    parts = [np.empty((0, 2, 2))]
    for across in (False, True):
        # between each line of pixels and the one before: where lines begin and end
        change = np.diff((framed.T if across else framed).astype(np.int8), axis=0)
        for side in (1, -1):
            ends = np.diff(np.pad(change == side, ((0, 0), (1, 1))).astype(np.int8), axis=1)
            (row, begin), (_, end) = np.nonzero(ends == 1), np.nonzero(ends == -1)
            along = np.stack([begin - 1, end - 1], axis=1)
            level = np.stack([row, row], axis=1)
            parts.append(np.stack([level, along] if across else [along, level], axis=2))
    return np.concatenate(parts).astype(np.float64)


def _outlines(kind: str, shape) -> list[np.ndarray]:
    if kind == "box":
        xmin, ymin, xmax, ymax = shape
        return [np.array([(xmin, ymin), (xmax, ymin), (xmax, ymax), (xmin, ymax), (xmin, ymin)])]
    if kind == "oriented_box":
        return [np.concatenate([shape, shape[:1]])]

    return [shapely.get_coordinates(ring) for ring in shapely.get_parts(shape.boundary)]
