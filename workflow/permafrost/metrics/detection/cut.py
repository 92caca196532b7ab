"""Detections and objects that a cap excludes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cut:
    """Detections and objects that a cap per image and category excludes.

    Attributes
    ----------
    cap : the largest evaluated cap.
    detections : number of detections beyond the cap.
    images : number of images with more detections or objects of a category than the cap.
    objects : number of truths beyond the cap, which no detector can find; without crowds and ignored truths.
    most : the largest number of detections or objects of an image and category.
    """

    cap: int
    detections: int = 0
    objects: int = 0
    images: int = 0
    most: int = 0

    @classmethod
    def of(cls, found: np.ndarray, true: np.ndarray, image: np.ndarray, cap: int) -> Cut:
        """From (C,) counts of detections and objects, and the image, of cells; a negative cap means none."""
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
        """The excluded numbers, such as ``50 detections and 50 objects``."""
        amounts = ((self.detections, "detections"), (self.objects, "objects"))
        return " and ".join(f"{number} {what}" for number, what in amounts if number)
