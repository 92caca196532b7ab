"""Scores of predictions per window and per whole image, and their difference.

Crowns are assigned to the windows of an image as by DeepForest's ``split_raster``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import Annotations, concatenate
from permafrost.data.deepforest.columns import read_columns
from permafrost.data.deepforest.reading import AUTO, read_annotations
from permafrost.data.deepforest.shapes import to_numbers
from permafrost.data.files.windows import OVERLAP, SIZE, Window, clip_boxes, cut_windows, tile_name
from permafrost.data.labels.geometries import BOX, POINT, POLYGON
from permafrost.evaluators.crowns.evaluate import evaluate
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.metrics.objects.overlaps import areas
from permafrost.metrics.ratios import divide

# a crown belongs to a window that shows more than this share of it
VISIBLE = 0.5


def clip_to_window(annotations: Annotations, window: Window) -> tuple[Annotations, np.ndarray]:
    """The crowns visible in a window, in its coordinates.

    Boxes and polygons are clipped to the window and kept if more than half of their area remains.
    Points, and predictions without area, are kept if they are inside the window or on its edge; one
    on a shared edge is in both windows.

    Returns
    -------
    The crowns, and their indices in `annotations`.
    """
    xmin, ymin, xmax, ymax = window.bounds
    shape, origin = annotations.shape, np.array([xmin, ymin], np.float64)
    if annotations.kind == POINT:
        kept = ((shape >= (xmin, ymin)) & (shape <= (xmax, ymax))).all(axis=1)
        moved = shape[kept] - origin
    elif annotations.kind == POLYGON:
        clipped = shapely.intersection(shape, shapely.box(*window.bounds))
        flat = _flat_inside(areas(POLYGON, shape), shapely.bounds(shape), window)
        clipped = np.where(flat, shape, clipped)
        kept = flat | (divide(shapely.area(clipped), areas(POLYGON, shape)) > VISIBLE)
        moved = shapely.transform(clipped[kept], lambda corners: corners - origin)
    else:
        clipped = clip_boxes(shape, np.array(window.bounds, np.float64))
        kept = divide(areas(BOX, clipped), areas(BOX, shape)) > VISIBLE
        kept |= _flat_inside(areas(BOX, shape), shape, window)
        moved = clipped[kept] - np.tile(origin, 2)
    rows = np.flatnonzero(kept)
    return replace(annotations.take(rows), shape=moved), rows


def _flat_inside(area: np.ndarray, bounds: np.ndarray, window: Window) -> np.ndarray:
    """(N,) bool: shapes without area inside the window."""
    xmin, ymin, xmax, ymax = window.bounds
    inside = (bounds[:, :2] >= (xmin, ymin)) & (bounds[:, 2:] <= (xmax, ymax))
    return (area == 0) & inside.all(axis=1)


def cut_annotations(
    annotations: Annotations,
    sizes: dict[str, tuple[int, int]],
    *,
    size: int = SIZE,
    overlap: float = OVERLAP,
) -> tuple[Annotations, np.ndarray]:
    """Cut the crowns of whole images into windows; each window becomes a separate image.

    Parameters
    ----------
    sizes : width and height of every image.

    Returns
    -------
    The crowns of all windows, as images named by `tile_name` (windows without crowns too), and (M,)
    their indices in `annotations`: a crown may be in many windows, or in none.

    Raises
    ------
    PermafrostError : an image whose size is unknown.
    """
    names: list[str]
    names, parts, sources = [], [], []
    for image, rows in zip(
        annotations.images, annotations.by_image(annotations.images), strict=True
    ):
        if image not in sizes:
            raise PermafrostError(f"the size of the image {image!r} is not known")
        for window in cut_windows(*sizes[image], size=size, overlap=overlap):
            part, kept = clip_to_window(annotations.take(rows), window)
            parts.append(replace(part, image=np.full(len(part), len(names), np.intp)))
            sources.append(rows[kept])
            names.append(tile_name(image, window))
    found = replace(concatenate(parts, annotations), images=tuple(names))
    return found, np.concatenate(sources) if sources else np.empty(0, np.intp)


ORIGIN = ("window_xmin", "window_ymin")


@dataclass(frozen=True)
class TilePredictions:
    """Predictions in the coordinates of their windows.

    Attributes
    ----------
    by_image, by_tile : the same crowns, on whole images, and on images named as
        `windows.cut_annotations` names windows.
    windows : (N, 4) ``x, y, width, height`` of each crown's window.
    every : the same for all windows of each image, including windows without crowns.
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
    size, overlap : of the windows; see `windows.cut_windows`.

    Raises
    ------
    PermafrostError : columns are missing; no window starts at these coordinates.
    """
    columns = read_columns(source, "predictions")
    missing = [name for name in ORIGIN if name not in columns.values]
    if missing:
        raise PermafrostError(
            f"there is no column {missing[0]!r}",
            where=columns.where,
            remedy="give the origin of each prediction's window, or disable stitching",
        )
    crowns = read_annotations(columns, "predictions", geometry=geometry, invalid=invalid)
    # invalid rows may have been dropped
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


@dataclass(frozen=True)
class TileComparison:
    """Two evaluations of the same predictions.

    Attributes
    ----------
    whole, tiles : evaluated on whole images, and on windows as separate images.
    repeated : crowns that count in more than one window; `repeats`: their extra counts in total.
    lost : crowns that count in no window, because none shows more than half of them.
    """

    whole: CrownEvaluation
    tiles: CrownEvaluation
    repeated: int
    repeats: int
    lost: int

    def sentence(self) -> str:
        """The difference of the two evaluations, in words."""
        whole, tiles = self.whole.values, self.tiles.values
        crowns = len(self.whole.truth)
        differences = ", ".join(
            f"{name} {tiles[name, None]:.3f} instead of {whole[name, None]:.3f}"
            for name in ("recall", "precision")
        )
        return (
            f"Scored on {len(self.tiles.images)} tiles instead of {len(self.whole.images)} whole"
            f" images: {differences}. {self.repeated} of {crowns} crowns lie in several tiles and"
            f" count {self.repeats} times too often, {self.lost} lie in none, and crowns are cut at"
            " the edges of tiles: the two figures measure different things and must not be compared."
        )


def compare_tiles(
    truth: Annotations,
    predictions: Annotations,
    sizes: dict[str, tuple[int, int]],
    *,
    size: int = SIZE,
    overlap: float = OVERLAP,
    tile_predictions: Annotations | None = None,
    **options,
) -> TileComparison:
    """Evaluate on whole images and on their windows.

    Parameters
    ----------
    truth, predictions : of whole images.
    sizes : width and height of every image.
    size, overlap : see `windows.cut_windows`.
    tile_predictions : predictions made per window, in its coordinates, on images named as by
        `windows.cut_annotations`; if None, `predictions` are cut in the same way as the truth.
    options : of `evaluate`.
    """
    whole = evaluate(truth, predictions, **options)
    cut_truth, sources = cut_annotations(truth, sizes, size=size, overlap=overlap)
    if tile_predictions is None:
        tile_predictions, _ = cut_annotations(predictions, sizes, size=size, overlap=overlap)
    tiles = evaluate(cut_truth, tile_predictions, **options)
    times = np.bincount(sources, minlength=len(truth))
    return TileComparison(
        whole,
        tiles,
        repeated=int(np.count_nonzero(times > 1)),
        repeats=int((times[times > 1] - 1).sum()),
        lost=int(np.count_nonzero(times == 0)),
    )
