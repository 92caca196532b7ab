"""Oriented boxes of COCO's entries as corners.

The first entry with an oriented box decides where all entries of a list have theirs:

| key            | value                                                                           |
|----------------|---------------------------------------------------------------------------------|
| `obb`          | five numbers in the declared convention, or the eight of four corners           |
| `poly`         | eight numbers                                                                   |
| `bbox`         | five or eight numbers; four are an upright box, and the next key is looked at   |
| `segmentation` | one ring of four corners; a ring may repeat its first corner at the end         |

Corners may also be given as four pairs, or as a list with one ring.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permafrost.data.labels.oriented import (
    CONVENTIONS,
    area_of,
    corners_of,
    enclosing,
    faults,
    uncrossed,
)
from permafrost.metrics.detection.inputs.columns import Columns

_KEYS = ("obb", "poly", "bbox", "segmentation")
_CORNERS = 8
# fewer boxes may all be nearly upright
_FEW = 10


def read_corners(columns: Columns, convention: str | None) -> tuple[np.ndarray, list[str]]:
    """(N, 4, 2) corners of all entries (0 for refused ones), and warnings.

    Raises
    ------
    PermafrostError : an entry without an oriented box, an invalid one, five numbers without a convention.
    """
    if not len(columns):
        return np.empty((0, 4, 2)), []
    key, length = _place(columns)
    if length == _CORNERS:
        convention = "corners"
    elif convention is None:
        columns.refuse(
            [0],
            "the box has five numbers, and their convention is not declared",
            key=key,
            remedy=f"declare the box convention: {', '.join(_five())}",
        )
        return np.zeros((len(columns), 4, 2)), []
    numbers = _numbers(columns, key, length)
    if columns.bad.any():
        numbers = np.where(columns.bad[:, None], 0.0, numbers)
    for bad, problem, remedy in faults(numbers, convention):
        columns.refuse(np.flatnonzero(bad), problem, key=key, remedy=remedy)
    if columns.bad.any():
        numbers = np.where(columns.bad[:, None], 0.0, numbers)
    if length != _CORNERS:
        said = _radians_warning(columns, numbers[:, 4], convention)
        return corners_of(numbers, convention), said
    corners, crossed = uncrossed(numbers.reshape(-1, 4, 2))
    return corners, _crossing_warning(columns, crossed)


def upright(corners: np.ndarray) -> np.ndarray:
    """(N, 4) x, y, width, height of the enclosing boxes."""
    bounds = enclosing(corners)
    bounds[:, 2:] -= bounds[:, :2]
    return bounds


def area_warning(columns: Columns, areas: np.ndarray, corners: np.ndarray) -> list[str]:
    """A warning if areas of the file are not those of the oriented boxes, such as those of upright boxes."""
    own = area_of(corners)
    other = int(np.count_nonzero((np.abs(areas - own) > 0.05 * own + 1) & ~columns.bad))
    if other <= 0.01 * len(columns):
        return []
    return [
        f"{columns.source}: the areas of {other} of {len(columns)} annotations are not those of their oriented"
        " boxes; scores by size follow the areas of the file"
    ]


def holds_oriented(entry: dict) -> bool:
    """Whether an entry has an oriented box that no upright evaluation can read: `obb`, `poly`, or eight numbers."""
    return any(_length(entry, key) for key in ("obb", "poly")) or _length(entry, "bbox") == _CORNERS


def with_areas(columns: Columns) -> list[dict]:
    """The entries with the area of their oriented boxes, which no convention changes."""
    key, length = _place(columns)
    numbers = _numbers(columns, key, length)
    if length == _CORNERS:
        areas = area_of(uncrossed(numbers.reshape(-1, 4, 2))[0])
    else:
        areas = numbers[:, 2] * numbers[:, 3]
    pairs = zip(columns.entries, areas.tolist(), strict=True)
    return [{**entry, "area": area, "iscrowd": 0} for entry, area in pairs]


def _five() -> list[str]:
    return [name for name, kind in CONVENTIONS.items() if kind.columns == 5]


def _place(columns: Columns) -> tuple[str, int]:
    """The key of the boxes, and how many numbers each has."""
    for entry in _entries(columns):
        for key in _KEYS:
            if length := _length(entry, key):
                return key, length
    named = next((key for key in _KEYS if columns.first().get(key) is not None), None)
    columns.refuse(
        range(len(columns)),
        "has no oriented box",
        key=named,
        remedy="give obb (five or eight numbers), poly (eight numbers), bbox (five numbers), or a segmentation"
        " of one ring with four corners",
    )
    return "poly", _CORNERS


def _entries(columns: Columns) -> Iterator[dict]:
    """The entries, the first one twice: the others are parsed only if it has no box."""
    yield columns.first()
    yield from columns.entries


def _length(entry: dict, key: str) -> int:
    """How many numbers the oriented box under this key has; 0 if there is none."""
    length = len(_flat(entry.get(key)))
    return length if length == _CORNERS or (length == 5 and key in ("obb", "bbox")) else 0


def _numbers(columns: Columns, key: str, length: int) -> np.ndarray:
    """(N, length) numbers of the entries."""
    first = _listed(columns.first().get(key))
    if key != "segmentation" and isinstance(first, list | tuple) and len(first) == length:
        return columns.vectors(key, length)[0]
    values, present = columns.raw(key)
    flat = [_flat(value) for value in values]
    other = [row for row in np.flatnonzero(present) if len(flat[row]) != length]
    wanted = "one ring of four corners" if length == _CORNERS else f"a list of {length} numbers"
    columns.refuse(other, f"{key} is not {wanted}", key=key)
    fine = present & ~columns.bad
    return columns.vectors_of(flat, fine, key, length)[0]


def _listed(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def _flat(value) -> list:
    """The numbers of a box: flat, in a list of one ring, or in pairs; a repeated first corner is left out."""
    value = _listed(value)
    if not isinstance(value, list | tuple):
        return []
    if len(value) == 1 and isinstance(value[0], list | tuple):
        value = value[0]
    if len(value) in (4, 5) and all(isinstance(p, list | tuple) and len(p) == 2 for p in value):
        value = [number for pair in value for number in pair]
    if len(value) == _CORNERS + 2 and list(value[:2]) == list(value[-2:]):
        value = value[:_CORNERS]
    return list(value)


def _radians_warning(columns: Columns, angles: np.ndarray, convention: str) -> list[str]:
    """A warning if angles in degrees are all as small as radians, and not whole."""
    if not CONVENTIONS[convention].degrees or len(angles) < _FEW:
        return []
    if np.abs(angles).max() > np.pi or (angles == np.round(angles)).mean() > 0.5:
        return []
    return [
        f"{columns.source}: all angles lie between -π and π, so they may be radians; they are read as degrees"
        f" ({convention})"
    ]


def _crossing_warning(columns: Columns, crossed: np.ndarray) -> list[str]:
    count = int(np.count_nonzero(crossed & ~columns.bad))
    if not count:
        return []
    return [
        f"{columns.source}: the outlines of {count} of {len(columns)} oriented boxes cross themselves; the hull of"
        " their corners is used"
    ]
