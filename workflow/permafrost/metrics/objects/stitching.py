"""Merge predictions of overlapping windows so that no crown counts twice.

Suppression by IoU alone (DeepForest's) leaves partial crowns: if a window's edge cuts a crown, another
window may contain the whole, and the part may overlap the whole by less than the threshold.
So predictions of two windows are compared within the area that *both* windows cover. If they agree
there, they are one crown. Then

* a part (a prediction that touches an edge of its window inside the image) is dropped if a whole
  prediction of another window agrees with it;
* parts that agree with each other are joined into the box (or polygon) around all of them: this is a
  crown wider than the overlap, which no window contains;
* the remaining predictions pass the usual suppression.

Windows must overlap. If they only touch, two halves of a crown look the same as two crowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import shapely
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permafrost.core.errors import PermafrostError, look_up
from permafrost.data.deepforest.annotations import Annotations, concatenate
from permafrost.data.files.windows import clip_boxes
from permafrost.data.labels.geometries import BOX, MASK, POINT, POLYGON
from permafrost.metrics.objects.masks import clipped, corners_of
from permafrost.metrics.objects.overlaps import (
    DISTANCE,
    IOU_THRESHOLD,
    Pairs,
    areas,
    find_pairs,
    suppress,
)

BORDERS = ("agree", "none")
# a prediction this close to an edge of its window, in pixels, counts as a part
TOUCH = 1.0


@dataclass(frozen=True)
class Stitched:
    """Crowns of whole images.

    Attributes
    ----------
    crowns : the crowns, by image, then by descending score.
    parts_dropped, parts_joined, suppressed : numbers of the other predictions.
    """

    crowns: Annotations
    parts_dropped: int
    parts_joined: int
    suppressed: int

    def sentence(self) -> str:
        """The numbers in a sentence."""
        before = len(self.crowns) + self.parts_dropped + self.parts_joined + self.suppressed
        return (
            f"{before} predictions in windows are {len(self.crowns)} crowns: {self.parts_dropped}"
            f" parts of crowns that another window shows whole, {self.parts_joined} parts joined to"
            f" others, {self.suppressed} suppressed."
        )


def stitch(
    predictions: Annotations,
    windows: np.ndarray,
    sizes: dict[str, tuple[int, int]],
    *,
    threshold: float | None = None,
    border: str = "agree",
    touch: float = TOUCH,
    whole_pixels: bool = False,
    every: dict[str, np.ndarray] | None = None,
) -> Stitched:
    """Merge the predictions of windows.

    Parameters
    ----------
    predictions : in the coordinates of their windows; `image` is the whole image's name.
    windows : (N, 4) ``x, y, width, height`` of the window of each prediction, in pixels.
    sizes : width and height of every image in pixels.
    threshold : IoU above which two predictions are one crown (0.15); for points a distance (5 px).
    border : ``agree``, the rule above, or ``none``: suppression only, as in DeepForest. Edges cannot
        cut points, so both give the same for them.
    touch : distance in pixels within which a prediction touches an edge.
    whole_pixels : truncate coordinates to whole pixels after the shift, as DeepForest does.
    every : (M, 4) all windows of each image, as `windows`, since one without predictions may cover
        the seam of two others. None: all windows have predictions.
    """
    look_up(BORDERS, border, "there is no border rule")
    if len(predictions) and not predictions.has_scores:
        raise PermafrostError("stitching needs scores", where=predictions.where)
    kind = predictions.kind
    if threshold is None:
        threshold = DISTANCE if kind == POINT else IOU_THRESHOLD
    windows = np.asarray(windows, np.float64).reshape(-1, 4)
    placed = replace(
        predictions, shape=_shift(kind, predictions.shape, windows[:, :2], whole_pixels)
    )
    parts, totals = [], np.zeros(3, np.int64)
    for name, rows in zip(placed.images, placed.by_image(placed.images), strict=True):
        if not len(rows):
            continue
        crowns, dropped, joined = placed.take(rows), 0, 0
        if border == "agree" and kind != POINT:
            _check_overlap(_bounds(windows[rows] if every is None else every[name]))
            crowns, dropped, joined = _resolve_borders(
                crowns, windows[rows], sizes[name], threshold, touch
            )
        kept = suppress(kind, crowns.shape, crowns.score, threshold=threshold)
        parts.append(crowns.take(kept))
        totals += dropped, joined, len(crowns) - len(kept)
    return Stitched(concatenate(parts, placed), *totals.tolist())


def _shift(kind: str, shapes, origins: np.ndarray, whole_pixels: bool):
    """Convert window to image coordinates."""
    if kind == POLYGON:
        counts = shapely.get_num_coordinates(shapes)
        corners = shapely.get_coordinates(shapes) + np.repeat(origins, counts, axis=0)
        return shapely.set_coordinates(
            shapes.copy(), np.trunc(corners) if whole_pixels else corners
        )
    moved = shapes + np.tile(origins, shapes.shape[1] // 2)
    return np.trunc(moved) if whole_pixels else moved


def _resolve_borders(crowns: Annotations, windows, size, threshold: float, touch: float):
    """Drop parts that agree with a whole prediction, join parts of one crown; see the module."""
    cut, same = agreements(crowns, windows, size, threshold=threshold, touch=touch)
    explained = np.zeros(len(crowns), bool)
    explained[same.second[cut[same.second] & ~cut[same.first]]] = True
    loose = cut & ~explained
    links = loose[same.first] & loose[same.second]
    group = _components(len(crowns), same.first[links], same.second[links])
    merged, members = _join(crowns, group, ~explained)
    return merged, int(explained.sum()), int((~explained).sum() - members)


def agreements(
    crowns: Annotations, windows: np.ndarray, size, *, threshold: float, touch: float = TOUCH
) -> tuple[np.ndarray, Pairs]:
    """Predictions on one image that an edge may cut, and pairs of two windows that are one crown.

    Parameters
    ----------
    crowns : boxes, polygons or masks, in pixels of the image.
    windows : (N, 4) ``x, y, width, height`` of the window of each, in pixels.
    size : width and height of the image in pixels.
    threshold, touch : see `stitch`.

    Returns
    -------
    cut : (N,) bool.
    same : pairs that agree in the area that both windows cover, each in both orders, and the IoU there.
    """
    bounds = _bounds(windows)
    # the window does not show what extends beyond it
    seen = _clip(crowns.kind, crowns.shape, bounds)
    cut = _touches_inner_edge(crowns, bounds, size, touch)
    return cut, _same_crowns(crowns.kind, seen, bounds, threshold)


def _bounds(windows: np.ndarray) -> np.ndarray:
    """Convert ``x, y, width, height`` to corners."""
    return np.hstack([windows[:, :2], windows[:, :2] + windows[:, 2:]])


def _check_overlap(bounds: np.ndarray) -> None:
    """Refuse windows that touch at an edge that no other window covers."""
    for axis in (0, 1):
        start, end = np.unique(bounds[:, axis::2], axis=0).T
        seams = np.intersect1d(start, end)
        across = (start[:, None] < seams) & (end[:, None] > seams)
        if not across.any(axis=0).all():
            raise PermafrostError(
                "the windows touch without overlapping, so halves of a crown cannot be matched",
                remedy="predict with an overlap, ideally as wide as a large crown, or stitch with the"
                " border rule 'none'",
            )


def _touches_inner_edge(crowns: Annotations, bounds, size, touch: float) -> np.ndarray:
    boxes = _AROUND[crowns.kind](crowns.shape)
    inside = np.hstack([bounds[:, :2] > 0, bounds[:, 2:] < np.asarray(size)])
    touching = np.hstack(
        [boxes[:, :2] <= bounds[:, :2] + touch, boxes[:, 2:] >= bounds[:, 2:] - touch]
    )
    return (inside & touching).any(axis=1)


def _clip(kind: str, shapes, bounds: np.ndarray):
    return _CLIPPED[kind](shapes, bounds)


# by kind: boxes around shapes, and the parts of shapes in boxes
_AROUND = {BOX: np.asarray, POLYGON: shapely.bounds, MASK: corners_of}
_CLIPPED = {
    BOX: clip_boxes,
    POLYGON: lambda shapes, bounds: shapely.intersection(shapes, shapely.box(*bounds.T)),
    MASK: clipped,
}


def _same_crowns(kind: str, seen, bounds: np.ndarray, threshold: float) -> Pairs:
    """Pairs of predictions of different windows that agree in the area that both windows cover."""
    pairs = find_pairs(kind, seen, seen)
    pairs = pairs.take((bounds[pairs.first] != bounds[pairs.second]).any(axis=1))
    # the intersection is in both windows; for the union, each shape is clipped to the other window
    own = areas(kind, _clip(kind, seen[pairs.first], bounds[pairs.second]))
    other = areas(kind, _clip(kind, seen[pairs.second], bounds[pairs.first]))
    agreement = pairs.value / (own + other - pairs.value)
    return replace(pairs, iou=agreement).take(agreement > threshold)


def _components(count: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    links = coo_array((np.ones(len(first), bool), (first, second)), (count, count))
    return connected_components(links, directed=False)[1]


def _join(crowns: Annotations, group: np.ndarray, kept: np.ndarray) -> tuple[Annotations, int]:
    """One crown per group of the kept: the shape around all members, the other fields of the best member."""
    rows = np.flatnonzero(kept)
    order = rows[np.lexsort((-crowns.score[rows], group[rows]))]
    if not len(order):
        return crowns.take(order), 0
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    best = crowns.take(order[starts])
    if crowns.kind == BOX:
        low = np.minimum.reduceat(crowns.shape[order, :2], starts)
        high = np.maximum.reduceat(crowns.shape[order, 2:], starts)
        shape = np.hstack([low, high])
    else:
        shape = np.empty(len(starts), object)
        for place, members in enumerate(np.split(order, starts[1:])):
            shape[place] = shapely.union_all(crowns.shape[members])
    return replace(best, shape=shape), len(starts)
