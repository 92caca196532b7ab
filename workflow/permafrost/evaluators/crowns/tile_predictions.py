"""Predictions that were made window by window, read from one table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.deepforest.columns import read_columns
from permafrost.data.deepforest.reading import AUTO, read_annotations
from permafrost.data.deepforest.shapes import to_numbers
from permafrost.data.windows import OVERLAP, SIZE, Window, cut_windows, tile_name

ORIGIN = ("window_xmin", "window_ymin")


@dataclass(frozen=True)
class TilePredictions:
    """Predictions in the coordinates of their windows.

    Attributes
    ----------
    by_image, by_tile : the same crowns, on the whole images they come from, and on images named as
        `windows.cut_annotations` names windows.
    windows : (N, 4) ``x, y, width, height`` of each crown's window.
    every : the same of all windows of each image, also of those without a crown.
    """

    by_image: Annotations
    by_tile: Annotations
    windows: np.ndarray
    every: dict[str, np.ndarray]


def read_tile_predictions(
    source,
    sizes: dict[str, tuple[int, int]],
    *,
    size: int = SIZE,
    overlap: float = OVERLAP,
    geometry: str = AUTO,
    invalid: str = "error",
) -> TilePredictions:
    """Read a table of predictions with the columns ``window_xmin`` and ``window_ymin``.

    Parameters
    ----------
    source, geometry, invalid : see `permafrost.data.deepforest.reading.read_annotations`.
    sizes : width and height of every image.
    size, overlap : of the windows, see `windows.cut_windows`.

    Raises
    ------
    PermafrostError : columns are missing; no such window begins there.
    """
    columns = read_columns(source, "predictions")
    missing = [name for name in ORIGIN if name not in columns.values]
    if missing:
        raise PermafrostError(
            f"there is no column {missing[0]!r}",
            where=columns.where,
            remedy="say where each prediction's window begins, or do not ask for stitching",
        )
    crowns = read_annotations(columns, "predictions", geometry=geometry, invalid=invalid)
    # some rows may have been left out
    places = np.searchsorted(columns.rows, crowns.row)
    origins = np.stack([to_numbers(columns, name) for name in ORIGIN], axis=1)[places]
    known = {
        image: {
            (window.x, window.y): window
            for window in cut_windows(*sizes[image], size=size, overlap=overlap)
        }
        for image in crowns.images
        if image in sizes
    }
    windows, names = np.empty((len(crowns), 4)), []
    for index, (number, origin) in enumerate(zip(crowns.image, origins.tolist(), strict=True)):
        image = crowns.images[number]
        window = known.get(image, {}).get(tuple(origin))
        if window is None:
            raise PermafrostError(
                f"no window of {size} pixels with an overlap of {overlap:g} begins at"
                f" {origin} on {image!r}",
                where=columns.place(int(places[index])),
                remedy="give the size and overlap of the windows that were predicted",
            )
        windows[index] = _numbers(window)
        names.append(tile_name(image, window))
    tiles = tuple(dict.fromkeys(names))
    number_of = {name: place for place, name in enumerate(tiles)}
    image = np.fromiter((number_of[name] for name in names), np.intp, len(names))
    every = {
        name: np.array([_numbers(each) for each in cut.values()]) for name, cut in known.items()
    }
    return TilePredictions(crowns, replace(crowns, images=tiles, image=image), windows, every)


def _numbers(window: Window) -> tuple[int, int, int, int]:
    return window.x, window.y, window.width, window.height
