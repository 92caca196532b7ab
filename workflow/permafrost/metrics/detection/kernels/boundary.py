"""Boundary IoU: the smaller of the IoU of the masks and the IoU of the bands along their outlines."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.detection.kernels.segm import MaskOverlap, packed_blocks
from permafrost.metrics.detection.masks.packed import bands, overlaps
from permafrost.metrics.detection.masks.runs import Masks


class BoundaryOverlap:
    """Boundary IoU as in boundary-iou-api; crowds are compared by mask IoU alone.

    The band of a mask consists of the pixels that a 3 x 3 erosion, repeated `margin` times, removes. The
    image's edge counts as outline.
    """

    def __init__(self, masks: MaskOverlap, ratio: float) -> None:
        self.masks, self.ratio = masks, ratio

    @classmethod
    def of(cls, problem) -> BoundaryOverlap:
        """From the masks of a `Problem`."""
        return cls(MaskOverlap.of(problem), problem.boundary_ratio)

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) the upper bound of the mask IoU."""
        return self.masks.bound(detections, truths)

    def extents(self) -> tuple[np.ndarray, np.ndarray]:
        """The boxes around the masks."""
        return self.masks.extents()

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) boundary IoU."""
        out = self.masks.exact(detections, truths)
        # masks without common pixels have no common band
        plain = np.flatnonzero(~self.masks.crowd[truths] & (out > 0))
        band = self._bands(detections[plain], truths[plain])
        out[plain] = np.minimum(out[plain], band)
        return out

    def _bands(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        out = np.zeros(len(rows))
        masks = self.masks.detections, self.masks.truths
        for block, some, few, row, other in packed_blocks(*masks, rows, others):
            mine, theirs = self._outlined(some), self._outlined(few)
            shared = overlaps(mine, theirs, row, other)
            out[block] = MaskOverlap.ratio(
                shared, mine.counts()[row], theirs.counts()[other], np.zeros(len(shared), bool)
            )
        return out

    def _outlined(self, masks: Masks):
        return bands(masks, band_widths(masks.heights, masks.widths, self.ratio))


def band_widths(heights: np.ndarray, widths: np.ndarray, ratio: float) -> np.ndarray:
    """(N,) pixels: the share `ratio` of the image's diagonal, rounded half to even, at least 1."""
    diagonal = np.sqrt(heights.astype(np.float64) ** 2 + widths.astype(np.float64) ** 2)
    return np.maximum(np.rint(ratio * diagonal), 1).astype(np.int64)
