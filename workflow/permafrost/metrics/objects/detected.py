"""The detections of one image or window, and the column of prediction tables that holds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_CORNERS = ("x_min", "y_min", "x_max", "y_max")


@dataclass(frozen=True)
class Detected:
    """What was found in one image or window.

    Attributes
    ----------
    boxes : (M, 4) float64 ``x_min, y_min, x_max, y_max`` in pixels; of points, both corners are the
        point.
    classes : (M,) ids.
    scores : (M,) float64.
    """

    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def centres(self) -> np.ndarray:
        """(M, 2) x and y of the middles of the boxes; of points, the points."""
        return (self.boxes[:, :2] + self.boxes[:, 2:]) / 2

    def take(self, rows) -> Detected:
        return Detected(self.boxes[rows], self.classes[rows], self.scores[rows])

    def moved(self, by: np.ndarray) -> Detected:
        """Shifted by (4,)."""
        return Detected(self.boxes + by, self.classes, self.scores)

    def above(self, score: float) -> Detected:
        """Those that score at least `score`."""
        return self.take(self.scores >= score)

    def ranked(self) -> Detected:
        """By descending score; equal ones keep their order."""
        return self.take(np.argsort(-self.scores, kind="stable"))


def join(parts: list[Detected]) -> Detected:
    """All of them, in their order."""
    return Detected(
        np.concatenate([np.empty((0, 4)), *(part.boxes for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.classes for part in parts)]).astype(np.int64),
        np.concatenate([np.empty(0), *(part.scores for part in parts)]),
    )


def detected_of(column) -> list[Detected]:
    """The detections of each row of a column of lists of ``class``, corners and ``score``."""
    lists = column.combine_chunks()
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int32)
    # `values` ignores where a slice begins, as the offsets do
    values = lists.values
    corners = [_numbers(values, name, np.float64) for name in _CORNERS]
    boxes = np.stack(corners, axis=1).reshape(-1, 4)
    classes = _numbers(values, "class", np.int64)
    scores = _numbers(values, "score", np.float64)
    return [
        Detected(boxes[start:stop], classes[start:stop], scores[start:stop])
        for start, stop in zip(offsets[:-1], offsets[1:], strict=True)
    ]


def _numbers(values, name: str, kind) -> np.ndarray:
    """One field as an array; what is null becomes NaN, or the class -1, and is refused later."""
    array = values.field(name)
    if array.null_count:
        array = array.fill_null(-1 if name == "class" else float("nan"))
    return array.to_numpy(zero_copy_only=False).astype(kind, copy=False)
