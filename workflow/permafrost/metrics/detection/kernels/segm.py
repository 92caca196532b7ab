"""Intersection over union of masks."""

from __future__ import annotations

import numpy as np

from ..masks.packed import overlaps, pack, packed_sizes
from ..masks.runs import Masks
from ..ragged import in_blocks

# words of packed masks held at once
_BLOCK = 1 << 16


class MaskOverlap:
    """IoU in pixels; against a crowd, the share of the detection inside it.

    Masks of different sizes have IoU -1, as in pycocotools: they match nothing. Empty masks have
    IoU 0 with everything.
    """

    def __init__(self, detections: Masks, truths: Masks, crowd: np.ndarray) -> None:
        self.crowd = crowd
        self.detections, self.truths = detections, truths
        self.areas = self.detections.areas(), self.truths.areas()
        self.boxes = self.detections.boxes(), self.truths.boxes()
        self.sizes = packed_sizes(self.detections)

    @classmethod
    def of(cls, problem) -> MaskOverlap:
        """From the masks of a `Problem`."""
        return cls(problem.detection_masks, problem.truth_masks, problem.truths.crowd)

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) most that the IoU can be, from areas and boxes."""
        a, b = self.boxes[0][detections], self.boxes[1][truths]
        width = np.minimum(a[:, 0] + a[:, 2], b[:, 0] + b[:, 2]) - np.maximum(a[:, 0], b[:, 0])
        height = np.minimum(a[:, 1] + a[:, 3], b[:, 1] + b[:, 3]) - np.maximum(a[:, 1], b[:, 1])
        area, other = self.areas[0][detections], self.areas[1][truths]
        most = np.maximum(width, 0) * np.maximum(height, 0)
        most = np.minimum(most, np.minimum(area, other))
        union = np.where(self.crowd[truths], area, area + other - most)
        return most / np.maximum(union, 1)

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) IoU."""
        shared = shared_pixels(self.detections, self.truths, detections, truths, self.sizes)
        out = self.ratio(
            shared, self.areas[0][detections], self.areas[1][truths], self.crowd[truths]
        )
        other = self.detections.heights[detections] != self.truths.heights[truths]
        other |= self.detections.widths[detections] != self.truths.widths[truths]
        # pycocotools looks at the sizes only where the boxes meet
        out[other] = np.where(self.bound(detections[other], truths[other]) > 0, -1.0, 0.0)
        return out

    @staticmethod
    def ratio(shared, area, other, crowd) -> np.ndarray:
        """Shared pixels over the union, or over the detection for a crowd; 0 where none is shared."""
        union = np.where(crowd, area, area + other - shared)
        return shared / np.where(shared == 0, 1, union)


def shared_pixels(first: Masks, second: Masks, rows, others, sizes) -> np.ndarray:
    """(P,) pixels shared by pairs of masks; `sizes` are the words of each mask of `first`.

    Pairs of neighbouring rows share masks, so packing goes block by block.
    """
    out = np.zeros(len(rows), np.int64)
    for block in in_blocks(sizes[rows] + 1, _BLOCK):
        some, row = np.unique(rows[block], return_inverse=True)
        few, other = np.unique(others[block], return_inverse=True)
        out[block] = overlaps(pack(first.take(some)), pack(second.take(few)), row, other)
    return out
