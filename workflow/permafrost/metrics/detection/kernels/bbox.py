"""Intersection over union of boxes."""

from __future__ import annotations

import numpy as np


class BoxOverlap:
    """IoU of (x, y, width, height); for a crowd, the share of the detection inside it.

    The operations and their order are pycocotools', so that all bits are equal.
    """

    def __init__(self, detections: np.ndarray, truths: np.ndarray, crowd: np.ndarray) -> None:
        self.detections, self.truths, self.crowd = detections, truths, crowd

    @classmethod
    def of(cls, problem) -> BoxOverlap:
        """From the tables of a `Problem`."""
        return cls(problem.detections.boxes, problem.truths.boxes, problem.truths.crowd)

    def bound(self, detections, truths) -> None:
        """None: the exact value is as cheap as a bound."""
        return None

    def extents(self) -> tuple[np.ndarray, np.ndarray]:
        """The boxes."""
        return self.detections, self.truths

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) IoU; 0 where boxes only touch."""
        return box_overlap(self.detections[detections], self.truths[truths], self.crowd[truths])


def box_overlap(detected: np.ndarray, true: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """(P,) IoU of (P, 4) boxes, row by row; where (P,) `crowd`, the denominator is the detection's area."""
    dx, dy, dw, dh = np.ascontiguousarray(detected.T)
    tx, ty, tw, th = np.ascontiguousarray(true.T)
    width = np.minimum(dw + dx, tw + tx) - np.maximum(dx, tx)
    height = np.minimum(dh + dy, th + ty) - np.maximum(dy, ty)
    touching = np.flatnonzero((width > 0) & (height > 0))
    intersection = width[touching] * height[touching]
    area = dw[touching] * dh[touching]
    union = area + tw[touching] * th[touching] - intersection
    union = np.where(crowd[touching], area, union)
    out = np.zeros(len(width))
    out[touching] = intersection / union
    return out
