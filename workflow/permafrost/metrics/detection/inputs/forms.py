"""Checks of the form of segmentations.

Files of detections consist mostly of compressed masks: `Compressed` holds them without an object for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np

from permafrost.metrics.detection.masks.codec import NEGATIVE, TOTAL
from permafrost.metrics.detection.masks.polygons import COORDINATE_LIMIT
from permafrost.metrics.detection.masks.text import Text


@dataclass(frozen=True, eq=False)
class Compressed(Sequence):
    """N segmentations {"size": [height, width], "counts": string}, each created on access.

    Attributes
    ----------
    counts : N strings of ASCII characters, unchecked.
    sizes : (N, 2) int64 heights and widths, unchecked.
    """

    counts: Text
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, row: int) -> dict:  # type: ignore[override]  # slices are not used
        return {"size": self.sizes[row].tolist(), "counts": self.counts[row]}

    def take(self, rows: np.ndarray) -> Compressed:
        """The segmentations at `rows`, in that order."""
        if len(rows) == len(self) and (np.diff(rows) == 1).all():
            return self
        return Compressed(self.counts.take(rows), self.sizes[rows])


def compacted(segmentations: list | Compressed) -> list | Compressed:
    """The segmentations as `Compressed` if all are compressed and have a size of two integers."""
    if isinstance(segmentations, Compressed) or set(map(type, segmentations)) != {dict}:
        return segmentations
    try:
        sizes = list(map(itemgetter("size"), segmentations))
        counts = list(map(itemgetter("counts"), segmentations))
        if set(map(type, counts)) != {str} or not _are_lists_of_two(sizes):
            return segmentations
        flat = np.frombuffer(array("q", chain.from_iterable(sizes)), np.int64)
    except (KeyError, OverflowError, TypeError):
        return segmentations
    # booleans became 1 and 0; only sizes below 2 need a check of their types
    if flat.min(initial=2) < 2 and not are_pairs(sizes):
        return segmentations
    text = Text.of(counts)
    # other characters are invalid: messages must show the original strings
    ordinary = not len(text.codes) or text.codes.max() < 128
    return Compressed(text, flat.reshape(-1, 2)) if ordinary else segmentations


def are_pairs(sizes: list) -> bool:
    """Whether all are lists of two integers."""
    return _are_lists_of_two(sizes) and set(map(type, chain.from_iterable(sizes))) <= {int}


def _are_lists_of_two(sizes: list) -> bool:
    return set(map(type, sizes)) <= {list, tuple} and set(map(len, sizes)) <= {2}


def taken(segmentations: list | Compressed, rows: np.ndarray) -> list | Compressed:
    """The segmentations at `rows`, in that order."""
    if isinstance(segmentations, Compressed):
        return segmentations.take(rows)
    return [segmentations[row] for row in rows.tolist()]


def plain_sizes(sizes: list) -> bool:
    """Whether all are lists of two integers within NumPy's range; a fast check of the usual case."""
    flat = chain.from_iterable
    return (
        are_pairs(sizes)
        and max(flat(sizes), default=0) <= 1 << 32
        and min(flat(sizes), default=0) >= -1
    )


def is_size(size) -> bool:
    """Whether it is a list of two integers of any value."""
    return (
        isinstance(size, list | tuple)
        and len(size) == 2
        and all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in size)
    )


def run_problem(runs, pixels: int) -> str | None:
    """The problem of run lengths that must sum to `pixels`; None if there is none."""
    kinds = set(map(type, runs))
    if not kinds <= {int} and not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) for n in runs
    ):
        return "a run length is not a whole number"
    if len(runs) and min(runs) < 0:
        return NEGATIVE
    return None if sum(map(int, runs)) == pixels else TOTAL


def plain_polygons(given: list) -> bool:
    """Whether all are polygons of three points or more; a fast check of the usual case."""
    polygons = list(chain.from_iterable(given))
    lengths = set(map(len, polygons)) if set(map(type, polygons)) <= {list, tuple} else {0}
    return (
        min(map(len, given), default=1) > 0
        and min(lengths, default=6) >= 6
        and not any(length & 1 for length in lengths)
        and set(map(type, chain.from_iterable(polygons))) <= {int, float}
    )


def coordinates(polygons: list) -> np.ndarray:
    """All numbers as float64; integers beyond the range of floats are clipped just above the limit."""
    try:
        return np.frombuffer(array("d", chain.from_iterable(polygons)))
    except OverflowError:
        limit = int(COORDINATE_LIMIT) + 1
        flat = chain.from_iterable(polygons)
        return np.array([min(max(n, -limit), limit) for n in flat], np.float64)


def without_numpy(polygons) -> list:
    """Polygons with NumPy arrays and numbers converted to Python's."""
    listed = polygons.tolist() if isinstance(polygons, np.ndarray) else polygons
    return [
        [n.item() if isinstance(n, np.generic) else n for n in each]
        if isinstance(each, list | tuple | np.ndarray)
        else each
        for each in listed
    ]


def polygon_problem(polygons, strict: bool) -> str | None:
    """The problem of the polygons of an entry, or None; `strict` accepts what pycocotools accepts."""
    if not len(polygons):
        return "no polygon"
    if not set(map(type, polygons)) <= {list, tuple}:
        return "polygons must be lists of numbers"
    if not set(map(type, chain.from_iterable(polygons))) <= {int, float}:
        return "a coordinate is not a number"
    lengths = list(map(len, polygons))
    if strict:
        # pycocotools treats four numbers as a box, and then fails to read it
        return "a polygon of fewer than three points" if lengths[0] <= 4 else None
    if min(lengths) < 6:
        return "a polygon of fewer than three points"
    if any(length & 1 for length in lengths):
        return "an odd number of coordinates"
    return None


def as_drawn(polygons) -> list:
    """Polygons without a last odd number, which pycocotools ignores, too."""
    if any(len(polygon) & 1 for polygon in polygons):
        return [polygon[: len(polygon) // 2 * 2] for polygon in polygons]
    return polygons
