"""Intersection over union of masks."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.detection.masks.packed import overlaps, pack, packed_sizes
from permafrost.metrics.detection.masks.pieces import Pieces, shared_by_pieces
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.ragged import in_blocks

# 64-bit words of packed masks in memory at once
_BLOCK = 1 << 16
# pairs of pieces per column above which counting packed bits was faster in measurements
_RAGGED = 3.0


class MaskOverlap:
    """IoU of masks in pixels; for a crowd, the share of the detection inside it.

    Masks of different image sizes have IoU -1, as in pycocotools, so that they never match. Empty masks
    have IoU 0 with all others.
    """

    def __init__(self, detections: Masks, truths: Masks, crowd: np.ndarray) -> None:
        self.crowd = crowd
        self.detections, self.truths = detections, truths
        self.areas = self.detections.areas(), self.truths.areas()
        self.pieces = Pieces.of(detections), Pieces.of(truths)
        self.boxes = tuple(pieces.boxes() for pieces in self.pieces)

    @classmethod
    def of(cls, problem) -> MaskOverlap:
        """From the masks of a `Problem`."""
        return cls(problem.detection_masks, problem.truth_masks, problem.truths.crowd)

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) upper bound of the IoU, from areas and boxes."""
        a, b = self.boxes[0][detections], self.boxes[1][truths]
        width = np.minimum(a[:, 0] + a[:, 2], b[:, 0] + b[:, 2]) - np.maximum(a[:, 0], b[:, 0])
        height = np.minimum(a[:, 1] + a[:, 3], b[:, 1] + b[:, 3]) - np.maximum(a[:, 1], b[:, 1])
        area, other = self.areas[0][detections], self.areas[1][truths]
        most = np.maximum(width, 0) * np.maximum(height, 0)
        most = np.minimum(most, np.minimum(area, other))
        union = np.where(self.crowd[truths], area, area + other - most)
        return most / np.maximum(union, 1)

    def extents(self) -> tuple[np.ndarray, np.ndarray]:
        """The boxes around the masks."""
        return self.boxes

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) IoU."""
        out = self.ratio(
            self._shared(detections, truths),
            self.areas[0][detections],
            self.areas[1][truths],
            self.crowd[truths],
        )
        other = self.detections.heights[detections] != self.truths.heights[truths]
        other |= self.detections.widths[detections] != self.truths.widths[truths]
        # pycocotools compares the sizes only if the boxes overlap
        out[other] = np.where(self.bound(detections[other], truths[other]) > 0, -1.0, 0.0)
        return out

    def _shared(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) number of common pixels."""
        mine, theirs = self.pieces
        ragged = mine.density()[detections] * theirs.density()[truths] > _RAGGED
        out = np.empty(len(detections), np.int64)
        out[~ragged] = shared_by_pieces(mine, theirs, detections[~ragged], truths[~ragged])
        out[ragged] = shared_by_bits(
            self.detections, self.truths, detections[ragged], truths[ragged]
        )
        return out

    @staticmethod
    def ratio(shared, area, other, crowd) -> np.ndarray:
        """Shared pixels over the union, or over the detection for a crowd; 0 without shared pixels."""
        union = np.where(crowd, area, area + other - shared)
        return shared / np.where(shared == 0, 1, union)


def shared_by_bits(first: Masks, second: Masks, rows, others) -> np.ndarray:
    """(P,) pixels shared by pairs of masks.

    Consecutive pairs share masks, so masks are packed block by block.
    """
    out = np.zeros(len(rows), np.int64)
    for block, mine, theirs, row, other in packed_blocks(first, second, rows, others):
        out[block] = overlaps(pack(mine), pack(theirs), row, other)
    return out


def packed_blocks(first: Masks, second: Masks, rows, others):
    """Yield blocks of pairs: a slice, its masks of both sides, and the pairs' positions among them."""
    used, row_of = np.unique(rows, return_inverse=True)
    sizes = packed_sizes(first.take(used))[row_of]
    for block in in_blocks(sizes + 1, _BLOCK):
        some, row = np.unique(rows[block], return_inverse=True)
        few, other = np.unique(others[block], return_inverse=True)
        yield block, first.take(some), second.take(few), row, other
