"""One label file of YOLO: a line per object, in shares of the image's width and height.

``class cx cy w h`` is a box by its centre and size; ``class x1 y1 x2 y2 x3 y3 …`` a polygon, or a
rotated box as its four corners. The number of values tells them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.data.decode import UnreadableImage

#: numbers are written with six decimals, and a box by its centre adds up two of them
ROUNDING = 1e-5
#: numbers of classes are far below
MOST = 2**31


@dataclass(frozen=True)
class YoloFile:
    """What one file says.

    Attributes
    ----------
    classes : (N,) int64 ids.
    boxes : (N, 4) float64 ``x_min, y_min, x_max, y_max`` in shares of width and height; they may
        reach beyond [0, 1], as the centre and the size of a box say nothing about its edges.
    polygons : N arrays (P, 2) of the same, None for a box.
    lines : N numbers of the lines, from 1.
    """

    classes: np.ndarray
    boxes: np.ndarray
    polygons: list[np.ndarray | None]
    lines: list[int]


def parse_yolo(data: bytes) -> YoloFile:
    """Read a label file; one without lines holds no objects.

    Raises
    ------
    UnreadableImage : a line is no object, or holds numbers that are no shares.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableImage(f"is no text ({error.reason})") from error
    found = [
        (number, *_object(line.split(), f"line {number}"))
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    return YoloFile(
        np.array([each[1] for each in found], np.int64),
        np.array([each[2] for each in found], np.float64).reshape(-1, 4),
        [each[3] for each in found],
        [each[0] for each in found],
    )


def _object(words: list[str], which: str) -> tuple[int, list[float], np.ndarray | None]:
    """(class, box, polygon or None) of the words of one line."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise UnreadableImage(f"{which} holds something that is no number")
    category, *values = values
    if category != int(category) or not 0 <= category < MOST:
        raise UnreadableImage(f"{which} begins with {words[0]}, which is no number of a class")
    if len(values) != 4 and (len(values) < 6 or len(values) % 2):
        raise UnreadableImage(
            f"{which} has {len(words)} values: neither class, cx, cy, w, h nor a class and the"
            " corners of a polygon"
        )
    if min(values) < -ROUNDING or max(values) > 1 + ROUNDING:
        raise UnreadableImage(
            f"{which} holds values from {min(values):g} to {max(values):g}, but shares of the image's"
            " width and height lie in [0, 1]"
        )
    if len(values) == 4:
        cx, cy, width, height = values
        box, polygon = [cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2], None
    else:
        polygon = _on_edges(values).reshape(-1, 2)
        box = [*polygon.min(axis=0).tolist(), *polygon.max(axis=0).tolist()]
    return int(category), _on_edges(box), polygon


def _on_edges(shares):
    """Shares of which those that miss an edge of the image by rounding lie on it."""
    shares = np.asarray(shares)
    near = np.clip(shares, 0, 1)
    return np.where(np.abs(shares - near) <= ROUNDING, near, shares)
