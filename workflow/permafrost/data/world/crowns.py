"""Ground truth of a window of an aerial view: the visible crowns and their positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.data.labels.objects import NO_OBJECTS, Objects
from permafrost.data.labels.rle import runs_of_raster, text_of
from permafrost.data.world.aerial import MARGIN, View
from permafrost.data.world.things import CROWNS

#: classes of the objects, in the order of their ids
CLASSES = list(CROWNS)
#: a crown counts if at least this share of it is visible; a smaller share is a region that is not
#: scored …
CLEAR = 0.4
#: … and below this share, or below this number of pixels, no annotator would mark it
TRACE, FEWEST = 0.1, 8


def crowns(
    view: View, top: int, left: int, size: int, *, points: bool, masks: bool = False
) -> Objects:
    """Crowns in a square window: boxes around the visible part of each and, with `masks`, its pixels; or
    crown centres.

    Taller objects and the edge of the window hide parts of a crown. Coordinates are pixels of the
    window. Only points in the window are listed.
    """
    rows, columns = (slice(MARGIN + start, MARGIN + start + size) for start in (top, left))
    seen = view.canvas.top[rows, columns]
    found = []
    box: Sequence[float]
    for value, (count, *box) in _boxes(seen).items():
        number = value - 1
        thing, share = view.things[number], count / view.pixels[number]
        if thing.crown is None or share < TRACE or count < FEWEST:
            continue
        if points:
            y, x = thing.y - MARGIN - top, thing.x - MARGIN - left
            if not (0 <= x < size and 0 <= y < size):
                continue
            box = [x, y, x, y]
        found.append((number, thing.crown, box, share < CLEAR, count))
    if not found:
        return NO_OBJECTS
    numbers, classes, boxes, doubtful, counts = zip(*found, strict=True)
    drawn: dict = {}
    if masks:
        rasters = [text_of(runs_of_raster(seen == number + 1)) for number in numbers]
        drawn = {"masks": rasters, "areas": counts}
    return Objects.of(boxes, classes, numbers=numbers, crowd=doubtful, **drawn)


def _boxes(seen: np.ndarray) -> dict[int, tuple[int, ...]]:
    """``{value: (pixels, x_min, y_min, x_max, y_max)}`` of each value above 0, in ascending order."""
    y, x = np.nonzero(seen)
    values, place = np.unique(seen[y, x], return_inverse=True)
    low = np.full((2, len(values)), seen.shape[0])
    high = np.zeros((2, len(values)), int)
    for axis, along in enumerate((x, y)):
        np.minimum.at(low[axis], place, along)
        np.maximum.at(high[axis], place, along + 1)
    counts = np.bincount(place, minlength=len(values))
    columns = zip(values, counts, *low, *high, strict=True)
    return {int(value): tuple(map(int, rest)) for value, *rest in columns}
