"""The detections of one image or window, and their column in prediction tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

#: column of prediction tables with the outlines of oriented boxes
OUTLINES = "polygon"
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
    """

    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray
    outlines: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def centres(self) -> np.ndarray:
        """(M, 2) x and y of the centres of the boxes in pixels; for points, the points."""
        return (self.boxes[:, :2] + self.boxes[:, 2:]) / 2

    def take(self, rows) -> Detected:
        """The detections at `rows`: indices, a slice or a mask."""
        outlines = None if self.outlines is None else self.outlines[rows]
        return Detected(self.boxes[rows], self.classes[rows], self.scores[rows], outlines)

    def moved(self, by: np.ndarray) -> Detected:
        """The detections shifted by (2,) pixels, x and y."""
        outlines = None if self.outlines is None else self.outlines + np.tile(by, 4)
        return replace(self, boxes=self.boxes + np.tile(by, 2), outlines=outlines)

    def above(self, score: float) -> Detected:
        """The detections that score at least `score`."""
        return self.take(self.scores >= score)

    def ranked(self) -> Detected:
        """The detections by descending score; ties keep their order."""
        return self.take(np.argsort(-self.scores, kind="stable"))


def join(parts: list[Detected]) -> Detected:
    """Concatenate detections, in order."""
    outlined = [part.outlines for part in parts if part.outlines is not None]
    return Detected(
        np.concatenate([np.empty((0, 4)), *(part.boxes for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.classes for part in parts)]).astype(np.int64),
        np.concatenate([np.empty(0), *(part.scores for part in parts)]),
        np.concatenate(outlined) if outlined else None,
    )


def detected_of(column, outlines=None) -> list[Detected]:
    """The detections of each row of a column of lists of ``class``, corners and ``score``.

    Parameters
    ----------
    outlines : the column `OUTLINES`, with a list of eight numbers for each detection; None for other shapes.
    """
    lists = column.combine_chunks()
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int32)
    # unlike `flatten`, `values` keeps the whole array of a slice, and the offsets index that
    values = lists.values
    corners = [_numbers(values, name, np.float64) for name in _CORNERS]
    boxes = np.stack(corners, axis=1).reshape(-1, 4)
    classes = _numbers(values, "class", np.int64)
    scores = _numbers(values, "score", np.float64)
    rings = None if outlines is None else _rings(outlines, len(boxes))
    return [
        Detected(
            boxes[start:stop],
            classes[start:stop],
            scores[start:stop],
            None if rings is None else rings[start:stop],
        )
        for start, stop in zip(offsets[:-1], offsets[1:], strict=True)
    ]


def outlines_column(found: list[Detected]) -> pa.Array:
    """The column `OUTLINES`: for each image a list of eight numbers per detection."""
    rings = [[] if each.outlines is None else each.outlines.tolist() for each in found]
    return pa.array(rings, pa.list_(pa.list_(pa.float64())))


def _rings(column, count: int) -> np.ndarray:
    """(N, 8) numbers of all images; NaN, which is refused later, where there are not eight of each."""
    lists = column.combine_chunks()
    values = lists.values.to_pylist() if len(lists) else []
    if len(values) != count or any(ring is None or len(ring) != 8 for ring in values):
        return np.full((count, 8), np.nan)
    return np.array(values, np.float64).reshape(-1, 8)


def _numbers(values, name: str, kind) -> np.ndarray:
    """One field as an array; null becomes NaN, or class -1, which are refused later."""
    array = values.field(name)
    if array.null_count:
        array = array.fill_null(-1 if name == "class" else float("nan"))
    return array.to_numpy(zero_copy_only=False).astype(kind, copy=False)
