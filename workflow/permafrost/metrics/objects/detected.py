"""The detections of one image or window, and their column in prediction tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.objects.masks import moved

_CORNERS = ("x_min", "y_min", "x_max", "y_max")


@dataclass(frozen=True)
class Detected:
    """The detections of one image or window.

    Attributes
    ----------
    boxes : (M, 4) float64 ``x_min, y_min, x_max, y_max`` in pixels; both corners of a point are
        equal.
    classes : (M,) class ids.
    scores : (M,) float64.
    outlines : (M, 8) float64 ``x0, y0, x1, y1, …``, the corners of oriented boxes in pixels; else None.
    masks : M masks of the image or window; else None.
    """

    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray
    outlines: np.ndarray | None = None
    masks: Masks | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def centres(self) -> np.ndarray:
        """(M, 2) x and y of the centres of the boxes in pixels; for points, the points."""
        return (self.boxes[:, :2] + self.boxes[:, 2:]) / 2

    def take(self, rows) -> Detected:
        """The detections at `rows`: indices, a slice or a mask."""
        return Detected(
            self.boxes[rows],
            self.classes[rows],
            self.scores[rows],
            None if self.outlines is None else self.outlines[rows],
            None if self.masks is None else self.masks[rows],
        )

    def moved(self, by: np.ndarray, size: tuple[int, int]) -> Detected:
        """The detections shifted by (2,) pixels, x and y, into an image of that height and width."""
        outlines, masks = self.outlines, self.masks
        return replace(
            self,
            boxes=self.boxes + np.tile(by, 2),
            outlines=None if outlines is None else outlines + np.tile(by, 4),
            masks=None if masks is None else moved(masks, by, *size),
        )

    def above(self, score: float) -> Detected:
        """The detections that score at least `score`."""
        return self.take(self.scores >= score)

    def ranked(self) -> Detected:
        """The detections by descending score; ties keep their order."""
        return self.take(np.argsort(-self.scores, kind="stable"))


def join(parts: list[Detected]) -> Detected:
    """Concatenate detections, in order."""
    outlined = [part.outlines for part in parts if part.outlines is not None]
    masked = [part.masks for part in parts if part.masks is not None]
    return Detected(
        np.concatenate([np.empty((0, 4)), *(part.boxes for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.classes for part in parts)]).astype(np.int64),
        np.concatenate([np.empty(0), *(part.scores for part in parts)]),
        np.concatenate(outlined) if outlined else None,
        Masks.joined(masked) if masked else None,
    )


def detected_of(column) -> list[Detected]:
    """The detections of each row of a column of lists of ``class``, corners and ``score``."""
    lists = column.combine_chunks()
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int32)
    # unlike `flatten`, `values` keeps the whole array of a slice, and the offsets index that
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
    """One field as an array; null becomes NaN, or class -1, which are refused later."""
    array = values.field(name)
    if array.null_count:
        array = array.fill_null(-1 if name == "class" else float("nan"))
    return array.to_numpy(zero_copy_only=False).astype(kind, copy=False)
