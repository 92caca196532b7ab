"""Crowns on images, as arrays: the form that all other modules of this folder use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from permafrost.data.labels.geometries import BOX, POINT, POLYGON


@dataclass(frozen=True)
class Annotations:
    """Crowns of some images, truth or predictions.

    Attributes
    ----------
    kind : ``box``, ``polygon`` or ``point``.
    images : names of the images, including those listed as empty.
    image : (N,) index into `images`.
    label : (N,) str objects.
    score : (N,) float64; NaN if the source has no scores.
    shape : (N, 4) float64 ``xmin, ymin, xmax, ymax`` of boxes, (N, 2) ``x, y`` of points, or (N,)
        shapely polygons; in pixels, y downwards.
    row : (N,) position of each crown in its source (line of a file, row of a frame), from 1.
    where : name of the source, for messages.
    dropped : reason -> number of rows dropped for it.
    """

    kind: str
    images: tuple[str, ...]
    image: np.ndarray
    label: np.ndarray
    score: np.ndarray
    shape: np.ndarray
    row: np.ndarray
    where: str = "annotations"
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.image)

    @property
    def has_scores(self) -> bool:
        return not np.isnan(self.score).any()

    def take(self, rows) -> Annotations:
        """Only the crowns at `rows` (indices or a mask); all images stay."""
        parts = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **parts)

    def by_image(self, images: tuple[str, ...]) -> list[np.ndarray]:
        """Indices of the crowns on each of `images`, in the order of the source."""
        order = np.argsort(self.image, kind="stable")
        bounds = np.searchsorted(self.image[order], np.arange(len(self.images) + 1))
        number = {name: place for place, name in enumerate(self.images)}
        nothing = np.empty(0, np.intp)
        return [
            order[bounds[number[name]] : bounds[number[name] + 1]] if name in number else nothing
            for name in images
        ]


_COLUMNS = ("image", "label", "score", "shape", "row")


def empty_shapes(kind: str) -> np.ndarray:
    """An array of no shapes of a kind."""
    widths = {BOX: (0, 4), POINT: (0, 2), POLYGON: (0,)}
    return np.empty(widths[kind], object if kind == POLYGON else np.float64)


def concatenate(parts: list[Annotations], like: Annotations) -> Annotations:
    """The crowns of all parts in order; with no parts, an empty table of the kind of `like`."""
    if not parts:
        return like.take(np.empty(0, np.intp))
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return replace(like, **joined)
