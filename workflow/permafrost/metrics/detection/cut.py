"""What a cap on detections leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cut:
    """What a cap on the detections of an image and category leaves out.

    Attributes
    ----------
    cap : the largest that was evaluated.
    detections, images : detections beyond it, and images that have some or more objects than it.
    objects : truths beyond it, crowds and ignored ones left out: no detector can find them.
    most : the largest number of detections or objects of an image and category.
    """

    cap: int
    detections: int = 0
    objects: int = 0
    images: int = 0
    most: int = 0

    @classmethod
    def of(cls, found: np.ndarray, true: np.ndarray, image: np.ndarray, cap: int) -> Cut:
        """From (C,) detections and objects of cells, each of one image and category; a negative cap is none."""
        if cap < 0 or not found.size:
            return cls(cap)
        beyond = [np.maximum(counts - cap, 0) for counts in (found, true)]
        images = len(np.unique(image[(beyond[0] + beyond[1]) > 0]))
        most = int(max(found.max(), true.max()))
        return cls(cap, int(beyond[0].sum()), int(beyond[1].sum()), images, most)

    @classmethod
    def of_cells(cls, detections: np.ndarray, truths: np.ndarray, images: int, cap: int) -> Cut:
        """From the cell of every detection and object: category times `images` plus image."""
        cells = np.union1d(detections, truths)
        found, true = (
            np.bincount(np.searchsorted(cells, side), minlength=len(cells))
            for side in (detections, truths)
        )
        return cls.of(found, true, cells % max(images, 1), cap)

    def __bool__(self) -> bool:
        return self.images > 0

    def words(self) -> str:
        """How many are left out, such as ``50 detections and 50 objects``."""
        amounts = ((self.detections, "detections"), (self.objects, "objects"))
        return " and ".join(f"{number} {what}" for number, what in amounts if number)
