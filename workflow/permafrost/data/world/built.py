"""Ground truth of a window of an aerial view: the buildings and vehicles as oriented boxes."""

from __future__ import annotations

import numpy as np

from permafrost.data.labels.objects import NO_OBJECTS, Objects
from permafrost.data.labels.oriented import area_of, enclosing, polygons_of
from permafrost.data.world.aerial import MARGIN, View
from permafrost.data.world.things import BUILT, KINDS

#: classes of the objects, in the order of their ids
CLASSES = list(BUILT)
#: covers with most of them
COVERS = ("residential", "industrial")
#: an object counts if at least this share of it is visible; a smaller share is a region that is not scored …
CLEAR = 0.6
#: … and below this share, or below this number of pixels, no annotator would mark it
TRACE, FEWEST = 0.1, 8


def built(view: View, top: int, left: int, size: int) -> Objects:
    """Buildings and vehicles in a square window: the whole outline of each, also of what trees or the edge of the
    window hide. Coordinates are pixels of the window."""
    rows, columns = (slice(MARGIN + start, MARGIN + start + size) for start in (top, left))
    values, counts = np.unique(view.canvas.top[rows, columns], return_counts=True)
    found = []
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        number = value - 1
        if number < 0 or KINDS[view.things[number].kind].built is None:
            continue
        share = count / view.pixels[number]
        if share >= TRACE and count >= FEWEST:
            found.append((number, share < CLEAR))
    if not found:
        return NO_OBJECTS
    numbers, doubtful = zip(*found, strict=True)
    corners = np.stack([view.corners[number] for number in numbers]) - MARGIN - [left, top]
    return Objects.of(
        enclosing(corners),
        [KINDS[view.things[number].kind].built for number in numbers],
        numbers=numbers,
        areas=area_of(corners),
        crowd=doubtful,
        polygons=polygons_of(corners),
    )
